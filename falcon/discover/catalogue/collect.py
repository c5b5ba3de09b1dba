"""Make catalogue files of finds: ``python -m falcon.discover.catalogue.collect FOLDER``.

At the lowest rank of a format up to three schemes are kept: the one with the fewest non-zeros
(``2x3x4:20``), the one with the least error growth (``-rms``) and the one with the fewest
additions (``-adds``), each with its shared sums. The other costs break ties, then whether the file
says how the scheme was found. A find of a higher rank is kept if it has fewer non-zeros or less
error growth than every scheme of a lower rank.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from pathlib import Path

import numpy as np

from falcon import schemes
from falcon._tools.progress import Progress
from falcon.schemes import Scheme
from falcon.schemes.writing import to_json

from ..improve import Entry
from ..walk import masks, sums
from ..walk.masks import Format

_STORED = re.compile(r"\d+x\d+x\d+:\d+(-rms|-adds)?")
SUFFIXES = {"nnz": "", "growth": "-rms", "additions": "-adds"}
KINDS = {"nnz": "plain", "growth": "growth", "additions": "additions"}
TITLES = {
    "nnz": "fewest non-zeros found",
    "growth": "least RMS growth found",
    "additions": "fewest additions found",
}


def main(arguments: list[str] | None = None) -> int:
    """Update the catalogue's files; print what has changed."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+", help="folders of finds")
    parser.add_argument(
        "--rounds", type=int, default=3000, help="of reducing additions (default 3000)"
    )
    default = Path(schemes.__file__).parent / "data"
    parser.add_argument("--out", type=Path, default=default, help="the folder of the catalogue")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with Progress("reading schemes") as progress:
        held = candidates(options.folder)
        for dims, rank in sorted(held):
            progress.say(f"reducing additions of {dims}, rank {rank}")
            lowest = not any(other == dims and less < rank for other, less in held)
            some = held[dims, rank]
            texts = chosen(dims, some, options.rounds, tuple(SUFFIXES)[: 3 if lowest else 2])
            stem = f"{'x'.join(map(str, dims))}_{rank}"
            for path in (options.out / f"{stem}{suffix}.json" for suffix in SUFFIXES.values()):
                text = texts.get(path.stem.replace("_", ":"))
                if text is None and path.exists():
                    path.unlink()
                    progress.print(f"{path} deleted: others are as good")
                elif text and (not path.exists() or path.read_text(encoding="utf-8") != text):
                    path.write_text(text, encoding="utf-8")
                    progress.print(str(path))
    return 0


def candidates(folders: list[Path]) -> dict[tuple[Format, int], list[Scheme]]:
    """Schemes of the catalogue and of the folders that may be stored, by format and rank.

    All of the lowest rank of a format; of higher ranks in the folders, those with fewer non-zeros
    or less growth than all schemes of lower ranks.
    """
    held: dict[Format, dict[int, list[Scheme]]] = {}
    known = [schemes.get(name) for name in schemes.names() if _STORED.fullmatch(name)]
    found = [
        schemes.load(path)
        for folder in folders
        for path in sorted(folder.glob("*.json"))
    ]  # fmt: skip
    for scheme in found:
        if not all(np.isin(x, (-1, 0, 1)).all() for x in (scheme.U, scheme.V, scheme.W)):
            raise SystemExit(f"{scheme.name}: the catalogue holds coefficients of -1, 0 and 1")
    for scheme in (*found, *known):
        m, k, n = scheme.format
        if m <= k <= n and wanted((m, k, n)):
            held.setdefault((m, k, n), {}).setdefault(scheme.rank, []).append(scheme)
    new = {(scheme.format, scheme.rank) for scheme in found}
    kept: dict[tuple[Format, int], list[Scheme]] = {}
    for dims, ranks in held.items():
        lower: list[Scheme] = []
        for rank, some in sorted(ranks.items()):
            better = [scheme for scheme in some if _beats(scheme, lower)]
            if not lower or (better and (dims, rank) in new):
                kept[dims, rank] = better
            lower += some
    return kept


def _beats(scheme: Scheme, lower: list[Scheme]) -> bool:
    """Whether a scheme has fewer non-zeros, or grows less, than all of some others."""
    return all(sum(scheme.nnz) < sum(x.nnz) for x in lower) or all(
        scheme.phi < x.phi for x in lower
    )


def wanted(dims: Format) -> bool:
    """Whether a format belongs to the catalogue: all sizes 2 to 5, or one 6 to 8 and two to 4."""
    m, k, n = sorted(dims)
    return m >= 2 and (n <= 5 or (n <= 8 and k <= 4))


def chosen(
    dims: Format, some: list[Scheme], rounds: int, objectives: tuple[str, ...]
) -> dict[str, str]:
    """JSON texts of the schemes to be stored, by name."""
    judged = []
    for scheme in some:
        terms = masks.terms_of(scheme)
        additions, programs = _reduced(scheme, terms, rounds)
        entry = Entry(terms, masks.nnz(terms), additions, masks.phi(terms), programs)
        judged.append((entry, "seed" not in scheme.source, scheme))
    texts: dict[str, str] = {}
    taken: list[Scheme] = []
    for objective in objectives:
        suffix = SUFFIXES[objective]
        entry, _, scheme = min(judged, key=lambda x: (x[0].key(objective), x[1]))
        if any(scheme is other for other in taken):
            continue
        if suffix and any(_equal(entry, judged, other, objective) for other in taken):
            continue
        taken.append(scheme)
        name = f"{'x'.join(map(str, dims))}:{scheme.rank}{suffix}"
        source = scheme.source.split("; " + TITLES[objective])[0]
        source = re.sub(r"; (fewest|least) [^;]* found", "", source)
        renamed = scheme.renamed(name, f"{source}; {TITLES[objective]}")
        renamed = renamed.with_facts(KINDS[objective])
        written = dict(zip("UVW", entry.programs, strict=True))
        texts[name] = to_json(renamed.with_sums(written))
    return texts


def _equal(
    entry: Entry, judged: list[tuple[Entry, bool, Scheme]], other: Scheme, objective: str
) -> bool:
    """Whether a scheme that is stored already is as good by the objective."""
    held = next(x for x, _, scheme in judged if scheme is other)
    return held.key(objective)[0] <= entry.key(objective)[0]


def _reduced(scheme: Scheme, terms: np.ndarray, rounds: int) -> tuple[int, sums.Programs]:
    """Additions and programs: those of the scheme's file unless better ones are found."""
    rng = random.Random(str(scheme.format))
    stored = _programs(scheme)
    additions, programs = sums.reduce(terms, scheme.format, rounds, rng, stored)
    if stored and additions >= sums.reduce(terms, scheme.format, 0, rng, stored)[0]:
        return additions, stored
    return additions, programs


def _programs(scheme: Scheme) -> sums.Programs | None:
    """Programs of U, V, W that the scheme's file holds, if it holds all three."""
    held = scheme.sums or {}
    if held.keys() != set("UVW"):
        return None
    found = [[(x, y, ratio) for x, y, ratio in held[factor]] for factor in "UVW"]
    # Those of a scheme of another source may name the later variable first; the core's never do.
    ordered = all(x < y for pairs in found for x, y, _ in pairs)
    return (found[0], found[1], found[2]) if ordered else None


if __name__ == "__main__":
    sys.exit(main())
