"""The table of docs/schemes.md: ``python -m falcon.discover.catalogue.table docs/schemes.md``.

Everything in it follows from the catalogue and from two small files: the best known ranks and
additions (`data/known.csv`) and the measured speed-ups (`data/speed.csv`, written by
``python studies/schemes.py``).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from falcon import schemes
from falcon.schemes import Scheme

from ..walk.masks import Format

BEGIN = "<!-- table: python -m falcon.discover.catalogue.table docs/schemes.md -->\n"
END = "<!-- end of table -->\n"
HEADER = (
    "| format | scheme | rank | best known | mkn/R | nnz | additions | known | RMS growth "
    "| at 2048 | at 4096 |\n"
    "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n"
)
SIZES = ("2048", "4096")


def known() -> dict[Format, tuple[int, str]]:
    """Best known rank over {-1, 0, 1} per format, and the least published additions at it."""
    return {
        (int(row["m"]), int(row["k"]), int(row["n"])): (int(row["rank"]), row["additions"])
        for row in _rows("known.csv")
    }


def speeds() -> dict[tuple[str, str], float]:
    """Measured speed-up over falcon's classical path, per scheme and size."""
    return {(row["scheme"], row["size"]): float(row["speedup"]) for row in _rows("speed.csv")}


def _rows(name: str) -> Iterator[dict[str, str]]:
    file = resources.files(__package__) / "data" / name
    if file.is_file():
        yield from csv.DictReader(file.read_text(encoding="utf-8").splitlines())


def stored() -> list[Scheme]:
    """The catalogue's schemes that are named by their format, by format and rank."""
    found = [schemes.get(name) for name in schemes.names() if name[0].isdigit()]
    found = [scheme for scheme in found if not scheme.is_classical]
    return sorted(found, key=lambda x: (x.format, x.rank, sum(x.nnz), x.additions.reduced))


def table() -> str:
    """The table as Markdown."""
    best, measured = known(), speeds()
    lines = []
    for scheme in stored():
        rank, additions = best[scheme.format]
        additions = additions if scheme.rank == rank else ""
        ratios = (measured.get((scheme.name, size)) for size in SIZES)
        cells = (
            "x".join(map(str, scheme.format)),
            f"`{scheme.name}`",
            scheme.rank,
            rank,
            f"{scheme.speedup_bound:.3f}",
            sum(scheme.nnz),
            scheme.additions.reduced,
            additions,
            f"{scheme.rms_growth:.2f}",
            *("" if ratio is None else f"{ratio:.3f}" for ratio in ratios),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |\n")
    return HEADER + "".join(lines)


def updated(text: str) -> str:
    """Replace the table in the text of a document.

    Raises
    ------
    ValueError
        The document has no place for it.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks the lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{begin}\n{table()}\n{end}{after}"


def main(arguments: list[str]) -> int:
    """Rewrite the table in the documents that are named."""
    for name in arguments:
        path = Path(name)
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
