"""Walks at fixed rank whose cost is the number of additions, not that of non-zeros.

Schemes with few additions are often not sparse: <3,3,3;23> takes 61 with 143 non-zeros and 58 with
175. So flips and changes of basis are accepted by the Metropolis rule on the additions that remain
after a short search for common pairs; a scheme near the limit gets a longer search.
"""

from __future__ import annotations

import random

import numpy as np

from . import masks
from ._core import Walker, share
from .masks import Format

# Temperatures at the beginning and at the end of a walk.
HOT, COLD = 2.5, 0.4
# Share of the moves that change the basis; the rest are so many flips.
BASIS = 0.12
FLIPS = (1, 1, 1, 1, 1, 1, 1, 2, 3, 5)
# Rounds of the search for common pairs: at the start, for each scheme, and for one at most MISS
# additions above the limit.
FIRST, SHORT, LONG, MISS = 30, 3, 12, 4


def walk(
    terms: np.ndarray, dims: Format, moves: int, rng: random.Random, *, hot: float = HOT
) -> np.ndarray:
    """Lower the additions of a scheme.

    Parameters
    ----------
    terms : ndarray of uint64, shape (R, 3, 2)
    dims : (m, k, n)
    moves : int
        Flips and changes of basis that are tried: some tenths of a millisecond each.
    rng : random.Random
    hot : float
        The temperature it begins with, in additions.

    Returns
    -------
    terms : ndarray of uint64, shape (R, 3, 2)
        The best scheme that the walk came across, or one of a lower rank.
    """
    costs = [_additions(terms, dims, mode, FIRST, rng) for mode in range(3)]
    best, least = terms, sum(costs)
    for move in range(moves):
        near = _moved(terms, dims, rng)
        if len(near) != len(terms):
            return near
        changed = [mode for mode in range(3) if not np.array_equal(near[:, mode], terms[:, mode])]
        temperature = hot * (COLD / hot) ** (move / moves)
        limit = sum(costs) + temperature * rng.expovariate(1)
        then = list(costs)
        for rounds in (SHORT, LONG):
            for mode in changed:
                then[mode] = _additions(near, dims, mode, rounds, rng)
            if not limit < sum(then) <= limit + MISS:
                break
        if sum(then) <= limit:
            terms, costs = near, then
        if sum(then) < least:
            best, least = near, sum(then)
    return best


def _moved(terms: np.ndarray, dims: Format, rng: random.Random) -> np.ndarray:
    """The scheme after a change of basis or a few flips."""
    walker = Walker(dims, terms, rng.getrandbits(64))
    if rng.random() < BASIS:
        walker.anneal(1, hot=1e9, cold=1e9)  # the first move of an annealing, whatever it costs
    else:
        walker.walk(rng.choice(FLIPS), plus_after=10**12, margin=0)
    return walker.terms


def _additions(terms: np.ndarray, dims: Format, mode: int, rounds: int, rng: random.Random) -> int:
    """Additions of one factor, up to a constant that the format and the rank decide."""
    factor = masks.unpack(terms[:, mode], masks.shapes(dims)[mode]).reshape(len(terms), -1)
    return share(factor, rounds=rounds, seed=rng.getrandbits(64))[0]
