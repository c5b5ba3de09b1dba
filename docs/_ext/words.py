"""Count the words of prose on each page: ``python docs/_ext/words.py``, which .ci/docs prints.

Without code, tables and comments.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def prose(text: str) -> int:
    """Return the words of a page."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.S)
    return sum(len(x.split()) for x in text.splitlines() if not x.lstrip().startswith("|"))


def main() -> None:
    """Print the words of each page, most first, and of all."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found = {
        x.relative_to(ROOT): prose(x.read_text("utf-8")) for x in pages if "_build" not in x.parts
    }
    for page, words in sorted(found.items(), key=lambda x: -x[1]):
        print(f"{words:6} {page}")
    print(f"{sum(found.values()):6} in all")


if __name__ == "__main__":
    main()
