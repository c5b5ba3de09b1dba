"""Search for schemes for X X^T: ``python -m falcon.discover.gram 4 4 --minutes 10``.

Walks over the flip graph from the classical algorithm, whose products on the diagonal of C are
symmetric, and from what was found. A flip that makes a product symmetric, or drops one, is always
taken, one that loses a symmetric product by the Metropolis rule: a symmetric product counts half.
Walks over {-1, 0, 1} need no lifting; those modulo 2 are faster, and some do not lift. Then
non-zeros are annealed at fixed cost.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from falcon.schemes import SymmetricScheme, symmetric

from .walk import tied
from .walk._core import Walker

# Of a walk: flips tried per step, steps without gain before it ends, temperatures, flips before a
# plus-transition, terms that those may add, and the chance that it starts at a find.
STEP, PATIENCE = 1_000_000, 6
TEMPERATURES = (0.1, 0.15, 0.2, 0.3, 0.4)
PLUS_AFTER, MARGINS = (5_000, 20_000, 100_000), (1, 2, 3)
FROM_POOL, POOL = 0.5, 32
# Of the annealing of non-zeros: share of a tied term that a non-zero counts, and temperatures.
SPARSITY, HEATS = 0.05, (0.12, 0.08, 0.05, 0.03)


class Search:
    """Walks for one format; `best` is the best scheme so far, see `rating`.

    Parameters
    ----------
    m, k : int
        X has m x k blocks.
    seed : int
    mod2 : bool
        Walk modulo 2 and lift.
    source : str
        The record of how finds were found.
    triangles : bool
        Count a symmetric product half only where it is not needed off the diagonal of C.
    known : sequence of SymmetricScheme
        Ternary schemes of this format to begin with.
    """

    def __init__(
        self,
        m: int,
        k: int,
        seed: int,
        *,
        mod2: bool,
        source: str,
        triangles: bool = False,
        known: Sequence[SymmetricScheme] = (),
    ) -> None:
        self.m, self.k, self.mod2, self.source = m, k, mod2, source
        self.triangles = triangles
        self.barred = sum(
            1 << i * m + j for i in range(m) for j in range(m) if triangles and i != j
        )
        self.rng = random.Random(seed)
        self.best = min(known, key=self.rating, default=None)
        self.cost = 2 * len(tied.start(m, k))
        if self.best is not None:
            self.cost = int(2 * self.rating(self.best)[0])
        # Terms of the least cost over this ring.
        self.pool = [tied.terms_of(x) for x in known if 2 * self.rating(x)[0] == self.cost]
        self.from_pool = 1.0 if known else FROM_POOL
        self.walks = 0

    def step(self) -> SymmetricScheme | None:
        """Walk once; return the find if it is the best so far."""
        from_pool = bool(self.pool) and self.rng.random() < self.from_pool
        terms = self.rng.choice(self.pool) if from_pool else tied.start(self.m, self.k)
        self.walks += 1
        cost, terms = self._walk(terms)
        if cost > self.cost:
            return None
        if cost < self.cost:
            self.cost, self.pool = cost, []
        self.pool = [*self.pool[-POOL + 1 :], terms]
        if self.mod2:
            terms = tied.lift(terms, self.m, self.k, self.rng)
            if not len(terms):
                return None
        found = tied.scheme_of(self._sparser(terms), self.m, self.k, self.source)
        if self.best is not None and self.rating(found) >= self.rating(self.best):
            return None
        self.best = found
        return found

    def rating(self, scheme: SymmetricScheme) -> tuple:
        """Sort key of schemes, best first: cost, products, additions, growth."""
        cost = scheme.triangle_cost if self.triangles else scheme.cost
        return cost, scheme.rank, scheme.additions.reduced, scheme.rms_growth

    def _walk(self, terms: np.ndarray) -> tuple[int, np.ndarray]:
        walker = self._walker(terms, mod2=self.mod2)
        temperature = self.rng.choice(TEMPERATURES)
        plus_after, margin = self.rng.choice(PLUS_AFTER), self.rng.choice(MARGINS)
        least, idle = 2 * len(terms) + 1, 0
        while idle < PATIENCE:
            cost, found = walker.tied_walk(
                STEP,
                temperature=temperature,
                barred=self.barred,
                plus_after=plus_after,
                margin=margin,
            )
            idle += 1
            if cost < least:
                least, terms, idle = cost, found, 0
        return least, terms

    def _sparser(self, terms: np.ndarray) -> np.ndarray:
        """Anneal non-zeros over {-1, 0, 1}; the cost does not grow."""
        for temperature in HEATS:
            walker = self._walker(terms, mod2=False)
            _, terms = walker.tied_walk(
                STEP,
                temperature=temperature,
                sparsity=SPARSITY,
                barred=self.barred,
                plus_after=STEP,
                margin=0,
            )
        return terms

    def _walker(self, terms: np.ndarray, *, mod2: bool) -> Walker:
        seed = self.rng.getrandbits(63)
        return Walker((self.m, self.k, self.m), terms, seed, mod2=mod2)


def _known(start: str) -> SymmetricScheme:
    return symmetric.load(start) if start.endswith(".json") else symmetric.get(start)


def main(arguments: list[str]) -> int:
    """Search as the command line says; write finds to the folder."""
    parser = argparse.ArgumentParser(prog="python -m falcon.discover.gram", description=__doc__)
    parser.add_argument("m", type=int, help="rows of X, in blocks")
    parser.add_argument("k", type=int, help="columns of X, in blocks")
    parser.add_argument("--minutes", type=float, default=5, help="of the search (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default 1)")
    parser.add_argument("--ring", choices=("ternary", "mod2"), default="ternary",
                        help="walk over {-1, 0, 1} (default), or modulo 2 and lift")  # fmt: skip
    parser.add_argument(
        "--triangles",
        action="store_true",
        help="count symmetric products half only where the diagonal of C alone needs them",
    )
    parser.add_argument("--start", help="start at this scheme: a name such as 4x4:19+16, or a file")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for finds (default .)")
    options = parser.parse_args(arguments)
    m, k = options.m, options.k
    if not (m > 0 and k > 0 and max(m, k) * m <= 64):
        parser.error(f"format {m}x{k}: expected positive sizes, at most 64 blocks in X and in C")
    if not options.minutes > 0:
        parser.error(f"--minutes is {options.minutes:g}; expected more than 0")
    command = f"{parser.prog} {m} {k} --minutes {options.minutes:g} --seed {options.seed}"
    command += "" if options.ring == "ternary" else f" --ring {options.ring}"
    command += " --triangles" * options.triangles
    command += "" if options.start is None else f" --start {options.start}"
    search = Search(
        *(m, k, options.seed),
        mod2=options.ring == "mod2",
        source=f"own search: {command}",
        triangles=options.triangles,
        known=[] if options.start is None else [_known(options.start)],
    )
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    seconds = 0.0
    while not search.walks or seconds < 60 * options.minutes:
        found = search.step()
        seconds = time.monotonic() - begin
        if found is not None:
            path = options.out / f"{found.name.replace(':', '_')}.json"
            symmetric.dump(found, path)
            cost = float(search.rating(found)[0])
            print(f"{seconds:.0f} s, walk {search.walks}: {found!r}, cost {cost:g}, "
                  f"additions {found.additions.reduced}, growth {found.rms_growth:.2f}",
                  flush=True)  # fmt: skip
    print(f"{search.walks} walks; least cost{' modulo 2' * search.mod2}: {search.cost / 2:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
