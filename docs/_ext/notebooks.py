"""The course for Jupyter, and pictures for slides: ``python docs/_ext/notebooks.py FOLDER``.

The site's build writes the same files as ``learn/falcon-course.zip``. Their source are the pages of
docs/learn; a notebook's code finds course.py beside it, and reference/ above it.
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEARN = ROOT / "docs" / "learn"
SLIDE = 12  # products that half a picture has at least
PICTURES = ("strassen", "winograd", "hopcroft-kerr", "laderman", "3x4x4:38")
_CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANSWERS = re.compile(r"^```\{dropdown\} (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ELSEWHERE = re.compile(r"\[([^]]*)\]\(\.\./([^)#]*)[^)]*\)")


def notebook(page: str) -> dict:
    """Return a page of the course as a notebook, not executed."""
    text = page.partition("\n---\n")[2]  # behind the front matter
    cells = []
    for at, part in enumerate(_CELL.split(text)):  # text and code in turn
        source = part.strip()
        kind: dict = {"cell_type": "code", "execution_count": None, "outputs": []}
        if at % 2 == 0:
            kind = {"cell_type": "markdown"}
            source = _ELSEWHERE.sub(r"\1 (docs/\2)", source)
            source = _ANSWERS.sub(r"<details><summary>\1</summary>\n\n\2\n</details>", source)
        if source:
            lines = source.splitlines(keepends=True)
            cells.append({"id": f"cell-{at}", "metadata": {}, **kind, "source": lines})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": about, "cells": cells}


def write(folder: Path) -> None:
    """Write notebooks, what they import, and pictures of schemes as SVG and PNG."""
    import falcon  # the notebooks alone need no installation

    for name in ("learn", "reference", "pictures"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for page in sorted(LEARN.glob("[1-9]_*.md")):
        made = json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
        (folder / "learn" / f"{page.stem}.ipynb").write_text(made + "\n", encoding="utf-8")
    shutil.copy(LEARN / "course.py", folder / "learn")
    for path in (ROOT / "reference").glob("*.py"):
        shutil.copy(path, folder / "reference")
    for path in (ROOT / "docs").glob("*.svg"):
        shutil.copy(path, folder / "pictures")
    for name in PICTURES:
        scheme, file = falcon.schemes.get(name), name.replace(":", "_")
        parts, half = {file: None}, scheme.rank // 2
        if half > SLIDE:
            every = range(1, scheme.rank + 1)
            parts |= {f"{file}-1": every[:half], f"{file}-2": every[half:]}
        for part, products in parts.items():
            picture = scheme.draw(products)
            for suffix in ("svg", "png"):
                picture.savefig(folder / "pictures" / f"{part}.{suffix}", dpi=200)


def _zip(app, error) -> None:
    if error is None and app.builder.format == "html":
        with tempfile.TemporaryDirectory() as made:
            write(Path(made) / "falcon-course")
            shutil.make_archive(f"{app.outdir}/learn/falcon-course", "zip", made)


def setup(app) -> dict[str, bool]:
    """Write the archive when the site is built."""
    app.connect("build-finished", _zip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/_ext/notebooks.py FOLDER")
    write(Path(sys.argv[1]))
