"""The definition of the matrix product, against which everything else is measured.

Source: any textbook; the order of the loops (l outside) is the "outer product" form in
G. H. Golub and C. F. Van Loan, Matrix Computations, section 1.1.

    for l in range(K):
        for i in range(M):
            for j in range(N):
                C[i, j] += A[i, l] * B[l, j]

NumPy runs the two inner loops at once.  Each entry of C is still summed one term at a time, from
l = 0 upwards, in the dtype of the operands and without any BLAS.
"""

import numpy as np


def operands(a, b) -> tuple[np.ndarray, np.ndarray]:
    """Return both operands as 2-D arrays of their common dtype, or say why they do not fit."""
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"expected shapes (M, K) and (K, N), got {a.shape} and {b.shape}")
    dtype = np.result_type(a, b)
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def classical(a, b) -> np.ndarray:
    """Return ``a @ b`` as a sum of K outer products.

    Works for every dtype with ``+`` and ``*``: integers (which wrap), floats, complex numbers,
    and exact ones.

    >>> classical([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    array([[19, 22],
           [43, 50]])
    >>> from fractions import Fraction
    >>> third = np.array([[Fraction(1, 3)]])
    >>> classical(third, third)
    array([[Fraction(1, 9)]], dtype=object)
    """
    a, b = operands(a, b)
    c = np.zeros((a.shape[0], b.shape[1]), dtype=a.dtype)
    for column, row in zip(a.T, b, strict=True):
        c += column[:, np.newaxis] * row[np.newaxis, :]
    return c
