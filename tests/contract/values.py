"""Elements of operands: whole numbers, whose products are exact, and normal ones."""

from functools import cache

import numpy as np

from falcon._core.dtypes import dtype_of

LARGEST = 67  # larger matrices hold small integers, whose sums are integers of 53 bits


@cache
def whole(name, shape, seed=0):
    """Whole numbers: floats so small that every sum is exact, integers of all sizes, which wrap."""
    row, rng = dtype_of(name), np.random.default_rng(seed)
    if row.is_exact and max(shape) <= LARGEST:
        made = rng.integers(0, 256, (*shape, row.itemsize), np.uint8).view(row.numpy)[..., 0]
    else:
        made = rng.integers(0 if row.is_unsigned else -2, 3, shape)
    if row.is_complex:
        made = made + 1j * rng.integers(-2, 3, shape)
    return frozen(made.astype(row.numpy))


@cache
def normal(name, shape, seed=0):
    """Normal numbers."""
    row, rng = dtype_of(name), np.random.default_rng(seed)
    made = rng.standard_normal(shape)
    if row.is_complex:
        made = made + 1j * rng.standard_normal(shape)
    return frozen(made.astype(row.numpy))


def frozen(x):
    x.flags.writeable = False
    return x


def widest(row):
    """A type in which sums of small numbers are exact, and those of integers wrap as in `row`."""
    if row.is_exact:
        return np.uint64 if row.is_unsigned else np.int64
    if row.itemsize < (16 if row.is_complex else 8):  # with room for sums that overflow
        return np.complex128 if row.is_complex else np.float64
    return np.clongdouble if row.is_complex else np.longdouble


def rounded(x, row):
    """Convert exact sums to a type; to one of 16 bits by way of its sums' type."""
    return x.astype(row.accumulator.numpy).astype(row.numpy)
