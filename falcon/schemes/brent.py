"""The Brent equations: the exact proof that (U, V, W) multiplies matrices.

A triple with ``U : (R, m, k)``, ``V : (R, k, n)``, ``W : (R, m, n)`` multiplies an m x k by a
k x n matrix if and only if, for all index pairs,

    sum_r U[r,i,l] V[r,p,j] W[r,x,y]  =  1 if (l, x, y) == (p, i, j) else 0 .

Source: R. P. Brent, "Algorithms for matrix multiplication", Stanford report STAN-CS-70-157, 1970.
Everything here is integer arithmetic; fractions are cleared by their common denominator first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

from ._coefficients import integer_form

LARGEST_WORK = 2**26  # twice that of Strassen five levels deep
# Terms that are formed at a time: about 100 MB of scratch memory; and wrong sums that are kept.
_PIECE, _MOST_KEPT = 2**20, 2**21


@dataclass(frozen=True)
class Violation:
    """One Brent equation that does not hold (indices count from 1, as in the formulas)."""

    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    got: Fraction
    expected: int

    def __str__(self) -> str:
        a, b, c = (f"{i}{',' if max(i, j) > 9 else ''}{j}" for i, j in (self.a, self.b, self.c))
        return (
            f"Brent equation a[{self.a[0]},{self.a[1]}] * b[{self.b[0]},{self.b[1]}] in "
            f"c[{self.c[0]},{self.c[1]}]: the term a{a} b{b} occurs {self.got} "
            f"{'time' if self.got == 1 else 'times'} in c{c}, expected {self.expected}"
        )


@dataclass(frozen=True, eq=False)
class Violations:
    """The equations that fail, in order; made one at a time, as a small file may have millions."""

    places: np.ndarray  # positions of sums that are wrong, ascending; see `_wanted_keys`
    sums: np.ndarray  # there, times `one`
    is_one: np.ndarray  # whether the sum there is to be 1
    one: int
    count: int  # of sums that are wrong, not all of which need be kept
    format: tuple[int, int, int]

    def __len__(self) -> int:
        return self.count

    @property
    def modulus(self) -> int:
        """The largest number modulo which all equations hold, of integers; 1: there is none."""
        if self.one != 1 or self.count > len(self.places):
            return 1
        return int(np.gcd.reduce(self.sums - self.is_one, initial=0))

    @property
    def multiple(self) -> Fraction | None:
        """What every product is multiplied by, if nothing else is wrong."""
        m, k, n = self.format
        if not len(self.places) == self.count == m * k * n or not self.is_one.all():
            return None
        is_one_value = (self.sums == self.sums[0]).all() and self.sums[0] != 0
        return Fraction(int(self.sums[0]), self.one) if is_one_value else None

    def __iter__(self) -> Iterator[Violation]:
        m, k, n = self.format
        for key, value, is_one in zip(self.places, self.sums, self.is_one, strict=True):
            rest, c = divmod(int(key), m * n)
            a, b = divmod(rest, k * n)
            got = Fraction(int(value), self.one)
            yield Violation(_place(a, k), _place(b, n), _place(c, n), got, int(is_one))


def violations(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Violations:
    """Return all Brent equations that (U, V, W) violates; none: it is a scheme.

    Only products of non-zero coefficients are visited: a composition of rank 2401 takes well under
    a second. Raises ValueError: the scheme is too large to be verified (see `work`).
    """
    (rank, m, k), n = U.shape, V.shape[2]
    factors, scales = zip(*map(integer_form, (U, V, W)), strict=True)
    one = prod(scales)
    is_exact = prod(int(abs(x).max(initial=0)) for x in factors) * len(U) < 2**62  # in int64
    most = LARGEST_WORK // (1 if is_exact else 32)
    check_work(f"<{m},{k},{n};{rank}>", max(work(U, V, W), m * k * n), most)
    wanted = _wanted_keys(m, k, n)
    factors = [x.reshape(len(x), -1).astype(np.int64 if is_exact else object) for x in factors]
    pieces, lost, wrong = [], np.ones(len(wanted), bool), 0
    for keys, sums in _sums(factors, [x.shape[1] for x in factors]):
        place = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
        is_one = wanted[place] == keys
        lost[place[is_one & (sums != 0)]] = False
        bad = (sums != 0) & ~(is_one & (sums == one))
        wrong += int(np.count_nonzero(bad))
        if wrong <= _MOST_KEPT:  # and so those of the first piece
            pieces.append((keys[bad], sums[bad], is_one[bad]))
    missing = wanted[lost]  # no term has come to these
    pieces.append((missing, np.zeros(len(missing), int), np.ones(len(missing), bool)))
    keys, sums, is_one = (np.concatenate(x) for x in zip(*pieces, strict=True))
    order = np.argsort(keys)
    counted = wrong + len(missing)
    return Violations(keys[order], sums[order], is_one[order], one, counted, (m, k, n))


def _place(entry: int, columns: int) -> tuple[int, int]:
    row, column = divmod(entry, columns)
    return row + 1, column + 1


def work(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> int:
    """Products that a verification visits: ``sum_r nnz(U_r) nnz(V_r) nnz(W_r)``."""
    counts = (np.count_nonzero(x.reshape(len(x), -1), axis=1).tolist() for x in (U, V, W))
    return sum(a * b * c for a, b, c in zip(*counts, strict=True))


def check_work(name: str, products: int, most: int = LARGEST_WORK) -> None:
    """Raise ValueError where that many products are too many."""
    if products > most:
        raise ValueError(
            f"{name} is too large to be verified: {products} products of coefficients, at most "
            f"{most} are supported"
        )


def _sums(
    factors: Sequence[np.ndarray], sizes: Sequence[int], base: int = 0, at: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions of terms and their sums, ascending, for some entries of U, V or W at a time."""
    counts = [np.count_nonzero(x, axis=1) for x in factors]
    others = prod(x for i, x in enumerate(counts) if i != at)
    ends = np.cumsum(others @ (factors[at] != 0))
    start = done = 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, done + _PIECE, side="right")))
        column = factors[at][:, start:stop]
        used = (column != 0).any(axis=1)  # NumPy 1: any() of objects are objects
        nonzero = [x[used] for x in (*factors[:at], column, *factors[at + 1 :])]
        first = base + start * prod(sizes[at + 1 :])
        if ends[stop - 1] - done > _PIECE and at < 2:
            yield from _sums(nonzero, sizes, first, at + 1)
        else:
            keys, values = _terms(nonzero, sizes)
            keys, of_key = np.unique(keys, return_inverse=True)
            sums = np.zeros(len(keys), values.dtype)
            np.add.at(sums, of_key, values)
            yield keys + first, sums
        start, done = stop, int(ends[stop - 1])


def _terms(factors: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of the terms of some products."""
    u, v, w = factors
    r, keys = np.nonzero(u)
    values = u[r, keys]
    for x, size in ((v, sizes[1]), (w, sizes[2])):
        # Each term so far is multiplied by all non-zeros of the same r, which are contiguous.
        owner, column = np.nonzero(x)
        count = np.bincount(owner, minlength=len(x))
        repeats = count[r]
        within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        r = np.repeat(r, repeats)
        partner = (np.cumsum(count) - count)[r] + within
        keys = np.repeat(keys, repeats) * size + column[partner]
        values = np.repeat(values, repeats) * x[r, column[partner]]
    return keys, values


def _wanted_keys(m: int, k: int, n: int) -> np.ndarray:
    """Positions of the ones, ascending.

    A position counts entries of V within those of U, and entries of W within those of V.
    """
    i, l, j = np.ogrid[:m, :k, :n]
    return (((i * k + l) * (k * n) + l * n + j) * (m * n) + i * n + j).ravel()
