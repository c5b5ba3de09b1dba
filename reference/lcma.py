"""Any algorithm <m,k,n;R;U,V,W>, given as three arrays of coefficients, in four stages.

Source: the form is due to R. P. Brent, "Algorithms for matrix multiplication", report CS-157,
Stanford University, 1970; the name LCMA and the four stages follow the paper "FalconGEMM",
arXiv:2605.06057, 2026.  U has shape (R, m, k), V (R, k, n), W (R, m, n); W is written for C itself
and not, as some papers do, for its transpose.
"""

import numpy as np

from reference.classical import classical, operands
from reference.padding import join, pad, split


def coefficients(x, dtype) -> np.ndarray:
    """Return integers or Fractions as ``dtype``; an integer dtype cannot hold fractions."""
    x = np.asarray(x)
    if np.dtype(dtype).kind in "iu" and any(value != int(value) for value in x.flat):
        raise ValueError(f"operands of dtype {dtype} need integer coefficients")
    return x.astype(dtype)


def combine(weights: np.ndarray, blocks: list[np.ndarray]) -> np.ndarray:
    """Return the sum of weight times block; terms of weight zero are left out.

    >>> combine(np.array([1, 0, -1]), [np.array([5]), np.array([6]), np.array([7])])
    array([-2])
    """
    total = np.zeros_like(blocks[0])
    for weight, block in zip(weights.flat, blocks, strict=True):
        if weight != 0:
            total += weight * block
    return total


def lcma(a, b, U, V, W) -> np.ndarray:
    """Return ``a @ b`` by one level of the algorithm with coefficients U, V and W.

    >>> one_by_one = np.ones((1, 1, 1), dtype=int)  # <1,1,1;1>, the classical algorithm
    >>> lcma([[1, 2], [3, 4]], [[5, 6], [7, 8]], one_by_one, one_by_one, one_by_one)
    array([[19, 22],
           [43, 50]])
    """
    a, b = operands(a, b)
    U, V, W = (coefficients(x, a.dtype) for x in (U, V, W))
    (_, m, k), (_, _, n) = U.shape, V.shape
    a_blocks = sum(split(pad(a, m, k), m, k), [])
    b_blocks = sum(split(pad(b, k, n), k, n), [])

    a_sums = [combine(u, a_blocks) for u in U]  # 1. Combine A
    b_sums = [combine(v, b_blocks) for v in V]  # 2. Combine B
    h = [classical(x, y) for x, y in zip(a_sums, b_sums, strict=True)]  # 3. GEMM
    c = [[combine(W[:, i, j], h) for j in range(n)] for i in range(m)]  # 4. Combine H
    return join(c, a.shape[0], b.shape[1])
