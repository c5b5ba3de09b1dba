"""Multiply arrays of galois' GF(p) by falcon: the same field elements, sooner.

python examples/galois_products.py [size]

galois multiplies floats or integers while sums of residues fit them, and else Python objects or
compiled loops. An array of GF(p) holds residues, so that falcon takes a view and returns one.
"""

import sys
import time

import galois
import numpy as np

import falcon


def product(a, b):
    """Return ``a @ b`` of two arrays of the same prime field."""
    field = type(a)
    if type(b) is not field or field.degree != 1:
        raise TypeError(f"a is of {type(a)} and b of {type(b)}; expected one prime field")
    residues = falcon.matmul(a.view(np.ndarray), b.view(np.ndarray), modulus=field.characteristic)
    return residues.view(field)


def main(size=200):
    """Compare products, and solve a system, in three fields."""
    for p in (251, 1048583, 2147483647):
        field = galois.GF(p)
        a, b = field.Random((size, size), seed=0), field.Random((size, size), seed=1)
        seconds = []
        for multiply in (product, np.matmul):
            multiply(a, b)  # the first call plans, or compiles
            start = time.perf_counter()
            found = multiply(a, b)
            seconds.append(time.perf_counter() - start)
        same = bool((product(a, b) == found).all())
        x = np.linalg.solve(a[:9, :9], b[:9, :2])  # by galois
        same &= bool((product(a[:9, :9], x) == b[:9, :2]).all())
        milliseconds = [f"{1e3 * x:.1f}" for x in seconds]
        print(
            f"GF({p}): falcon {milliseconds[0]} ms, galois {milliseconds[1]} ms; the same: {same}"
        )


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:] if x.isdecimal()))
