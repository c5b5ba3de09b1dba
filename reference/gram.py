"""C = A A^T, half of which is known by symmetry: the definition, and any scheme for it.

Sources: the definition of the product; D. Rybin, Y. Zhang and Z.-Q. Luo, "XX^t can be faster",
arXiv:2505.09814, 2025, for schemes (U, V, W) of this kind.  A scheme cuts A into m x k blocks and
forms the blocks C[i, j] with i <= j by products of sums of blocks of A with sums of blocks of A^T.
U and V have the shape (R, m, k), W has (R, m, m) and is zero below the diagonal.

A product whose sums are the same is of the form Y Y^T again.  Classically A of 2 x 2 blocks takes
2 general products and 4 of these: 2 + 4 / 2 = 4 instead of 8 products of blocks.
"""

import numpy as np

from reference.classical import classical
from reference.lcma import coefficients, combine
from reference.padding import join, pad, split


def mirrored(upper: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix with this upper triangle.

    >>> mirrored(np.array([[1, 2], [0, 3]]))
    array([[1, 2],
           [2, 3]])
    """
    return np.triu(upper) + np.triu(upper, 1).T


def gram(a) -> np.ndarray:
    """Return ``a @ a.T``, multiplying rows i and j for i <= j only.

    >>> gram([[1, 2], [3, 4]])
    array([[ 5, 11],
           [11, 25]])
    """
    a = np.asarray(a)
    upper = np.zeros((a.shape[0], a.shape[0]), dtype=a.dtype)
    for i in range(a.shape[0]):
        upper[i, i:] = classical(a[i : i + 1], a[i:].T)[0]
    return mirrored(upper)


def gram_by_scheme(a, U, V, W) -> np.ndarray:
    """Return ``a @ a.T`` by one level of the scheme; ``Y @ Y.T`` is formed by `gram`."""
    a = np.asarray(a)
    U, V, W = (coefficients(x, a.dtype) for x in (U, V, W))
    _, m, k = U.shape
    padded = pad(a, m, k)
    blocks = sum(split(padded, m, k), [])

    h = []
    for u, v in zip(U, V, strict=True):
        y, z = combine(u, blocks), combine(v, blocks)
        h.append(gram(y) if (u == v).all() else classical(y, z.T))
    size = padded.shape[0] // m
    zero = np.zeros((size, size), dtype=a.dtype)
    c = [[combine(W[:, i, j], h) if i <= j else zero for j in range(m)] for i in range(m)]
    return mirrored(join(c, a.shape[0], a.shape[0]))
