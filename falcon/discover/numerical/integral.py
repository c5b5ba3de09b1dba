"""Make a scheme over the rationals one modulo 2.

A term is ``2^e`` times a product of integer vectors, each with an odd entry. Changes of basis, to
lattices between Z^n and 2 Z^n, move the powers of two between terms; if no term with e < 0 is left,
the scheme is reduced modulo 2 as it is. Otherwise the terms with e = -1 add up to half an even
tensor, which is decomposed modulo 2 slice by slice: a few extra terms, which walks may remove.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..walk._core import violations
from ..walk.masks import Format
from .rational import Fractions

MOST_MOVES, PATIENCE = 8_000, 1_500  # of the search for bases
LARGEST = 1 << 40  # entry of an integer vector


class Dyadic(NamedTuple):
    """Terms ``2^exponent u (x) v (x) w``; right up to multiples of 4 in the sum of all halves."""

    factors: list[np.ndarray]  # integers, a column per term
    exponents: np.ndarray

    @property
    def lacking(self) -> int:
        """How many factors 1/2 are left."""
        return int(np.maximum(0, -self.exponents).sum())


def modulo2(factors: Fractions, dims: Format, rng: np.random.Generator) -> np.ndarray | None:
    """Masks (R', 3, 2) of a scheme modulo 2, R' >= R; None if factors 1/4 are left."""
    best = _settled(dyadic(factors), dims, rng)
    if best.exponents.min() < -1:
        return None
    terms = [[x[:, r] & 1 for x in best.factors] for r in np.flatnonzero(best.exponents == 0)]
    for total in _even_sums(best):
        terms += _decomposed(total >> 1 & 1, rng)
    found = [tuple(map(_mask, term)) for term in terms]
    # Equal terms cancel in pairs modulo 2.
    kept = [term for term in dict.fromkeys(found) if found.count(term) % 2]
    out = np.zeros((len(kept), 3, 2), np.uint64)
    out[:, :, 0] = np.array(kept, np.uint64).reshape(-1, 3)
    return None if violations(dims, out, mod2=True) else out


def dyadic(factors: Fractions) -> Dyadic:
    """Take powers of two out of the columns; odd scales matter modulo 4, where they are 1 or -1."""
    rank = factors[0].shape[1]
    exponents = np.zeros(rank, np.int64)
    columns = [np.zeros(x.shape, np.int64) for x in factors]
    for r in range(rank):
        sign = 1
        for x, column in zip(factors, columns, strict=True):
            below = math.lcm(*(q.denominator for q in x[:, r]))
            whole = [int(q * below) for q in x[:, r]]
            common = math.gcd(*whole)
            column[:, r] = [q // common for q in whole]
            scale = Fraction(common, below)
            for part, direction in ((scale.numerator, 1), (scale.denominator, -1)):
                two = (part & -part).bit_length() - 1
                exponents[r] += direction * two
                sign *= 1 if part >> two & 3 == 1 else -1
        columns[0][:, r] *= sign
    return Dyadic(columns, exponents)


def _settled(start: Dyadic, dims: Format, rng: np.random.Generator) -> Dyadic:
    """Change bases at random while the halves do not increase, with kicks after no progress."""
    best = current = start
    idle = 0
    for _ in range(MOST_MOVES):
        if not best.lacking:
            break
        kick = idle > PATIENCE
        moved = _moved(current, dims, int(rng.integers(3)), rng)
        if max(np.abs(x).max() for x in moved.factors) > LARGEST:
            continue
        if kick:
            current, idle = (moved if rng.random() < 0.7 else best), 0
        elif moved.lacking <= current.lacking:
            idle = 0 if moved.lacking < current.lacking else idle + 1
            current = moved
        else:
            idle += 1
        if current.lacking < best.lacking:
            best = current
    return best


def _moved(one: Dyadic, dims: Format, axis: int, rng: np.random.Generator) -> Dyadic:
    """Change the basis of a dimension to that of a random lattice between Z^n and 2 Z^n."""
    size = dims[axis]
    if size == 1:
        return one
    order = rng.permutation(size)
    odd = int(rng.integers(1, size))
    lattice = np.zeros((size, size), np.int64)  # rows: the first `odd` as they are, plus others
    dual = np.zeros((size, size), np.int64)  # twice its inverse
    first, last = order[:odd], order[odd:]
    mixed = rng.integers(0, 2, (odd, size - odd))
    lattice[first, first], lattice[last, last] = 1, 2
    dual[first, first], dual[last, last] = 2, 1
    lattice[np.ix_(first, last)], dual[np.ix_(first, last)] = mixed, -mixed
    m, k, n = dims
    u, v, w = one.factors
    rank = u.shape[1]
    if axis == 0:
        u = lattice @ u.reshape(m, k * rank)
        w = dual.T @ w.reshape(m, n * rank)
    elif axis == 1:
        u = np.einsum("ab,ibr->iar", dual.T, u.reshape(m, k, rank))
        v = lattice @ v.reshape(k, n * rank)
    else:
        v = np.einsum("ab,lbr->lar", dual.T, v.reshape(k, n, rank))
        w = np.einsum("ab,ibr->iar", lattice, w.reshape(m, n, rank))
    exponents = one.exponents - 1
    factors = []
    for x in (u, v, w):
        column = x.reshape(-1, rank)
        either = np.bitwise_or.reduce(column, axis=0)
        twos = np.log2(either & -either).astype(np.int64)
        exponents = exponents + twos
        factors.append(column >> twos)
    return Dyadic(factors, exponents)


def _even_sums(one: Dyadic) -> list[np.ndarray]:
    """Tensors that the terms with a half add up to, in small groups whose sums are even.

    A group shares two factors modulo 2 with its first term; where that sum is odd, all that is left
    is one group.
    """
    left = np.flatnonzero(one.exponents == -1).tolist()
    odd = [x & 1 for x in one.factors]
    sums = []
    while left:
        group, total = left, _sum(one, left)
        for pair in ((0, 2), (0, 1), (1, 2)):
            alike = [
                r for r in left if all((odd[p][:, r] == odd[p][:, left[0]]).all() for p in pair)
            ]
            part = _sum(one, alike)
            if len(alike) < len(group) and not (part & 1).any():
                group, total = alike, part
        sums.append(total)
        left = [r for r in left if r not in group]
    return sums


def _sum(one: Dyadic, terms: list[int]) -> np.ndarray:
    u, v, w = (x[:, terms] & 3 for x in one.factors)
    return np.asarray(np.einsum("ar,br,cr->abc", u, v, w, optimize=True))


def _decomposed(tensor: np.ndarray, rng: np.random.Generator) -> list[list[np.ndarray]]:
    """Rank-one terms of a tensor modulo 2: those of its slices, along the best dimension."""
    best: list[list[np.ndarray]] | None = None
    for mode in range(3):
        terms = []
        for number, matrix in enumerate(np.moveaxis(tensor, mode, 0)):
            unit = np.zeros(tensor.shape[mode], np.int64)
            unit[number] = 1
            rest = matrix.copy()
            while rest.any():
                places = np.argwhere(rest)
                row, column = places[rng.integers(len(places))]
                term = [rest[:, column].copy(), rest[row].copy()]
                rest ^= np.outer(*term)
                term.insert(mode, unit)
                terms.append(term)
        if best is None or len(terms) < len(best):
            best = terms
    return best or []


def _mask(bits: np.ndarray) -> int:
    return sum(1 << int(x) for x in np.flatnonzero(bits))
