"""Pages with pictures of record files: ``python studies/report.py RECORD... [-o DIR]``.

Per record file of ``bench -o`` one self-contained page, and its pictures as files (SVG and PNG), in
a folder named as the record.
"""

from __future__ import annotations

import argparse
import base64
import io
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import matplotlib.pyplot as plt
from figures import FIGURES, style

from falcon._core.progress import Progress
from falcon.bench import records, tables


def write(document: dict[str, Any], folder: Path) -> Path:
    """Draw the pictures of a record file and write the page; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    with style():
        for name, title, text, draw in FIGURES:
            figure = draw(document)
            if figure is None:
                continue
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
            figure.savefig(folder / f"{name}.png", dpi=130, metadata={"Software": None})
            plt.close(figure)
            (folder / f"{name}.svg").write_bytes(drawn.getvalue())
            data = base64.b64encode(drawn.getvalue()).decode("ascii")
            pictures.append(f'<h2>{title}</h2>\n<p>{text}</p>\n<img alt="{title}" '
                            f'src="data:image/svg+xml;base64,{data}">')  # fmt: skip
    path = folder / "index.html"
    path.write_text(page(document, pictures), encoding="utf-8")
    return path


def page(document: dict[str, Any], pictures: list[str]) -> str:
    """Return the page: verdicts, warnings, pictures, and what `bench` prints of the file."""
    won = [f"<b>{escape(group)}</b>. Fastest: {escape(side)}."
           for group, side in tables.verdicts(document)]  # fmt: skip
    wrong, others = (map(escape, said) for said in tables.doubts(document))
    template = Path(__file__).with_suffix(".template").read_text(encoding="utf-8")
    return Template(template).substitute(
        setting=escape(_setting(document)),
        verdicts=_paragraphs(won, "verdict"),
        severe=_paragraphs(wrong, "severe"),
        warnings=_paragraphs(others, "warning"),
        pictures="\n".join(pictures),
        tables=escape(tables.text(document)),
    )


def _paragraphs(texts: Iterable[str], kind: str) -> str:
    return "\n".join(f'<p class="{kind}">{x}</p>' for x in texts)


def _setting(document: dict[str, Any]) -> str:
    """Return on which machine, with which versions and when it was measured."""
    machine, sessions = document["machine"], document["sessions"]
    caches = "".join(f"; {k} {v // 1024} KiB" for k, v in machine["caches"].items())
    known = [x["falcon"] for x in sessions]
    versions = dict.fromkeys(
        f"falcon {x['version']}" + (f" ({x['commit']}{', modified' * x['modified']})"
                                    if x["commit"] else "") for x in known)  # fmt: skip
    times = sorted(x["started"][:16].replace("T", " ") for x in sessions)
    return (
        f"{tables.describe_machine(document)}{caches}; {machine['system']}; Python "
        f"{machine['python']}. {', '.join(versions)}. Measured "
        f"{' to '.join(dict.fromkeys((times[0], times[-1])))} UTC in {len(sessions)} sessions."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder of one record")
    options = parser.parse_args()
    if options.output and len(options.records) > 1:
        parser.error(f"{len(options.records)} records were given; --output takes one")
    for path in options.records:
        try:
            document = records.read(path)
        except (ValueError, OSError) as error:
            parser.error(str(error))
        with Progress("drawing"):
            written = write(document, options.output or path.with_suffix(""))
        print(written)


if __name__ == "__main__":
    main()
