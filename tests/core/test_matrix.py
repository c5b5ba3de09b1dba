"""`Matrix`: how arrays lie in host memory, against NumPy's own views of them."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from falcon._core.dtypes import FLOAT64, dtype_of
from falcon._core.matrix import of_array

X = np.zeros((6, 8))
MISALIGNED = np.zeros(8 * 6 + 1, np.int8)[1:].view("f8").reshape(2, 3)
FIELD = np.zeros((2, 3), [("x", "f8"), ("y", "i4")])["x"]


@pytest.mark.parametrize(
    ("x", "strides", "is_direct"),
    [
        (X, (8, 1), True),
        (X.T, (1, 8), True),
        (X[1:, 2:5], (8, 1), True),
        (X[::-1], (-8, 1), False),
        (X[:, ::2], (8, 2), False),
        (X[:, 3:4], (8, 1), True),
        (X[:, ::2][:, :1], (8, 2), False),
        (np.broadcast_to(X[:1], X.shape), (0, 1), False),
    ],
)
def test_elements_in_place(x, strides, is_direct):
    made = of_array(x)
    assert (made.strides, made.is_direct, made.holds(FLOAT64)) == (strides, is_direct, True)
    assert not made.holds(dtype_of("float32"))
    back = made.transposed()
    assert (back.shape, back.strides) == (x.T.shape, strides[::-1])
    assert made.is_transpose(of_array(x.T))
    assert made.is_same(of_array(x[:]))


@pytest.mark.parametrize("x", [MISALIGNED, FIELD, X.astype(">f8"), X.astype(object)])
def test_elements_that_need_a_copy(x):
    made = of_array(x)
    assert (made.raw, made.is_direct, made.holds(FLOAT64)) == (x.dtype, False, False)
    assert made.is_transpose(of_array(x.T))
    assert not made.is_same(of_array(x.astype("f8")))


@pytest.mark.parametrize("kind", ["f8", ">f8", "V3"])
def test_elements_that_share_memory(kind):
    """Against all addresses of all bytes."""
    random, size, found = np.random.default_rng(0), np.dtype(kind).itemsize, set()
    for _ in range(300):
        ndim = random.integers(1, 4)
        shape, steps = random.integers(0, 5, ndim), random.integers(-14, 15, ndim)
        strides = [int(x) * (size if random.integers(2) else 1) for x in steps]
        x = as_strided(np.zeros(9, kind), shape, strides)
        places = np.zeros(1, int)
        for n, stride in zip(shape, strides, strict=True):
            places = np.add.outer(places, np.arange(n) * stride).ravel()
        taken = np.add.outer(places, np.arange(size)).ravel()
        shared = len({*taken.tolist()}) < taken.size
        assert of_array(x).meets_itself == shared, (x.shape, x.strides)
        found.add(shared)
    assert found == {False, True}
