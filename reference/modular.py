"""Exact products modulo p by floating-point arithmetic that never rounds.

A float64 holds every integer up to 2^53, so a product of float64 matrices is exact as long as no
sum of products exceeds that.  Three steps see to it.  Residues are centred: products of numbers in
-p/2 ... p/2 are a quarter as large as those in 0 ... p - 1.  K is cut into slices whose sums stay
below 2^53, and each slice's sums are reduced.  And where p is so large that slices would be short,
a residue is two digits x = 2^16 h + l, and Karatsuba and Ofman (1962) save the fourth product:

    a b = 2^32 h h' + 2^16 ((h + l)(h' + l') - h h' - l l') + l l'

Source: J.-G. Dumas, P. Giorgi and C. Pernet, "Dense linear algebra over word-size prime fields: the
FFLAS and FFPACK packages", ACM TOMS 35 (3), 2008.

>>> modular([[1, -2], [3, 4]], [[5, 6], [7, 8]], 7)
array([[5, 4],
       [1, 1]])
"""

import numpy as np


def centred(x, p):
    """Return the residues of integers, within p / 2 of 0, as int64.

    >>> centred([0, 3, 4, 6, -1, 700], 7)
    array([ 0,  3, -3, -1, -1,  0])
    """
    x = np.asarray(x)
    if x.dtype != np.uint64:  # whose largest numbers int64 lacks
        x = x.astype(np.int64)
    x = (x % p).astype(np.int64)
    return np.where(x > p // 2, x - p, x)


def sliced(a, b, p):
    """Return a @ b modulo p of integers so small that float64 holds some of their products."""
    largest = int(max(abs(a).max(initial=1), abs(b).max(initial=1)))
    terms = 2**53 // largest**2
    c = np.zeros((a.shape[0], b.shape[1]), dtype=np.int64)
    for k in range(0, a.shape[1], terms):
        exact = a[:, k : k + terms].astype(np.float64) @ b[k : k + terms].astype(np.float64)
        c = (c + exact.astype(np.int64)) % p
    return c


def modular(a, b, p):
    """Return ``a @ b`` modulo p, 2 <= p < 2^31, in 0 ... p - 1, as int64."""
    a, b = centred(a, p), centred(b, p)
    if p < 2**20:
        return sliced(a, b, p)
    (high, low), (of_b, rest) = ((x >> 16, x & 0xFFFF) for x in (a, b))
    first, last = sliced(high, of_b, p), sliced(low, rest, p)
    middle = sliced(high + low, of_b + rest, p) - first - last
    return (first * (2**32 % p) + middle % p * 2**16 + last) % p
