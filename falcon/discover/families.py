"""Walks modulo 2 over many families of schemes at once.

Over all terms ``trace(u v w')`` adds up to mkn. In good schemes nearly all terms with a factor of
rank 1 have a trace of 1, and the others, the core, one of 2 or more: the rank is mkn less what the
core saves (4x4x5:62 has 18 times 2, 5x5x5:93 32 times). Walks hardly change a core whose factors
all have rank 2: of 4,739 walks from 4x4x5:62 with 18 of them, raised to 70 to 82 terms, 4,726
ended at rank 62 again and none at a lower one. Others go on where these stop. So the pool
is kept by cores: one that is common gets no more walks than one that is rare.

Other cores come from sums of known schemes, and from formats that grow line by line and are walked
at every size. Schemes that exist modulo 2 only are left out: the equations modulo 4 tell
(`lifting.liftable`). Source of the moves between formats: see `moves`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import lifting, masks
from ._core import Walker
from .hops import Start
from .masks import Format

Family = tuple[tuple[int, int, int], ...]

FRESH = 0.3  # share of walks that begin anew
HELD = 6  # schemes per family
SLACK = 2  # ranks above the lowest that are kept
# How much more often a family is drawn than one of a rank above.
LOWER = 5.0
# Flips of a walk: from a start, and from a family.
FIRST_WALK, WALKS = 2_500_000, (3_000_000, 10_000_000, 40_000_000)
IDLE = 2  # walks from a start without gain
PLUS_AFTER, MARGINS = (1_000, 5_000, 20_000, 50_000), (1, 2, 3, 4)


def family(terms: np.ndarray, dims: Format) -> Family:
    """Ranks modulo 2 of the factors of each term that has none of rank 1, sorted."""
    shapes = masks.shapes(dims)
    ranks = (
        tuple(_rank(int(term[mode, 0] | term[mode, 1]), shapes[mode]) for mode in range(3))
        for term in terms
    )
    return tuple(sorted((u, v, w) for u, v, w in ranks if min(u, v, w) > 1))


def _rank(mask: int, shape: tuple[int, int]) -> int:
    rows, columns = shape
    basis: list[int] = []
    for row in range(rows):
        line = mask >> row * columns & (1 << columns) - 1
        for other in basis:
            line = min(line, line ^ other)
        if line:
            basis.append(line)
    return len(basis)


class Run:
    """A search in steps; `state` holds it in a checkpoint.

    Parameters
    ----------
    dims : (m, k, n)
    starts : sequence of callables
        ``start(rng, True)`` returns the masks of a scheme modulo 2.
    state : dict, optional
        A search to go on with.

    Attributes
    ----------
    held : dict
        Schemes modulo 2 by rank and family.
    """

    def __init__(
        self, dims: Format, starts: Sequence[Start], state: dict[str, Any] | None = None
    ) -> None:
        self.dims = dims
        self._starts = starts
        self.held: dict[int, dict[Family, list[np.ndarray]]] = {}
        self._drawn: Counter[tuple[int, Family]] = Counter()
        for schemes, drawn in state["families"] if state else []:
            arrays = [np.array(terms, np.uint64) for terms in schemes]
            rank, key = len(arrays[0]), family(arrays[0], dims)
            self.held.setdefault(rank, {})[key] = arrays
            self._drawn[rank, key] = drawn

    def state(self) -> dict[str, Any]:
        """What another `Run` needs to go on."""
        kept = [
            (list(schemes), self._drawn[rank, key])
            for rank, families in self.held.items()
            for key, schemes in families.items()
        ]
        return {"families": kept}

    @property
    def count(self) -> int:
        """Families of the lowest rank."""
        return len(self.held[min(self.held)]) if self.held else 0

    def step(self, rng: random.Random) -> tuple[int, list[np.ndarray]]:
        """Walk; return the flips made and what was reached, schemes modulo 2 that may be lifted."""
        fresh = not self.held or rng.random() < FRESH
        terms = rng.choice(self._starts)(rng, True) if fresh else self._draw(rng)
        walker = Walker(self.dims, terms, rng.getrandbits(64), mod2=True)
        flips = FIRST_WALK if fresh else rng.choice(WALKS)
        plus_after, margin = rng.choice(PLUS_AFTER), rng.choice(MARGINS)
        reached, found, idle = walker.terms, [], 0
        while idle < (IDLE if fresh else 1):
            if walker.walk(flips, plus_after=plus_after, margin=margin):
                idle = 0
            else:
                idle += 1
            if walker.rank <= len(reached):
                if walker.rank < len(reached) and self._keep(reached, rng):
                    found.append(reached)
                reached = walker.terms
        if self._keep(reached, rng):
            found.append(reached)
        return walker.flips, found

    def _draw(self, rng: random.Random) -> np.ndarray:
        keys = [(rank, key) for rank, families in self.held.items() for key in families]
        lowest = min(self.held)
        weights = [LOWER ** (lowest - key[0]) / (1 + self._drawn[key]) ** 0.5 for key in keys]
        rank, key = rng.choices(keys, weights)[0]
        self._drawn[rank, key] += 1
        return rng.choice(self.held[rank][key])

    def _keep(self, terms: np.ndarray, rng: random.Random) -> bool:
        """Put a scheme with its family, if its rank is low and the equations modulo 4 allow it."""
        rank = len(terms)
        if rank > min(self.held, default=rank) + SLACK or not lifting.liftable(terms, self.dims):
            return False
        schemes = self.held.setdefault(rank, {}).setdefault(family(terms, self.dims), [])
        if len(schemes) < HELD:
            schemes.append(terms)
        else:
            schemes[rng.randrange(HELD)] = terms
        for other in [x for x in self.held if x > min(self.held) + SLACK]:
            del self.held[other]
        return True
