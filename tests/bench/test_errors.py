"""Rounding errors are measured right, and told from wrong products."""

import numpy as np
import pytest

from falcon import schemes
from falcon.bench.errors import Sample, wrong_beyond
from falcon.bench.schemes import shape_of


def product_of(dtype, M=50, K=40, N=30, noise=0.0):
    random = np.random.default_rng(1)
    a, b = random.standard_normal((M, K)), random.standard_normal((K, N))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * random.standard_normal((M, K)), b * (1 + 1j)
    a, b = a.astype(dtype), b.astype(dtype)
    wide = np.result_type(dtype, "longdouble")
    c = a.astype(wide) @ b.astype(wide)
    c *= 1 + noise
    return a, b, c.astype(dtype)


def sampled_error(a, b, c, rows=32):
    return Sample(a, b, rows).error(c)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "longdouble", "complex64", "complex128"]
)
def test_errors_are_relative_and_rms(dtype):
    precision = float(np.finfo(dtype).eps)
    assert sampled_error(*product_of(dtype)) <= precision
    noise = 64 * precision
    assert sampled_error(*product_of(dtype, noise=noise)) == pytest.approx(noise, rel=0.05)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_integers_are_right_or_wrong(dtype):
    random = np.random.default_rng(2)
    a, b = (
        random.integers(0, 100, (9, 8)).astype(dtype),
        random.integers(0, 100, (8, 7)).astype(dtype),
    )
    c = a @ b
    assert sampled_error(a, b, c) == 0.0
    c[8, 3] += np.ones((), dtype)
    assert sampled_error(a, b, c) == float("inf")


def test_rows_are_spread_over_c():
    a, b, c = product_of("float32", M=1000)
    c[-1] = 0  # the last row is always among the sampled
    assert sampled_error(a, b, c, rows=2) > 0.1
    c[1:-1] = 7
    assert sampled_error(a, b, c, rows=1) < 1e-6


def test_products_that_vanish():
    zero = np.zeros((3, 3))
    assert sampled_error(zero, zero, zero) == 0.0
    assert sampled_error(zero[:1], zero, zero[:1]) == 0.0


def test_what_is_wrong_and_what_is_rounding():
    assert wrong_beyond("float32", 4096) < 1e-3
    assert wrong_beyond("float32", 4096, 8.0) == 8 * wrong_beyond("float32", 4096)
    assert wrong_beyond("float64", 64) < 1e-12
    assert wrong_beyond("int64", 64) == 0


def test_sizes_are_multiples_of_the_format():
    shape = shape_of(schemes.get("3x4x5:48"), 100)
    assert (shape.M, shape.K, shape.N) == (99, 100, 100)
    assert shape_of(schemes.get("3x4x5:48"), 1).M == 3
