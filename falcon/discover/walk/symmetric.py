"""Z3-symmetric walks for n x n x n: starts, and conversion to ordinary schemes.

Sources: G. Ballard, C. Ikenmeyer, J. Landsberg and N. Ryder, "The geometry of rank decompositions
of matrix multiplication II", 2019 (the symmetry); J. Moosbauer and M. Poole, "Flip graphs with
symmetry and new matrix multiplication schemes", 2025 (flips of orbits).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ._core import SymmetricWalker

# Flips without gain before a plus-transition, and orbits that may be added to the lowest number.
POLICIES = ((1_000, 1), (2_000, 1), (5_000, 1), (5_000, 2), (20_000, 1), (20_000, 2))
# Flips without gain before a walk is given up. A walk reaches a low rank within seconds or not at
# all: of 5 x 5 x 5 half of them stay above rank 110, and the one in about a hundred that reaches 93
# does so after 7 million flips.
PATIENCE = (1_000_000, 2_000_000, 4_000_000, 20_000_000)


def start(n: int, rng: random.Random, rank: int | None = None) -> SymmetricWalker:
    """Begin a walk at the classical algorithm, some of its cubes fused at random.

    Two cubes are one cube and two orbits, ``a^3 + b^3 = (a + b)^3 + [a, a, b] + [a, b, b]``
    modulo 2. Walks hardly ever change the cubes, and their number is the rank modulo 3: if a `rank`
    is wanted, the number fits it.
    """
    bit = [[1 << (row * n + column) for column in range(n)] for row in range(n)]
    orbits = []
    for i in range(n):
        for l in range(n):
            for j in range(n):
                # a[i,l] b[l,j] c[j,i]; one representative per orbit of rotations of (i, l, j)
                if (i, l, j) == min((i, l, j), (l, j, i), (j, i, l)) and not i == l == j:
                    orbits.append((bit[i][l], bit[l][j], bit[j][i]))
    cubes = [bit[i][i] for i in range(n)]
    rng.shuffle(cubes)
    fusions = [x for x in range(n) if rank is None or (n - x - rank) % 3 == 0] or range(n)
    for _ in range(rng.choice(fusions)):
        a, b = cubes.pop(), cubes.pop()
        cubes.append(a ^ b)
        orbits += [(a, a, b), (a, b, b)]
        rng.shuffle(cubes)
    return SymmetricWalker(
        np.array(orbits, np.uint64), np.array(cubes, np.uint64), rng.getrandbits(64)
    )


def terms_of(walker: SymmetricWalker, n: int) -> np.ndarray:
    """Masks (R, 3, 2) of the scheme, w turned back from the trace form."""
    trace = walker.terms
    places = np.arange(n * n, dtype=np.uint64)
    bits = trace[:, 2, None] >> places & np.uint64(1)
    turned = bits.reshape(-1, n, n).transpose(0, 2, 1).reshape(-1, n * n)
    terms = np.zeros((len(trace), 3, 2), np.uint64)
    terms[:, :2, 0] = trace[:, :2]
    terms[:, 2, 0] = np.left_shift(turned, places).sum(1, dtype=np.uint64)
    return terms


class Run:
    """One long walk in short steps; `state` holds it in a checkpoint.

    Parameters
    ----------
    n : int
    rng : random.Random
        Draws the start and how the walk goes.
    rank : int, optional
        The rank wanted; see `start`.
    state : dict, optional
        A walk to go on with instead.
    """

    def __init__(
        self,
        n: int,
        rng: random.Random,
        rank: int | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.n = n
        if state is None:
            walker = start(n, rng, rank)
            self.orbits, self.cubes = walker.orbits, walker.cubes
            self.record, self.idle = walker.rank, 0  # lowest rank, and flips since then
            self.policy, self.patience = rng.choice(POLICIES), rng.choice(PATIENCE)
        else:
            self.orbits, self.cubes = (np.array(state[x], np.uint64) for x in ("orbits", "cubes"))
            self.record, self.idle = state["record"], state["idle"]
            self.policy, self.patience = tuple(state["policy"]), state["patience"]

    def state(self) -> dict[str, Any]:
        """What another `Run` needs to go on."""
        names = ("orbits", "cubes", "record", "idle", "policy", "patience")
        return {name: getattr(self, name) for name in names}

    @property
    def over(self) -> bool:
        """Whether the walk has gone without gain for so long that a new one is better."""
        return self.idle >= self.patience

    def step(self, flips: int, rng: random.Random) -> tuple[int, list[np.ndarray]]:
        """Walk on; return the flips made and schemes (R, 3, 2): new records, and the last one."""
        walker = SymmetricWalker(self.orbits, self.cubes, rng.getrandbits(64))
        plus_after, margin = self.policy
        found = []
        fell = True
        while fell and walker.flips < flips:
            before = walker.flips
            # The margin counts from the record, not from where this step happens to begin.
            above = -(-(walker.rank - self.record) // 3)
            fell = walker.walk(flips - before, plus_after=plus_after, margin=max(margin - above, 0))
            self.idle += walker.flips - before
            if walker.rank < self.record:
                self.record, self.idle = walker.rank, 0
                found.append(terms_of(walker, self.n))
        if walker.flips < flips:  # no move is left
            self.idle = self.patience
        elif walker.rank == self.record:
            found.append(terms_of(walker, self.n))
        self.orbits, self.cubes = walker.orbits, walker.cubes
        return walker.flips, found
