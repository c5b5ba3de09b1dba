"""The tables of docs/reference that falcon's options make: ``python docs/_ext/tables.py``.

They stand in the pages, so that these can be read without building the site; a test holds them
current.
"""

import re
from pathlib import Path

from falcon._core.options import FIELDS
from falcon._core.variables import OTHER_VARIABLES

REFERENCE = Path(__file__).parents[1] / "reference"
BEGIN, END = "<!-- table: python docs/_ext/tables.py -->\n", "<!-- end of table -->\n"


def environment() -> str:
    """Return the table of environment variables, those of options first."""
    lines = ["| variable | sets | means |", "| --- | --- | --- |"]
    for name, option in FIELDS.items():
        _, text = _described(option.metadata["text"])
        lines.append(f"| `{option.metadata['variable']}` | `{name}` | {text} |")
    lines += [f"| `{name}` | | {text} |" for name, text in OTHER_VARIABLES.items()]
    return "\n".join(lines)


def settings() -> str:
    """Return the table of options: types, defaults, and whether a call takes them as keywords."""
    lines = ["| option | type | default | a keyword | means |", "| --- | --- | --- | --- | --- |"]
    for name, option in FIELDS.items():
        kind, text = _described(option.metadata["text"])
        keyword = "yes" if option.metadata["keyword"] else "no"
        lines.append(f"| `{name}` | {kind} | `{option.default!r}` | {keyword} | {text} |")
    return "\n".join(lines)


def _described(text: str) -> tuple[str, str]:
    """Split the documentation of an option into its type and one line, values as code."""
    kind, _, rest = text.partition("\n")
    line = " ".join(rest.split()).replace("|", "\\|")
    return kind.strip(), re.sub(r"(?<!`)(\"[^\"]*\")", r"`\1`", line)


def updated(page: Path) -> str:
    """Return the text of a page, whose name is that of its maker, with a new table."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{globals()[page.stem]()}\n\n{END}{after}"


PAGES = tuple(REFERENCE / f"{maker.__name__}.md" for maker in (environment, settings))

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path), encoding="utf-8")
