"""Strassen's algorithm, <2,2,2;7>: seven products of blocks instead of eight, 18 additions.

Source: V. Strassen, "Gaussian elimination is not optimal", Numerische Mathematik 13 (1969),
354-356.  The names h1 ... h7 are the I ... VII of the paper, in its order.

The price is accuracy.  Entries of C contain terms that cancel in exact arithmetic, but whose
rounding errors stay: on random data the typical error is twice that of the classical algorithm.
"""

import numpy as np

from reference.classical import operands
from reference.padding import join, pad, split


def strassen(a, b) -> np.ndarray:
    """Return ``a @ b`` by one level of Strassen's algorithm.

    >>> strassen([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    array([[19, 22],
           [43, 50]])
    """
    a, b = operands(a, b)
    (a11, a12), (a21, a22) = split(pad(a, 2, 2), 2, 2)
    (b11, b12), (b21, b22) = split(pad(b, 2, 2), 2, 2)

    h1 = (a11 + a22) @ (b11 + b22)
    h2 = (a21 + a22) @ b11
    h3 = a11 @ (b12 - b22)
    h4 = a22 @ (b21 - b11)
    h5 = (a11 + a12) @ b22
    h6 = (a21 - a11) @ (b11 + b12)
    h7 = (a12 - a22) @ (b21 + b22)

    c11 = h1 + h4 - h5 + h7
    c12 = h3 + h5
    c21 = h2 + h4
    c22 = h1 - h2 + h3 + h6

    return join([[c11, c12], [c21, c22]], a.shape[0], b.shape[1])
