"""Lift a scheme modulo 2 to one over the integers.

`lift` keeps the support: every non-zero coefficient becomes +1 or -1, that is 1 + 2y modulo 4 with
a bit y. A product of three is then 1 + 2(y1 + y2 + y3) modulo 4, so the Brent equations modulo 4
are linear in the bits (one step of Hensel lifting). Solutions are checked over the integers; if
there is none, or none of a few random ones passes, the scheme is not lifted. `liftable` tells
whether a scheme modulo 4 exists at all, on any support.

`lift_apart` also lets coefficients that are zero modulo 2 become 2, a bit each, and looks for a
solution with few of them. A term with a 2 is then written as the sum of two terms without.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import numpy as np

from . import _core
from .masks import Format

Supports = list[list[list[int]]]  # places of the non-zeros, per term and factor
Place = tuple[int, int, int]  # term, factor, entry

# For `lift_apart`: orders of the zeros, solutions tried per order, and most coefficients 2.
ORDERS, SIGNS, MOST_TWOS = 4, 10, 8


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
    supports = _supports(terms)
    unknowns = {place: x for x, place in enumerate(_odd(supports))}
    constant = len(unknowns)  # the bit of the right-hand side
    pivots = _eliminated(_system(supports, unknowns, dims, constant), constant)
    for _ in range(attempts if pivots is not None else 0):
        signs = _solution(pivots or {}, constant, rng)
        lifted = _signed(supports, unknowns, signs)
        if _core.violations(dims, lifted) == 0:
            return lifted
    return np.empty((0, 3, 2), np.uint64)


def lift_apart(terms: np.ndarray, dims: Format, rng: random.Random) -> np.ndarray:
    """Lift as `lift` does, with coefficients 2 where needed: each costs an extra term.

    Parameters
    ----------
    terms : ndarray of uint64, shape (R, 3, 2)
        A scheme modulo 2.
    dims : (m, k, n)
    rng : random.Random
        Draws which zeros may become 2 first, and the free bits.

    Returns
    -------
    ndarray of uint64, shape (R + x, 3, 2)
        A scheme over {-1, 0, 1} with the least x that was found; empty where none was.
    """
    supports = _supports(terms)
    odd = _odd(supports)
    sizes = dims[0] * dims[1], dims[1] * dims[2], dims[0] * dims[2]
    zeros = [
        (r, mode, place)
        for r, factors in enumerate(supports)
        for mode, places in enumerate(factors)
        for place in sorted(set(range(sizes[mode])) - set(places))
    ]
    best = np.empty((0, 3, 2), np.uint64)
    for _ in range(ORDERS):
        # The highest bits are eliminated first: zeros become pivots only if signs do not suffice.
        rng.shuffle(zeros)
        unknowns = {place: x for x, place in enumerate(zeros + odd)}
        constant = len(unknowns)
        pivots = _eliminated(_system(supports, unknowns, dims, constant), constant)
        if pivots is None:
            return best
        for _ in range(SIGNS):
            signs = _solution(pivots, constant, rng, len(zeros))
            twos = [place for x, place in enumerate(zeros) if signs >> x & 1]
            if len(twos) > MOST_TWOS or (len(best) and len(terms) + len(twos) >= len(best)):
                break
            lifted = _apart(_signed(supports, {x: unknowns[x] for x in odd}, signs), twos, rng)
            if _core.violations(dims, lifted) == 0:
                best = lifted
                break
    return best


def liftable(terms: np.ndarray, dims: Format) -> bool:
    """Whether a scheme modulo 2 is one modulo 4, with even coefficients where it has zeros.

    Coefficients change by 0 or 2, so the equations modulo 4 that fail must be a sum modulo 2 of
    what single changes do: a factor's unit vector times the other two factors of its term.

    Parameters
    ----------
    terms : ndarray of uint64, shape (R, 3, 2)
        A scheme modulo 2: the second masks are empty.
    dims : (m, k, n)

    Raises
    ------
    ValueError
        The terms are no scheme modulo 2.
    """
    m, k, n = dims
    sizes = m * k, k * n, m * n
    supports = _supports(terms)

    def cube(us: list[int], vs: list[int], ws: list[int]) -> int:
        """The positions of a term, as bits of a Python integer."""
        row = sum(1 << w for w in ws)
        plane = sum(row << v * sizes[2] for v in vs)
        return sum(plane << u * sizes[1] * sizes[2] for u in us)

    # The sum of the terms modulo 4, as two bits, less the tensor.
    low = high = 0
    for us, vs, ws in supports:
        term = cube(us, vs, ws)
        high ^= low & term
        low ^= term
    wanted = 0
    for i, l, j in itertools.product(range(m), range(k), range(n)):
        wanted |= cube([i * k + l], [l * n + j], [i * n + j])
    if low != wanted:
        raise ValueError("the terms are no scheme modulo 2")
    changes = set()
    for us, vs, ws in supports:
        changes |= {cube([u], vs, ws) for u in range(sizes[0])}
        changes |= {cube(us, [v], ws) for v in range(sizes[1])}
        changes |= {cube(us, vs, [w]) for w in range(sizes[2])}
    pivots: dict[int, int] = {}

    def reduced(rest: int) -> int:
        while rest and rest.bit_length() in pivots:
            rest ^= pivots[rest.bit_length()]
        return rest

    for change in sorted(changes, key=int.bit_count):
        rest = reduced(change)
        if rest:
            pivots[rest.bit_length()] = rest
    return not reduced(high)


def _apart(lifted: np.ndarray, twos: list[tuple[int, int, int]], rng: random.Random) -> np.ndarray:
    """Add 2 or -2 at some places of ternary terms, as terms of their own."""
    held = {r: [lifted[r]] for r in range(len(lifted))}
    for mode in range(3):
        added: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2, np.uint64))
        for r, where, place in twos:
            if where == mode:
                added[r][rng.randrange(2)] |= np.uint64(1 << place)
        for r, extra in added.items():
            # x + 2y = (x + y) + y
            copies = [term.copy() for term in held[r]]
            for term, copy in zip(held[r], copies, strict=True):
                term[mode] |= extra
                copy[mode] = extra
            held[r] = held[r] + copies
    return np.array([term for r in sorted(held) for term in held[r]], np.uint64)


def _supports(terms: np.ndarray) -> Supports:
    return [[_bits(int(terms[r, mode, 0])) for mode in range(3)] for r in range(len(terms))]


def _odd(supports: Supports) -> list[Place]:
    """All places of non-zero coefficients."""
    return [
        (r, mode, place)
        for r, factors in enumerate(supports)
        for mode, places in enumerate(factors)
        for place in places
    ]


def _bits(mask: int) -> list[int]:
    return [x for x in range(mask.bit_length()) if mask >> x & 1]


def _eliminated(rows: list[int], constant: int) -> dict[int, int] | None:
    """Rows by their highest bit; None if they contradict each other."""
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
                return None
    return pivots


def _system(
    supports: Supports, unknowns: dict[Place, int], dims: Format, constant: int
) -> list[int]:
    """One equation per position that any term touches, as bits of a Python integer."""
    _, k, n = dims
    equations: dict[tuple[int, int, int], int] = defaultdict(int)
    counts: dict[tuple[int, int, int], int] = defaultdict(int)
    for (r, mode, place), x in unknowns.items():
        places = list(supports[r])
        if place in places[mode]:
            continue  # below
        places[mode] = [place]
        for a, b, c in itertools.product(*places):
            equations[a, b, c] ^= 1 << x
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


def _solution(pivots: dict[int, int], constant: int, rng: random.Random, quiet: int = 0) -> int:
    """A random solution of the triangular system, as bits; free ones below `quiet` are zero."""
    known = 1 << constant
    for x in range(constant):
        if x in pivots:
            # All other unknowns of a pivot row are lower, hence chosen already.
            if (pivots[x] & known).bit_count() & 1:
                known |= 1 << x
        elif x >= quiet and rng.random() < 0.5:
            known |= 1 << x
    return known


def _signed(supports: Supports, unknowns: dict[Place, int], signs: int) -> np.ndarray:
    lifted = np.zeros((len(supports), 3, 2), np.uint64)
    for (r, mode, place), x in unknowns.items():
        lifted[r, mode, signs >> x & 1] |= np.uint64(1 << place)
    return lifted
