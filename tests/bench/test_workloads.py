"""Shapes to measure: the data file is sound, models and shapes are read, operands are usable."""

import os

import numpy as np
import pytest

from falcon.bench.errors import relative_error
from falcon.bench.operands import mapped, shared
from falcon.bench.workloads import (
    WORKLOADS,
    Shape,
    data,
    model_shapes,
    operands,
    parse_shape,
    parse_shapes,
)


def test_models():
    found = data("llm_shapes")["models"]
    assert {"Qwen2.5-7B", "DeepSeek-R1", "Llama-3.1-70B"} <= set(found)
    for name in found:
        shapes = model_shapes(name, 512)
        assert shapes
        assert len({x.label for x in shapes} - {""}) == len(shapes)
        assert all(x.M == 512 and min(x.N, x.K) >= 64 for x in shapes)
    assert Shape(2048, 4608, 3584, "qkv") in model_shapes("qwen2.5-7b", 2048)


@pytest.mark.parametrize(
    "text", ["", "3", "3,4", "3,4,5,6", "3,4,", "a,b,c", "3,4,0", "3,4,-5", "3,4,5.0", "3,4,²",
             "3,4,1e3"]
)  # fmt: skip
def test_parse_shape_refuses(text):
    with pytest.raises(ValueError, match="expected three positive integers M,N,K"):
        parse_shape(text)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int64", "float16", "float32", ">f4", "longdouble", "complex64"]
)
def test_operands(dtype):
    dtype = np.dtype(dtype)
    a, b = operands(Shape(5, 6, 7), dtype, seed=3)
    assert (a.shape, b.shape) == ((5, 7), (7, 6))
    assert a.dtype == b.dtype == dtype
    assert len(np.unique(a)) > 3
    if dtype.kind == "c":
        assert np.iscomplex(a).all()
    again = operands(Shape(5, 6, 7), dtype, seed=3)
    np.testing.assert_array_equal(a, again[0])
    assert not np.array_equal(a, operands(Shape(5, 6, 7), dtype, seed=4)[0])


def test_operands_of_a_batch():
    shape = Shape.of_batch(5, 6, 7, 4, "b")
    a, b = operands(shape, np.dtype("float32"), seed=3)
    assert (a.shape, b.shape) == ((4, 5, 7), (4, 7, 6))
    assert a.flags.c_contiguous and b.swapaxes(1, 2).flags.c_contiguous
    assert (str(shape), shape.flops) == ("5x6x7 (4 products, B by columns)", 4 * 2 * 5 * 6 * 7)
    every = [str(x) for x in WORKLOADS["batches"].shapes]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(
    "text",
    ["3,40,500", "3x40x500", "3X40X500", " 3 , 40 , 500 ", "03,40,500", "3×40×500", "3 40 500"],
)
def test_parse_shapes(text):
    assert parse_shape(text) == Shape(3, 40, 500)
    assert parse_shapes([text]) == parse_shapes(["3", "40", "500"]) == [Shape(3, 40, 500)]


def test_parse_several_shapes():
    assert parse_shapes([]) == []
    three = ["1,2,3", "4x5x6", "7×8×9"]
    assert parse_shapes(three) == [Shape(1, 2, 3), Shape(4, 5, 6), Shape(7, 8, 9)]
    with pytest.raises(ValueError, match="'1 2 3 4 5 6': expected M N K, or shapes"):
        parse_shapes(["1", "2", "3", "4", "5", "6"])


# --- operands that workers share -------------------------------------------------------------


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
