"""Write tables: ``python -m falcon.discover.catalogue.table docs/schemes.md docs/finding.md``.

The catalogue's schemes (docs/schemes.md), and per format the best of falcon's and of the literature
(docs/finding.md), whose ranks and additions are in `data/known.csv`.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from importlib import resources
from itertools import groupby
from pathlib import Path

from falcon import schemes
from falcon.schemes import Scheme

from ..walk.masks import Format


def known() -> dict[Format, tuple[int, str]]:
    """Best known rank over {-1, 0, 1} per format, and the least published additions at it."""
    text = (resources.files(__package__) / "data" / "known.csv").read_text(encoding="utf-8")
    return {
        (int(row["m"]), int(row["k"]), int(row["n"])): (int(row["rank"]), row["additions"])
        for row in csv.DictReader(text.splitlines())
    }


def stored() -> list[Scheme]:
    """The catalogue's schemes that are named by their format, by format and rank."""
    found = [schemes.get(name) for name in schemes.names() if name[0].isdigit()]
    found = [scheme for scheme in found if not scheme.is_classical]
    return sorted(found, key=lambda x: (x.format, x.rank, sum(x.nnz), x.additions.reduced))


def of_schemes() -> str:
    """A row per scheme."""
    head = ("scheme", "rank", "mkn/R", "nnz", "additions", "RMS growth")
    return _markdown(head, [
        (f"`{x.name}`", x.rank, f"{x.speedup_bound:.3f}", sum(x.nnz), x.additions.reduced,
         f"{x.rms_growth:.2f}")
        for x in stored()
    ])  # fmt: skip


def of_formats() -> str:
    """A row per format: lowest rank and fewest additions at it, falcon's and those published."""
    best, rows = known(), []
    for size, group in groupby(stored(), key=lambda x: x.format):
        least = min(group, key=lambda x: (x.rank, x.additions.reduced))
        name = f"{'x'.join(map(str, size))}:{least.rank}"
        rows.append((name, best[size][0], least.additions.reduced, best[size][1]))
    return _markdown(("format:rank", "best known rank", "additions", "published"), rows)


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    """A table whose first column holds names, the others numbers."""
    lines = [head, ("---", *["--:"] * (len(head) - 1)), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


TABLES = {"schemes": of_schemes, "formats": of_formats}
_PLACE = re.compile(
    rf"(<!-- table of ({'|'.join(TABLES)})[^\n]*-->\n).*?(<!-- end of table -->)", re.S
)


def updated(text: str) -> str:
    """Replace the tables in the text of a document.

    Raises
    ------
    ValueError
        The document has no place for one.
    """
    if not _PLACE.search(text):
        raise ValueError("the document lacks '<!-- table of ... -->' and '<!-- end of table -->'")
    return _PLACE.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", text)


def main(arguments: list[str]) -> int:
    """Rewrite the tables in the documents that are named."""
    for name in arguments:
        path = Path(name)
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
