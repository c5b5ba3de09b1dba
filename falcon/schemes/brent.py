"""The Brent equations: the exact proof that (U, V, W) multiplies matrices.

A triple with ``U : (R, m, k)``, ``V : (R, k, n)``, ``W : (R, m, n)`` multiplies an m x k by a
k x n matrix if and only if, for all index pairs,

    sum_r U[r,i,l] V[r,p,j] W[r,x,y]  =  1 if (l, x, y) == (p, i, j) else 0 .

Source: R. P. Brent, "Algorithms for matrix multiplication", Stanford report STAN-CS-70-157, 1970.
Everything here is integer arithmetic; fractions are cleared by their common denominator first.

`first_symmetric_violation` holds the same equations for C = X X^T, where V too multiplies entries
of X and only the c[x,y] with x <= y are formed: ``sum_r U[r,i,l] V[r,j,p] W[r,x,y]`` is 1 where
``(p, x, y) == (l, i, j)`` and else 0. Blocks do not commute, so x_a x_b^T and x_b x_a^T differ.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ._coefficients import integer_form

# Strassen five levels deep is exactly this large.
LARGEST_WORK = 2**25
# Terms that are formed at a time: about 100 MB of scratch memory.
_PIECE = 2**20


@dataclass(frozen=True)
class Violation:
    """One Brent equation that does not hold (indices count from 1, as in the formulas)."""

    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    got: Fraction
    expected: int
    names: tuple[str, str] = ("a", "b")

    def __str__(self) -> str:
        left, right = self.names
        a, b, c = (f"{i}{',' if max(i, j) > 9 else ''}{j}" for i, j in (self.a, self.b, self.c))
        return (
            f"Brent equation {left}[{self.a[0]},{self.a[1]}] * {right}[{self.b[0]},{self.b[1]}] "
            f"in c[{self.c[0]},{self.c[1]}]: the term {left}{a} {right[0]}{b}{right[1:]} occurs "
            f"{self.got} {'time' if self.got == 1 else 'times'} in c{c}, expected {self.expected}"
        )


def first_violation(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Violation | None:
    """Return the first Brent equation that (U, V, W) violates, or None if it is a scheme.

    `U`, `V`, `W`: ndarray of int64 or of Fraction, shapes (R, m, k), (R, k, n), (R, m, n); as made
    by `Scheme`; shapes are taken as consistent.
    Raises ValueError: the scheme is too large to be verified.

    Notes
    -----
    Only products of non-zero coefficients are visited (see `work`); a composed scheme of rank 2401
    takes well under a second.
    """
    return next(iter(violations(U, V, W)), None)


@dataclass(frozen=True, eq=False)
class Violations:
    """The equations that fail, in order; made one at a time, as a small file may have millions."""

    wrong: np.ndarray  # positions of sums that are wrong, ascending; a position is that of `_wrong`
    sums: np.ndarray  # there, times `one`
    is_one: np.ndarray  # whether the sum there is to be 1
    lost: np.ndarray  # positions where the sum is 0 instead of 1, ascending
    one: int
    sizes: tuple[int, int]  # entries of V and of W
    columns: tuple[int, int, int]
    names: tuple[str, str] = ("a", "b")

    def __len__(self) -> int:
        return len(self.wrong) + len(self.lost)

    def __iter__(self) -> Iterator[Violation]:
        got = ((int(x), Fraction(int(y), self.one), int(z))
               for x, y, z in zip(self.wrong, self.sums, self.is_one, strict=True))  # fmt: skip
        lost = ((int(x), Fraction(0), 1) for x in self.lost)
        for key, value, expected in heapq.merge(got, lost):
            rest, c = divmod(key, self.sizes[1])
            a, b = divmod(rest, self.sizes[0])
            a_place, b_place, c_place = map(_place, (a, b, c), self.columns)
            yield Violation(a_place, b_place, c_place, value, expected, names=self.names)


def violations(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Violations:
    """Return all Brent equations that (U, V, W) violates: see `first_violation`."""
    (rank, m, k), n = U.shape, V.shape[2]
    found = _wrong(f"<{m},{k},{n};{rank}>", U, V, W, m * k * n, lambda: _wanted_keys(m, k, n))
    return Violations(*found, sizes=(k * n, m * n), columns=(k, n, n))


def first_symmetric_violation(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Violation | None:
    """Return the first equation that (U, V, W) violates as an algorithm for X X^T, or None.

    `U`, `V`: ndarray of int64 or of Fraction, shape (R, m, k); coefficients of the entries of X;
    those of V are transposed in the product.
    `W`: ndarray of int64 or of Fraction, shape (R, m, m); zero below the diagonal.
    Raises ValueError: the scheme is too large to be verified.
    """
    m, k = U.shape[1:]

    def wanted() -> np.ndarray:
        i, j, l = (x.ravel() for x in np.indices((m, m, k)))
        keys = ((i * k + l) * (m * k) + j * k + l) * (m * m) + i * m + j
        return np.sort(keys[i <= j])

    found = _wrong(f"<{m},{k};{U.shape[0]}> for X X^T", U, V, W, m * m * k, wanted)
    made = Violations(*found, sizes=(m * k, m * m), columns=(k, k, m), names=("x", "x^T"))
    return next(iter(made), None)


def _place(entry: int, columns: int) -> tuple[int, int]:
    row, column = divmod(entry, columns)
    return row + 1, column + 1


def _wrong(
    name: str,
    U: np.ndarray,
    V: np.ndarray,
    W: np.ndarray,
    count: int,
    wanted_keys: Callable[[], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the first fields of `Violations`.

    Sums are to be 1 at the wanted positions, about `count` and ascending, and 0 elsewhere. A
    position counts entries of V within those of U, and entries of W within those of V.
    """
    check_work(name, max(work(U, V, W), count))
    wanted = wanted_keys()
    (u, du), (v, dv), (w, dw) = integer_form(U), integer_form(V), integer_form(W)
    one = du * dv * dw
    keys, sums = _sparse_sums(u, v, w, keep_int64=one == 1)
    nonzero = sums != 0
    keys, sums = keys[nonzero], sums[nonzero]
    place = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    is_one = wanted[place] == keys
    lost = np.ones(len(wanted), bool)
    lost[place[is_one]] = False
    bad = ~is_one | (sums != one)
    return keys[bad], sums[bad], is_one[bad], wanted[lost], one


