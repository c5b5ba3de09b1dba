"""Shared operands: a worker maps what was made, and the files are removed."""

import os

import numpy as np
import pytest

from falcon.bench.errors import relative_error
from falcon.bench.operands import mapped, shared
from falcon.bench.workloads import Shape, operands


@pytest.mark.parametrize("shape", [Shape(70, 30, 50), Shape.of_batch(7, 3, 5, 60, "ab")], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "float16"])
def test_mapped(dtype, shape):
    dtype = np.dtype(dtype)
    with shared(shape, dtype, seed=4) as path:
        a, b, index, exact = mapped(path)
    for x, y in zip((a, b), operands(shape, dtype, seed=4), strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.strides == y.strides and not x.flags.writeable
    product = a @ b
    assert (index[0], index[-1]) == (0, len(product) - 1)
    limit = 0 if dtype.kind == "i" else 20 * np.finfo(dtype).eps
    assert relative_error(product[index], exact) <= limit
    assert relative_error(np.roll(product, 1, axis=-1)[index], exact) > 0.1


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")
def test_the_files_are_gone_after_use():
    with shared(Shape(3, 4, 5), np.dtype("float32"), seed=0) as path:
        assert os.path.exists(path)
    assert not os.path.exists(path)
