"""The Brent equations: the exact proof that (U, V, W) multiplies matrices.

A triple with ``U : (R, m, k)``, ``V : (R, k, n)``, ``W : (R, m, n)`` multiplies an m x k by a
k x n matrix if and only if, for all index pairs,

    sum_r U[r,i,l] V[r,p,j] W[r,x,y]  =  1 if (l, x, y) == (p, i, j) else 0 .

Source: R. P. Brent, "Algorithms for matrix multiplication", Stanford report STAN-CS-70-157, 1970.
Everything here is integer arithmetic; fractions are cleared by their common denominator first.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ._coefficients import integer_form


@dataclass(frozen=True)
class Violation:
    """One Brent equation that does not hold (indices count from 1, as in the formulas)."""

    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    got: Fraction
    expected: int

    def __str__(self) -> str:
        return (
            f"Brent equation a[{self.a[0]},{self.a[1]}] * b[{self.b[0]},{self.b[1]}] "
            f"in c[{self.c[0]},{self.c[1]}]: the sum over r is {self.got}, "
            f"expected {self.expected}"
        )


def first_violation(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Violation | None:
    """Return the first Brent equation that (U, V, W) violates, or None if it is a scheme.

    Parameters
    ----------
    U, V, W : ndarray of int64 or of Fraction, shapes (R, m, k), (R, k, n), (R, m, n)
        As made by `Scheme`; shapes are taken as consistent.

    Notes
    -----
    Only products of non-zero coefficients are visited, so the cost is
    ``sum_r nnz(U_r) nnz(V_r) nnz(W_r)`` and a composed scheme of rank 2401 takes well under a
    second.
    """
    m, k = U.shape[1:]
    n = V.shape[2]
    (u, du), (v, dv), (w, dw) = integer_form(U), integer_form(V), integer_form(W)
    one = du * dv * dw
    keys, sums = _sparse_sums(u, v, w, keep_int64=one == 1)
    wanted = _wanted_keys(m, k, n)
    nonzero = sums != 0
    keys, sums = keys[nonzero], sums[nonzero]
    bad = keys[(sums != one) | ~np.isin(keys, wanted)]
    bad = np.concatenate([bad, np.setdiff1d(wanted, keys, assume_unique=True)])
    if bad.size == 0:
        return None
    key = int(bad.min())
    found = np.flatnonzero(keys == key)
    got = Fraction(int(sums[found[0]]), one) if found.size else Fraction(0)
    rest, c = divmod(key, m * n)
    a, b = divmod(rest, k * n)
    (i, l), (p, j), (x, y) = divmod(a, k), divmod(b, n), divmod(c, n)
    expected = int(l == p and x == i and y == j)
    return Violation((i + 1, l + 1), (p + 1, j + 1), (x + 1, y + 1), got, expected)


def _sparse_sums(
    u: np.ndarray, v: np.ndarray, w: np.ndarray, *, keep_int64: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the products of non-zero coefficients per (a, b, c) position; keys ascend."""
    rank = u.shape[0]
    u, v, w = (x.reshape(rank, -1) for x in (u, v, w))
    kn, mn = v.shape[1], w.shape[1]
    all_keys, all_values = [], []
    for r in range(rank):
        a, b, c = np.flatnonzero(u[r]), np.flatnonzero(v[r]), np.flatnonzero(w[r])
        keys = (a[:, None, None] * kn + b[:, None]) * mn + c
        values = u[r, a][:, None, None] * v[r, b][:, None] * w[r, c]
        all_keys.append(keys.ravel())
        all_values.append(values.ravel())
    keys = np.concatenate(all_keys) if all_keys else np.empty(0, np.int64)
    values = np.concatenate(all_values) if all_values else np.empty(0, np.int64)
    if keys.size == 0:
        return keys, values
    # int64 is exact while rank * LARGEST_COEFFICIENT**3 could not overflow it.
    if not keep_int64 or int(abs(values).max()) * rank > 2**62:
        values = values.astype(object)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(values, starts)


def _wanted_keys(m: int, k: int, n: int) -> np.ndarray:
    """Positions of the ones, encoded as in `_sparse_sums`, ascending."""
    i, l, j = (x.ravel() for x in np.indices((m, k, n)))
    return np.sort(((i * k + l) * (k * n) + l * n + j) * (m * n) + i * n + j)
