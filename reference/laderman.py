"""Laderman's algorithm, <3,3,3;23>: 23 products of blocks instead of 27.

Source: J. D. Laderman, "A noncommutative algorithm for multiplying 3 x 3 matrices using 23
multiplications", Bulletin of the American Mathematical Society 82 (1976), 126-128.  Whether 22
products would do is still unknown.  The test proves every line below against the definition.
"""

import numpy as np

from reference.classical import operands
from reference.padding import join, pad, split


def laderman(a, b) -> np.ndarray:
    """Return ``a @ b`` by one level of Laderman's algorithm.

    >>> laderman(np.arange(9).reshape(3, 3), np.eye(3, dtype=int))[2]
    array([6, 7, 8])
    """
    a, b = operands(a, b)
    (a11, a12, a13), (a21, a22, a23), (a31, a32, a33) = split(pad(a, 3, 3), 3, 3)
    (b11, b12, b13), (b21, b22, b23), (b31, b32, b33) = split(pad(b, 3, 3), 3, 3)

    h1 = (a11 + a12 + a13 - a21 - a22 - a32 - a33) @ b22
    h2 = (a11 - a21) @ (b22 - b12)
    h3 = a22 @ (b12 - b11 + b21 - b22 - b23 - b31 + b33)
    h4 = (a21 - a11 + a22) @ (b11 - b12 + b22)
    h5 = (a21 + a22) @ (b12 - b11)
    h6 = a11 @ b11
    h7 = (a31 - a11 + a32) @ (b11 - b13 + b23)
    h8 = (a31 - a11) @ (b13 - b23)
    h9 = (a31 + a32) @ (b13 - b11)
    h10 = (a11 + a12 + a13 - a22 - a23 - a31 - a32) @ b23
    h11 = a32 @ (b13 - b11 + b21 - b22 - b23 - b31 + b32)
    h12 = (a32 - a13 + a33) @ (b22 + b31 - b32)
    h13 = (a13 - a33) @ (b22 - b32)
    h14 = a13 @ b31
    h15 = (a32 + a33) @ (b32 - b31)
    h16 = (a22 - a13 + a23) @ (b23 + b31 - b33)
    h17 = (a13 - a23) @ (b23 - b33)
    h18 = (a22 + a23) @ (b33 - b31)
    h19, h20, h21, h22, h23 = a12 @ b21, a23 @ b32, a21 @ b13, a31 @ b12, a33 @ b33

    c11 = h6 + h14 + h19
    c12 = h1 + h4 + h5 + h6 + h12 + h14 + h15
    c13 = h6 + h7 + h9 + h10 + h14 + h16 + h18
    c21 = h2 + h3 + h4 + h6 + h14 + h16 + h17
    c22 = h2 + h4 + h5 + h6 + h20
    c23 = h14 + h16 + h17 + h18 + h21
    c31 = h6 + h7 + h8 + h11 + h12 + h13 + h14
    c32 = h12 + h13 + h14 + h15 + h22
    c33 = h6 + h7 + h8 + h9 + h23

    return join([[c11, c12, c13], [c21, c22, c23], [c31, c32, c33]], a.shape[0], b.shape[1])
