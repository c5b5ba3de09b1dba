"""Products of float32 by three products of float16 parts (after Ootomo and Yokota, 2022).

A float16 has 11 significant bits, and no numbers below 2^-24 or above 65504.  So powers of two
bring the norms of rows of a and columns of b to about 2^10, which the result undoes.  A number is
then the sum of two float16 numbers, to 22 bits; of the four products of two such sums the smallest
is left out.

>>> bool(abs(float16_product([[np.pi]], [[1e20]])[0, 0] / 1e20 - np.pi) < 2**-20)
True
"""

import numpy as np


def float16_product(a, b):
    """Return a @ b from the products of parts."""
    a, b = (np.asarray(x, dtype=np.float32).astype(np.float64) for x in (a, b))
    rows = exponents(np.linalg.norm(a, axis=1))[:, np.newaxis]
    columns = exponents(np.linalg.norm(b, axis=0))[np.newaxis, :]
    (a0, a1), (b0, b1) = (float16_parts(np.ldexp(*x)) for x in ((a, 10 - rows), (b, 10 - columns)))
    return np.ldexp(a0 @ b1 + a1 @ b0 + a0 @ b0, rows + columns - 20).astype(np.float32)


def exponents(norms):
    """Return the least powers of two that are larger; 0 for a line of zeros."""
    return np.frexp(norms)[1]


def float16_parts(x):
    """Return two arrays of float16 numbers, as float64, that add up to x to 22 bits."""
    large = x.astype(np.float16).astype(np.float64)
    return large, (x - large).astype(np.float16).astype(np.float64)
