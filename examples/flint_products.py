"""Products modulo p by falcon between matrices of python-flint, whose linear algebra goes on.

python examples/flint_products.py [size]

FLINT's nmod_mat has ranks, determinants, inverses and more. Its elements pass to NumPy and back as
Python's integers, which takes longer than the product: convert once, and multiply often.
"""

import sys
import time

import flint
import numpy as np

import falcon


def to_numpy(x):
    """Return an nmod_mat as an array of int64."""
    return np.array([int(value) for value in x.entries()], np.int64).reshape(x.nrows(), x.ncols())


def to_flint(x, p):
    """Return an array of integers as an nmod_mat."""
    return flint.nmod_mat(*x.shape, x.ravel().tolist(), p)


def timed(call, *arguments, **options):
    """Return a result and the seconds of the call."""
    start = time.perf_counter()
    return call(*arguments, **options), time.perf_counter() - start


def main(size=200):
    """Multiply by both, and check by determinants: that of a product is the product of both."""
    random = np.random.default_rng(0)
    for p in (251, 1048583, 2147483647):
        a, b = random.integers(0, p, (2, size, size))
        (x, y), there = timed(lambda a=a, b=b, p=p: (to_flint(a, p), to_flint(b, p)))
        by_flint, theirs = timed(lambda x=x, y=y: x * y)
        falcon.matmul(a, b, modulus=p)  # the first call plans
        by_falcon, ours = timed(falcon.matmul, a, b, modulus=p)
        _, back = timed(to_numpy, by_flint)
        print(
            f"modulo {p}: falcon {1e3 * ours:.1f} ms, FLINT {1e3 * theirs:.1f} ms "
            f"(conversions {1e3 * (there + back):.1f} ms)"
        )
        product = to_flint(by_falcon, p)
        print("the same:", product == by_flint, product.det() == x.det() * y.det())


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:] if x.isdecimal()))
