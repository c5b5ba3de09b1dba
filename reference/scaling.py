"""Outside scaling: rows of A and columns of B are brought to one scale by powers of two.

An LCMA adds rows of A that have the same position in different blocks, and the rounding errors of
a large row reach the small ones.  Scaling by powers of two rounds nothing: multiply the rows before
and divide the rows of C after.  Norms of rows that are added are then within ``2**(1 - 1/m)`` of
each other.  The same holds for columns of B.  Rows of zeros stay rows of zeros.

Source: G. Ballard, A. R. Benson, A. Druinsky, B. Lipshitz, O. Schwartz, "Improving the numerical
stability of fast matrix multiplication", SIAM J. Matrix Anal. Appl. 37, 2016 (arXiv:1507.00687).
"""

import numpy as np


def powers_of_two(norms, parts: int) -> np.ndarray:
    """Return a power of two for each norm; 0 for norms that are 0.

    Lines that are a block apart are added.  The fractional parts of their logarithms lie on a
    circle: it is cut where the gap between two neighbours is largest.

    >>> powers_of_two([1.0, 5.0, 1000.0, 40.0], 2)  # 1 meets 1000, 5 meets 40
    array([2.000000e+00, 5.000000e-01, 1.953125e-03, 6.250000e-02])
    """
    norms = np.asarray(norms, dtype=float)
    powers = np.zeros(len(norms))
    block = -(-len(norms) // parts)
    for place in range(block):
        at = [i for i in range(place, len(norms), block) if norms[i] > 0]
        if not at:
            continue
        logarithms = np.log2(norms[at])
        circle = np.sort(logarithms % 1)
        following = np.append(circle[1:], circle[0] + 1)
        lowest = following[np.argmax(following - circle)]
        powers[at] = 2.0 ** -np.floor(logarithms - lowest + 1e-9)
    return powers


def scaled(a, b, multiply, m: int, n: int) -> np.ndarray:
    """Return ``multiply(a, b)``, an algorithm of m by n blocks, of scaled rows and columns.

    >>> from reference.strassen import strassen
    >>> a = np.array([[1e9, 0.0], [0.3, 0.1]])
    >>> float(strassen(a, a.T)[1, 1])
    0.0
    >>> round(float(scaled(a, a.T, strassen, 2, 2)[1, 1]), 12)
    0.1
    """
    a, b = np.asarray(a), np.asarray(b)
    rows = powers_of_two(np.linalg.norm(a, axis=1), m)
    columns = powers_of_two(np.linalg.norm(b, axis=0), n)
    product = multiply(a * rows[:, None], b * columns)
    undone = np.divide(product, rows[:, None], out=np.zeros_like(product), where=rows[:, None] > 0)
    return np.divide(undone, columns, out=np.zeros_like(product), where=columns > 0)
