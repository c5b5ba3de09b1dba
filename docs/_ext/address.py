"""Links that need the repository's address: ``python docs/_ext/address.py``.

The one setting is `Repository` of ``[project.urls]`` in pyproject.toml, which has none today:

    [project.urls]
    Repository = "https://github.com/OWNER/NAME"

Run the script when it has changed. It fills README.md, the pages and CITATION.cff, and writes the
first lesson's notebook for Colab and Binder, which open what lies on GitHub. Without the setting
none of them has a link or a placeholder.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

from notebooks import LEARN, notebook

ROOT = Path(__file__).parents[2]
GITHUB = "https://github.com/"
LESSON = Path("docs/learn/1_seven_products.ipynb")
BEGIN, END = "<!-- address: python docs/_ext/address.py -->\n", "<!-- end of address -->\n"
# The first cell of the notebook: in Colab nothing is there but the notebook.
_SETUP = """# In Colab: install falcon, which takes some minutes, and go to this notebook's folder.
from pathlib import Path

if not Path("course.py").exists():
    !git clone --quiet --depth 1 {} falcon
    %pip install --quiet ./falcon
    %cd falcon/docs/learn"""


def repository(root: Path = ROOT) -> str:
    """Return the repository's address; empty if it is not set."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def _clone(address: str) -> str:
    return f"```\ngit clone {address} falcon && cd falcon\n```\n"


def _lesson(address: str) -> str:
    if not address.startswith(GITHUB):
        return ""
    name = address.removeprefix(GITHUB)
    colab = f"https://colab.research.google.com/github/{name}/blob/main/{LESSON}"
    binder = f"https://mybinder.org/v2/gh/{name}/main?urlpath=lab/tree/{LESSON}"
    return f"The first lesson opens in [Colab]({colab}) and in [Binder]({binder}).\n"


PAGES = {"README.md": _lesson, "docs/learn/index.md": _lesson, "docs/install.md": _clone}


def write(root: Path = ROOT) -> None:
    """Fill what depends on the address."""
    address = repository(root)
    for name, links in PAGES.items():
        page = root / name
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        said = links(address) if address else ""
        filled = f"{BEGIN}\n{said}\n{END}" if said else BEGIN + END
        page.write_text(f"{before}{filled}{rest.partition(END)[2]}", encoding="utf-8")
    cite = root / "CITATION.cff"
    text = re.sub(r"^repository-code: .*\n", "", cite.read_text(encoding="utf-8"), flags=re.M)
    line = f"repository-code: {address}\n" if address else ""
    cite.write_text(re.sub(r"^(?=version: )", line, text, flags=re.M), encoding="utf-8")
    if address.startswith(GITHUB):
        made = notebook((LEARN / LESSON.with_suffix(".md").name).read_text(encoding="utf-8"))
        source = _SETUP.format(address).splitlines(keepends=True)
        code = {"cell_type": "code", "execution_count": None, "outputs": []}
        made["cells"].insert(0, {"id": "setup", "metadata": {}, **code, "source": source})
        text = json.dumps(made, indent=1, ensure_ascii=False)
        (root / LESSON).write_text(f"{text}\n", encoding="utf-8")
    else:
        (root / LESSON).unlink(missing_ok=True)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
