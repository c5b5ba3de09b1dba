"""Prove that three arrays of coefficients multiply matrices: the Brent equations.

Source: R. P. Brent, "Algorithms for matrix multiplication", report CS-157, Stanford University,
1970.  Put the four stages of lcma.py into one formula:

    C[i, j] = sum_r W[r, i, j] * (sum_pq U[r, p, q] A[p, q]) * (sum_st V[r, s, t] B[s, t])

It is the matrix product for all A and B if and only if the coefficient of each A[p, q] B[s, t] is
right: one when the term belongs to C[i, j], that is p = i, q = s and t = j, and else zero.  These
are (mk)(kn)(mn) equations,

    sum_r U[r, p, q] * V[r, s, t] * W[r, i, j]  =  [p = i] [q = s] [t = j].
"""

import json
import sys
from fractions import Fraction

import numpy as np


def brent_residual(U, V, W):
    """Return the largest violation of the Brent equations, exactly; zero proves the algorithm.

    The arithmetic is on Python integers or Fractions, so nothing is rounded and nothing wraps.

    >>> one = [[[1]]]
    >>> brent_residual(one, one, one)
    0
    >>> brent_residual(one, one, [[[-1]]])
    2
    """
    for x in (U, V, W):
        if np.asarray(x).dtype.kind in "fc":
            raise TypeError("the check is exact: give integers or Fractions, not floats")
    U, V, W = (np.asarray(x).astype(object) for x in (U, V, W))
    (rank, m, k), n = U.shape, V.shape[2]
    if V.shape != (rank, k, n) or W.shape != (rank, m, n):
        raise ValueError(f"{U.shape}, {V.shape}, {W.shape} are not (R,m,k), (R,k,n), (R,m,n)")

    left = np.zeros((m, k, k, n, m, n), dtype=object)
    for u, v, w in zip(U, V, W, strict=True):
        left += np.multiply.outer(np.multiply.outer(u, v), w)

    right = np.zeros((m, k, k, n, m, n), dtype=object)
    for i, q, j in np.ndindex(m, k, n):
        right[i, q, q, j, i, j] = 1

    return max(abs(left - right).flat)


if __name__ == "__main__":  # python reference/brent.py mine.json
    with open(sys.argv[1], encoding="utf-8") as file:
        held = json.load(file)
    m, k, n = (held[axis] for axis in "mkn")
    rows = [np.array([[Fraction(x) for x in row] for row in held[name]]) for name in "UVW"]
    off = brent_residual(*map(np.reshape, rows, [(-1, m, k), (-1, k, n), (-1, m, n)]))
    told = f"fail, by {off} at most: it is no scheme" if off else "hold"
    print(f"the {(m * k * n) ** 2} Brent equations of <{m},{k},{n};{len(rows[0])}> {told}")
    sys.exit(off != 0)
