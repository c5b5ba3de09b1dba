"""Inside scaling: columns of A and rows of B are evened by powers of two.

Columns of A may be in different units, which rows of B fold back.  An LCMA adds columns of A, and
rows of B: where a small column meets a large row, rounding errors of others are as large as nothing
in the product.  Multiplying the columns and dividing the rows by powers of two rounds nothing and
leaves the product as it is.  Where rows of B are of one size, all of the scale is in A, and errors
are those of data without units, by Cauchy and Schwarz.

Source: G. Ballard, A. R. Benson, A. Druinsky, B. Lipshitz, O. Schwartz, "Improving the numerical
stability of fast matrix multiplication", SIAM J. Matrix Anal. Appl. 37, 2016 (arXiv:1507.00687).
"""

import numpy as np


def evened(a, b, multiply) -> np.ndarray:
    """Return ``multiply(a, b)`` of columns and rows that no longer oppose one another.

    >>> from reference.strassen import strassen
    >>> a, b = np.array([[3e9, 0.3], [1e9, 0.1]]), np.array([[3e-9, 1e-9], [0.7, 0.9]])
    >>> exact = [[9.21, 3.27], [3.07, 1.09]]
    >>> bool(abs(strassen(a, b) - exact).max() > 1e-8)
    True
    >>> bool(abs(evened(a, b, strassen) - exact).max() < 1e-14)
    True
    """
    a, b = np.asarray(a), np.asarray(b)
    norms = np.linalg.norm(b, axis=1)
    powers = 2.0 ** np.round(np.log2(norms, out=np.zeros_like(norms), where=norms > 0))
    return multiply(a * powers, b / powers[:, None])
