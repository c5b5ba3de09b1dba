"""C = A A^T, half of which is known by symmetry.

Source: the definition of the product.  Only C[i, j] with i <= j are formed; the rest mirrors them.
"""

import numpy as np

from reference.classical import classical


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
