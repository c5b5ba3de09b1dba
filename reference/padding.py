"""Pad any matrix so that it can be cut into blocks, cut it, and join the blocks of a result.

Zeros below A and to the right of B only add rows and columns of zeros to C, which are cut off at
the end; zeros along the common dimension add nothing at all.  So padding never changes C.

Source: V. Strassen (1969) embeds a matrix in one of size m * 2**k; S. Huss-Lederman et al.,
"Implementation of Strassen's algorithm for matrix multiplication", Supercomputing 1996, compare
this with the alternatives (padding at each level, and peeling off an odd row or column).
"""

import numpy as np


def pad(x: np.ndarray, row_multiple: int, column_multiple: int) -> np.ndarray:
    """Return a copy of ``x``, enlarged by zeros until its sizes are multiples of the given ones.

    >>> pad(np.array([[1, 2, 3]]), 2, 2)
    array([[1, 2, 3, 0],
           [0, 0, 0, 0]])
    """
    rows, columns = x.shape
    padded_rows = -(-rows // row_multiple) * row_multiple  # -(-p // q) is p / q, rounded up
    padded_columns = -(-columns // column_multiple) * column_multiple
    padded = np.zeros((padded_rows, padded_columns), dtype=x.dtype)
    padded[:rows, :columns] = x
    return padded


def split(x: np.ndarray, p: int, q: int) -> list[list[np.ndarray]]:
    """Cut ``x`` into p rows of q equal blocks.  The blocks are views of ``x``, not copies.

    >>> (x11, x12), (x21, x22) = split(np.arange(8).reshape(2, 4), 2, 2)
    >>> x12
    array([[2, 3]])
    """
    if x.shape[0] % p or x.shape[1] % q:
        raise ValueError(f"shape {x.shape} cannot be cut into {p} x {q} equal blocks; pad it first")
    h, w = x.shape[0] // p, x.shape[1] // q
    return [[x[i * h : (i + 1) * h, j * w : (j + 1) * w] for j in range(q)] for i in range(p)]


def join(blocks: list[list[np.ndarray]], rows: int, columns: int) -> np.ndarray:
    """Put blocks together and crop the result to its true size: the inverse of pad and split.

    >>> x = np.arange(6).reshape(2, 3)
    >>> join(split(pad(x, 2, 2), 2, 2), 2, 3)
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    return np.block(blocks)[:rows, :columns].copy()
