"""From a scheme modulo 2 to one over the integers with the same support.

Every non-zero coefficient becomes +1 or -1, that is 1 + 2y modulo 4 with a bit y. A product of
three is then 1 + 2(y1 + y2 + y3), so that the Brent equations modulo 4 are linear in the bits
(one step of Hensel lifting). A solution is checked over the integers; where the system has none,
or none of a few random solutions passes, the scheme is not lifted.
"""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np

from . import _core
from .masks import Format


def lift(terms: np.ndarray, dims: Format, rng: random.Random, attempts: int = 20) -> np.ndarray:
    """Choose signs for the support of a scheme modulo 2.

    Parameters
    ----------
    terms : ndarray of uint64, shape (R, 3, 2)
        A scheme modulo 2: the second masks are empty.
    dims : (m, k, n)
    rng : random.Random
        Draws the free bits.
    attempts : int
        Solutions modulo 4 that are tried over the integers.

    Returns
    -------
    ndarray of uint64, shape (R, 3, 2)
        A scheme over the integers; empty (R = 0) where none was found.
    """
    supports = [[_bits(int(terms[r, mode, 0])) for mode in range(3)] for r in range(len(terms))]
    unknowns: dict[tuple[int, int, int], int] = {}
    for r, factors in enumerate(supports):
        for mode, places in enumerate(factors):
            for place in places:
                unknowns[r, mode, place] = len(unknowns)
    constant = len(unknowns)  # the bit of the right-hand side
    rows = _system(supports, unknowns, dims, constant)
    pivots: dict[int, int] = {}
    below = (1 << constant) - 1
    for row in rows:
        while row & below:
            lead = (row & below).bit_length() - 1
            if lead not in pivots:
                pivots[lead] = row
                break
            row ^= pivots[lead]
        else:
            if row:  # 0 = 1
                return np.empty((0, 3, 2), np.uint64)
    for _ in range(attempts):
        signs = _solution(pivots, constant, rng)
        lifted = _signed(supports, unknowns, signs)
        if _core.violations(dims, lifted) == 0:
            return lifted
    return np.empty((0, 3, 2), np.uint64)


def _bits(mask: int) -> list[int]:
    return [x for x in range(mask.bit_length()) if mask >> x & 1]


def _system(
    supports: list[list[list[int]]],
    unknowns: dict[tuple[int, int, int], int],
    dims: Format,
    constant: int,
) -> list[int]:
    """One equation per position that any term touches, as bits of a Python integer."""
    _, k, n = dims
    equations: dict[tuple[int, int, int], int] = defaultdict(int)
    counts: dict[tuple[int, int, int], int] = defaultdict(int)
    for r, (us, vs, ws) in enumerate(supports):
        for a in us:
            bit_a = 1 << unknowns[r, 0, a]
            for b in vs:
                bit_ab = bit_a ^ 1 << unknowns[r, 1, b]
                for c in ws:
                    equations[a, b, c] ^= bit_ab ^ 1 << unknowns[r, 2, c]
                    counts[a, b, c] += 1
    rows = []
    for key, row in equations.items():
        a, b, c = key
        (i, l), (p, j) = divmod(a, k), divmod(b, n)
        wanted = int(l == p and c == i * n + j)
        if (wanted - counts[key]) % 4:
            row |= 1 << constant
        rows.append(row)
    return rows


def _solution(pivots: dict[int, int], constant: int, rng: random.Random) -> int:
    """A random solution of the triangular system, as bits."""
    known = 1 << constant
    for x in range(constant):
        if x in pivots:
            # All other unknowns of a pivot row are lower, hence chosen already.
            if (pivots[x] & known).bit_count() & 1:
                known |= 1 << x
        elif rng.random() < 0.5:
            known |= 1 << x
    return known


def _signed(
    supports: list[list[list[int]]], unknowns: dict[tuple[int, int, int], int], signs: int
) -> np.ndarray:
    lifted = np.zeros((len(supports), 3, 2), np.uint64)
    for (r, mode, place), x in unknowns.items():
        lifted[r, mode, signs >> x & 1] |= np.uint64(1 << place)
    return lifted