def work(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> int:
    """Products that a verification visits: ``sum_r nnz(U_r) nnz(V_r) nnz(W_r)``."""
    return sum(_work_of_products(U, V, W))


def check_work(name: str, products: int, most: int = LARGEST_WORK) -> None:
    """Raise ValueError where that many products are too many."""
    if products > most:
        raise ValueError(
            f"{name} is too large to be verified: {products} products of coefficients, at most "
            f"{most} are supported"
        )


def _work_of_products(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> list[int]:
    counts = (np.count_nonzero(x.reshape(len(x), -1), axis=1).tolist() for x in (U, V, W))
    return [a * b * c for a, b, c in zip(*counts, strict=True)]


def _sparse_sums(
    u: np.ndarray, v: np.ndarray, w: np.ndarray, *, keep_int64: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the products of non-zero coefficients per (a, b, c) position; keys ascend."""
    rank = u.shape[0]
    u, v, w = (x.reshape(rank, -1) for x in (u, v, w))
    keys, values = np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, terms = 0, 0
    for r, count in enumerate(_work_of_products(u, v, w)):
        if terms and terms + count > _PIECE:
            found = _terms(u[start:r], v[start:r], w[start:r], rank, keep_int64=keep_int64)
            keys, values = _added((keys, values), found)
            start, terms = r, 0
        terms += count
    found = _terms(u[start:], v[start:], w[start:], rank, keep_int64=keep_int64)
    return _added((keys, values), found)


def _terms(
    u: np.ndarray, v: np.ndarray, w: np.ndarray, rank: int, *, keep_int64: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of the terms of some of the `rank` products."""
    r, keys = np.nonzero(u)
    values = u[r, keys]
    for x in (v, w):
        # Each term so far is multiplied by all non-zeros of the same r, which are contiguous.
        owner, column = np.nonzero(x)
        count = np.bincount(owner, minlength=len(x))
        repeats = count[r]
        within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        r = np.repeat(r, repeats)
        partner = (np.cumsum(count) - count)[r] + within
        keys = np.repeat(keys, repeats) * x.shape[1] + column[partner]
        values = np.repeat(values, repeats) * x[r, column[partner]]
    # int64 is exact while rank * LARGEST_COEFFICIENT**3 could not overflow it.
    if not keep_int64 or int(abs(values).max(initial=0)) * rank > 2**62:
        values = values.astype(object)
    return keys, values


def _added(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sum the values of equal keys; keys ascend."""
    keys, values = (np.concatenate(x) for x in zip(*parts, strict=True))
    if keys.size == 0:
        return keys, values
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(values, starts)


def _wanted_keys(m: int, k: int, n: int) -> np.ndarray:
    """Positions of the ones, encoded as in `_sparse_sums`, ascending."""
    i, l, j = np.ogrid[:m, :k, :n]
    return (((i * k + l) * (k * n) + l * n + j) * (m * n) + i * n + j).ravel()
