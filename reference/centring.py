"""Centring: rows of A and columns of B lose their means before an algorithm adds them.

Numbers of one sign have sums as large as their count, and errors of a fast algorithm grow with the
blocks that it adds.  What is left without the means has both signs: it is smaller, and its sums
walk instead of growing.  With the means m of A's rows and n of B's columns,

    A = A0 + m 1'     B = B0 + 1 n'     A B = A0 B0 + m (1' B) + (A0 1) n'

where 1 is a column of ones: two outer products, of the means and of sums.  Rounded to few bits, a
mean is subtracted almost without rounding.  Data without a mean stay as they are.

Source: the identity is that of sums of squares about a mean; the choice of bits and of the least
mean is falcon's.
"""

import numpy as np

BITS = 6  # of a mean, below the leading bit of the root mean square of its line
LEAST, LEAST_SECOND = 0.35, 0.5  # shares of it from which a mean counts; where A has means, of B's


def means_of_rows(x, least: float = LEAST) -> np.ndarray:
    """Return the rounded mean of each row; 0 where it is a small share of the root mean square.

    >>> means_of_rows([[1.0, 1.0, 1.01], [1.0, -1.0, 1.0]])
    array([1., 0.])
    """
    x = np.asarray(x, np.float64)
    size, mean = np.sqrt((x**2).mean(axis=1)), x.mean(axis=1)
    unit = np.ldexp(1.0, np.frexp(size)[1] - 1 - BITS)
    return np.where(abs(mean) >= least * size, np.rint(mean / unit) * unit, 0.0)


def centred(a, b, multiply) -> np.ndarray:
    """Return the product, of which ``multiply`` forms that of what is left.

    >>> from reference.strassen import strassen
    >>> a, b = np.random.default_rng(0).uniform(1, 2, (2, 64, 64)).astype("f4")
    >>> exact = a.astype("f8") @ b
    >>> plain, without_means = (abs(f - exact).mean() for f in
    ...                         (strassen(a, b), centred(a, b, strassen)))
    >>> bool(plain > 2 * without_means)
    True
    """
    a, b = np.asarray(a), np.asarray(b)
    m = means_of_rows(a)
    n = means_of_rows(b.T, LEAST_SECOND if m.any() else LEAST)
    left, right = a - m[:, None].astype(a.dtype), b - n.astype(b.dtype)
    sums = b.sum(axis=0, dtype=np.float64), a.sum(axis=1, dtype=np.float64) - a.shape[1] * m
    outer = np.outer(m, sums[0]) + np.outer(sums[1], n)
    return multiply(left, right) + outer.astype(a.dtype)
