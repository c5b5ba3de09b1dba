"""Shared operands: a worker maps what was made, and the files are removed."""

import os

import numpy as np
import pytest

from falcon.bench.errors import relative_error
from falcon.bench.operands import mapped, shared
from falcon.bench.workloads import Shape, operands


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "float16"])
def test_mapped(dtype):
    shape, dtype = Shape(70, 30, 50), np.dtype(dtype)
    with shared(shape, dtype, seed=4) as path:
        a, b, index, exact = mapped(path)
    x, y = operands(shape, dtype, seed=4)
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, y)
    assert not a.flags.writeable
    assert index[0] == 0
    assert index[-1] == 69
    limit = 0 if dtype.kind == "i" else 20 * np.finfo(dtype).eps
    assert relative_error((x @ y)[index], exact) <= limit
    assert relative_error(np.roll(x @ y, 1, axis=1)[index], exact) > 0.1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_mapped_batches(dtype):
    shape, dtype = Shape.of_batch(7, 3, 5, 60, "ab"), np.dtype(dtype)
    with shared(shape, dtype, seed=4) as path:
        a, b, index, exact = mapped(path)
    for x, y in zip((a, b), operands(shape, dtype, seed=4), strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.strides == y.strides
    product = a @ b
    limit = 0 if dtype.kind == "i" else 20 * np.finfo(dtype).eps
    assert relative_error(product[index], exact) <= limit
    assert relative_error(np.roll(product, 1, axis=2)[index], exact) > 0.1


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")
def test_the_files_are_gone_after_use():
    with shared(Shape(3, 4, 5), np.dtype("float32"), seed=0) as path:
        assert os.path.exists(path)
    assert not os.path.exists(path)
