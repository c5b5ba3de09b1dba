"""From a folder of finds to catalogue files: ``python -m falcon.discover.collect FOLDER``.

Per format and for its lowest rank up to three schemes are kept: the one with the fewest non-zeros
(``2x3x4:20``), the one with the least error growth (``-rms``) and the one with the fewest
additions (``-adds``), each with the programs of its sums. Ties go to the other costs, and then to
schemes whose file says how they were found.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from falcon import schemes
from falcon.schemes import Scheme

from . import masks, sums
from .improve import Entry
from .masks import Format

_STORED = re.compile(r"\d+x\d+x\d+:\d+(-rms|-adds)?")
SUFFIXES = {"nnz": "", "growth": "-rms", "additions": "-adds"}
TITLES = {
    "nnz": "fewest non-zeros found",
    "growth": "least RMS growth found",
    "additions": "fewest additions found",
}


def main(arguments: list[str] | None = None) -> int:
    """Update the catalogue's files; print what has changed."""
    parser = argparse.ArgumentParser(prog="python -m falcon.discover.collect", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+", help="where finds are")
    parser.add_argument("--rounds", type=int, default=3000, help="per factor, for its additions")
    default = Path(schemes.__file__).parent / "data"
    parser.add_argument("--out", type=Path, default=default, help="the catalogue's folder")
    options = parser.parse_args(arguments)
    held = candidates(options.folder)
    for dims in tqdm(sorted(held), disable=not sys.stderr.isatty()):
        texts = chosen(dims, held[dims], options.rounds)
        stem = f"{'x'.join(map(str, dims))}_{held[dims][0].rank}"
        for path in (options.out / f"{stem}{suffix}.json" for suffix in SUFFIXES.values()):
            text = texts.get(path.stem.replace("_", ":"))
            if text is None and path.exists():
                path.unlink()
                print(f"{path} deleted: others are as good")
            elif text and (not path.exists() or path.read_text(encoding="utf-8") != text):
                path.write_text(text, encoding="utf-8")
                print(path)
    return 0


def candidates(folders: list[Path]) -> dict[Format, list[Scheme]]:
    """Schemes of the lowest rank per format, of the catalogue and of the folders."""
    held: dict[Format, list[Scheme]] = {}
    known = [schemes.get(name) for name in schemes.names() if _STORED.fullmatch(name)]
    found = [
        schemes.load(path)
        for folder in folders
        for path in sorted(folder.glob("*.json"))
    ]  # fmt: skip
    for scheme in (*found, *known):
        m, k, n = scheme.format
        if m <= k <= n and wanted((m, k, n)):
            held.setdefault((m, k, n), []).append(scheme)
    for dims, some in held.items():
        lowest = min(scheme.rank for scheme in some)
        held[dims] = [scheme for scheme in some if scheme.rank == lowest]
    return held


def wanted(dims: Format) -> bool:
    """Whether a format belongs to the catalogue: all sizes 2 to 5, or one 6 to 8 and two to 4."""
    m, k, n = sorted(dims)
    return m >= 2 and (n <= 5 or (n <= 8 and k <= 4))


def chosen(dims: Format, some: list[Scheme], rounds: int) -> dict[str, str]:
    """JSON texts of the schemes to be stored, by name."""
    judged = []
    for scheme in some:
        terms = masks.terms_of(scheme)
        additions, programs = _reduced(scheme, terms, rounds)
        entry = Entry(terms, masks.nnz(terms), additions, masks.phi(terms), programs)
        judged.append((entry, "seed" not in scheme.source, scheme))
    texts: dict[str, str] = {}
    taken: list[Scheme] = []
    for objective, suffix in SUFFIXES.items():
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
        written = dict(zip("UVW", entry.programs, strict=True))
        texts[name] = schemes.loaders.to_json(renamed, written)
    return texts


def _equal(
    entry: Entry, judged: list[tuple[Entry, bool, Scheme]], other: Scheme, objective: str
) -> bool:
    """Whether a scheme that is stored already is as good by the objective."""
    held = next(x for x, _, scheme in judged if scheme is other)
    return held.key(objective)[0] <= entry.key(objective)[0]


def _reduced(scheme: Scheme, terms: np.ndarray, rounds: int) -> tuple[int, sums.Programs]:
    """Additions and programs, those of the scheme's file where none better are found."""
    rng = random.Random(str(scheme.format))
    stored = _programs(scheme)
    additions, programs = sums.reduce(terms, scheme.format, rounds, rng, stored)
    if stored and additions >= sums.reduce(terms, scheme.format, 0, rng, stored)[0]:
        return additions, stored
    return additions, programs


def _programs(scheme: Scheme) -> sums.Programs | None:
    """Programs of U, V, W that the scheme's file holds, if it holds some."""
    found = []
    for factor in "UVW":
        pairs = schemes.additions.share(getattr(scheme, factor).reshape(scheme.rank, -1))
        found.append([(x, y, int(ratio)) for x, y, ratio in pairs.temporaries])
    # The greedy search orders variables its own way; the core's own programs have x < y.
    ordered = all(x < y for pairs in found for x, y, _ in pairs)
    return (found[0], found[1], found[2]) if ordered else None


if __name__ == "__main__":
    sys.exit(main())
