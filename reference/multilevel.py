"""Several levels of fast algorithms, one inside the other, each level with its own.

A product of blocks is a matrix product again, so stage 3 of lcma.py may itself be done by an
LCMA.  Strassen's algorithm used at every level until nothing is left gives the famous exponent
log2(7) = 2.807...; in practice one or two levels pay.  The formats may differ: <2,2,2;7> over
<3,2,3;15> is an algorithm <6,4,6;105>.

Source: V. Strassen (1969) for the recursion; for mixing formats, A. R. Benson and G. Ballard, "A
framework for practical parallel fast matrix multiplication", PPoPP 2015.
"""

import numpy as np

from reference.classical import classical, operands
from reference.lcma import coefficients, combine
from reference.padding import join, pad, split


def multilevel(a, b, schemes) -> np.ndarray:
    """Return ``a @ b``; ``schemes`` lists one triple (U, V, W) per level, the outermost first.

    Each level pads its own operands, so no size needs to be divisible by anything.

    >>> ones = np.ones((2, 1, 1), dtype=int)
    >>> halves = np.eye(2, dtype=int).reshape(2, 1, 2)  # <1,2,1;2>: K is cut in two
    >>> cut_k = (halves, halves.reshape(2, 2, 1), ones)
    >>> multilevel([[1, 2, 3]], [[4], [5], [6]], [cut_k, cut_k])
    array([[32]])
    """
    a, b = operands(a, b)
    if not schemes:
        return classical(a, b)

    U, V, W = (coefficients(x, a.dtype) for x in schemes[0])
    (_, m, k), (_, _, n) = U.shape, V.shape
    a_blocks = sum(split(pad(a, m, k), m, k), [])
    b_blocks = sum(split(pad(b, k, n), k, n), [])

    h = [
        multilevel(combine(u, a_blocks), combine(v, b_blocks), schemes[1:])
        for u, v in zip(U, V, strict=True)
    ]
    c = [[combine(W[:, i, j], h) for j in range(n)] for i in range(m)]
    return join(c, a.shape[0], b.shape[1])
