"""An algorithm of Hopcroft and Kerr's format, <3,2,3;15>: 15 products instead of 18.

Source of the method: J. E. Hopcroft and L. R. Kerr, "On minimizing the number of multiplications
necessary for matrix multiplication", SIAM Journal on Applied Mathematics 20 (1971), 30-36, who
gave the first algorithm of this format and showed that, for coefficients modulo 2, fewer than 15
products cannot suffice.

The formulas below are not those printed in the paper.  They were found by a computer search (a
flip-graph walk) for few additions; the test proves them against the definition.
"""

import numpy as np

from reference.classical import operands
from reference.padding import join, pad, split


def hopcroft_kerr(a, b) -> np.ndarray:
    """Return ``a @ b`` by one level of a <3,2,3;15> algorithm.

    >>> hopcroft_kerr([[1, 2], [3, 4], [5, 6]], [[1, 0, 1], [0, 1, 1]])
    array([[ 1,  2,  3],
           [ 3,  4,  7],
           [ 5,  6, 11]])
    """
    a, b = operands(a, b)
    (a11, a12), (a21, a22), (a31, a32) = split(pad(a, 3, 2), 3, 2)
    (b11, b12, b13), (b21, b22, b23) = split(pad(b, 2, 3), 2, 3)

    h1 = a11 @ b11
    h2 = a12 @ b21
    h3 = a22 @ (b12 + b22)
    h4 = (a22 - a21) @ b12
    h5 = (a32 - a31) @ b23
    h6 = a31 @ (b13 + b23)
    h7 = (a21 + a31) @ (b12 - b13)
    h8 = (a22 + a31) @ (b12 + b23)
    h9 = (a22 + a32) @ (b22 - b23)
    h10 = (a12 + a32) @ (b11 - b13 + b21 - b23)
    h11 = (a11 + a21) @ (b11 + b12 + b21 + b22)
    h12 = (a12 - a31 + a32) @ (b11 - b13 - b23)
    h13 = (a11 + a21 - a22) @ (b12 + b21 + b22)
    h14 = (a11 - a12 + a21 - a22) @ (b21 + b22)
    h15 = (a11 - a12 + a31 - a32) @ (b11 - b13)

    c11, c12, c13 = h1 + h2, h4 - h2 + h13 - h14, h1 - h5 - h12 - h15
    c21, c22, c23 = h11 - h1 - h3 - h13, h3 - h4, h8 - h4 - h6 - h7
    c31, c32, c33 = h6 - h2 + h10 - h12, h5 - h3 + h8 + h9, h5 + h6

    return join([[c11, c12, c13], [c21, c22, c23], [c31, c32, c33]], a.shape[0], b.shape[1])
