"""Small products: by the engine's kernels or NumPy's, in one step without a plan."""

import itertools

import numpy as np
import pytest

import falcon
from falcon._backends import ENGINE

from ..contract.places import laid

# Tails of vectors and strips, vectors, one step of K; handed to a library.
SHAPES = [(1, 1, 1), (3, 5, 7), (16, 16, 16), (33, 45, 20), (64, 64, 64), (1, 9, 5), (9, 1, 5),
          (64, 2, 64), (3, 4, 900), (90, 95, 100)]  # fmt: skip
PLANNED = [(130, 300, 70), (101, 7, 1500)]  # more work
SOME = ("rows", "columns", "padded rows")
LAYOUTS = (*SOME, "strided", "reversed rows")


def operands(shape, dtype="f8"):
    M, N, K = shape
    random = np.random.default_rng(M + N + K)
    a, b = random.integers(-9, 10, (M, K)), random.integers(-9, 10, (K, N))
    return a.astype(dtype), b.astype(dtype)


@pytest.fixture
def small():
    """The engine's function, and the products that it handed to a library."""
    handed = []

    def library(a, b, out):
        handed.append((a.shape, b.shape))
        return np.matmul(a, b, out)

    function = ENGINE.without_plans(library)
    if function is None:
        pytest.skip("the engine leaves small products to NumPy")
    return function, handed


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
def test_small_products_are_right_however_arrays_lie(function, dtype):
    for shape, left, right in itertools.product(SHAPES + PLANNED, LAYOUTS, LAYOUTS):
        a, b = operands(shape, dtype)
        exact = (a.astype(int) @ b.astype(int)).astype(dtype)
        a, b = laid(a, left), laid(b, right)
        np.testing.assert_array_equal(function(a, b), exact)
        for of_out in LAYOUTS:
            out = laid(np.full(exact.shape, np.nan, dtype), of_out)
            assert function(a, b, out=out) is out
            np.testing.assert_array_equal(out, exact)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_small_products_need_no_plan(small, dtype, doors):
    kept, validated = doors.forget()[0], doors.validated()
    for shape, left, right in itertools.product(SHAPES, SOME, SOME):
        a, b = operands(shape, dtype)
        out = np.empty(shape[:2], dtype)
        assert falcon.matmul(laid(a, left), laid(b, right), out) is out
        np.testing.assert_array_equal(out, a @ b)
        assert not kept and not validated


def test_nothing_around_the_matrices_is_touched(small):
    function, _ = small
    for shape in SHAPES:
        a, b = operands(shape)
        room = np.full((shape[0] + 2, shape[1] + 2), 7.0)
        function(a, b, room[1:-1, 1:-1])
        np.testing.assert_array_equal(room[1:-1, 1:-1], a @ b)
        room[1:-1, 1:-1] = 7
        assert (room == 7).all()


def test_what_needs_a_plan(small):
    function, handed = small
    a, b = operands((8, 9, 10))
    out = np.zeros((8, 9))
    others = [
        *((a[0], b, None), (a, b[:, 0], None), (a[None], b, None), (a[:, :9], b, None)),
        *((a.astype("f4"), b, None), (a.astype("i4"), b.astype("i4"), None)),
        *((a.astype(">f8"), b.astype(">f8"), None), (a.astype("c16"), b.astype("c16"), None)),
        *((laid(a, "misaligned"), b, None), (a, b[::-1], None), (a, b, laid(out, "misaligned"))),
        *((np.broadcast_to(a[:1], a.shape), b, None), (a[:0], b, None), (a[:, :0], b[:0], None)),
        *(
            (a, b, laid(out, "read-only")),
            (a, b, out.astype("f4")),
            (a, b, out.T),
            (a, b, out[None]),
        ),
        *((np.array("x"), b, None), (a.astype("M8[s]"), b, None)),
    ]
    for arrays in others:
        assert function(*arrays) is None
    for shape in PLANNED:
        assert function(*operands(shape), None) is None
    assert not handed
    assert function(a, b, out) is out


def test_what_a_library_multiplies_faster_is_handed_to_it(small):
    function, handed = small
    thin, long, full = (operands(x, "f4") for x in ((64, 2, 64), (3, 3, 900), (16, 16, 16)))
    for a, b in (thin, long, full):
        np.testing.assert_array_equal(function(a, b, None), a @ b)
    assert handed == [((64, 64), (64, 2)), ((3, 900), (900, 3))]
    a, b = full
    handed.clear()
    function(a, b, a)  # out is an operand
    assert handed == [((16, 16), (16, 16))]


def test_nan_and_infinity_show_without_warnings():
    a, b = operands((16, 16, 16))
    a[0, 0], a[1, 1], a[2] = np.nan, np.inf, 1e300
    b[:, 5] = 1e300
    with np.errstate(all="raise"):
        found = falcon.matmul(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, a @ b)
    assert found[2, 5] == np.inf


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_matrix_by_its_transpose_is_symmetric(dtype):
    random = np.random.default_rng(0)
    for M in (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 50, 97):
        for K in (1, 2, 15, 16, 31, 255, 257, 700):
            x = random.standard_normal((K, M)).astype(dtype)
            wide = np.zeros((K, M + 3), dtype)[:, :M]
            wide[...] = x
            for y in (x, np.asfortranarray(x), wide):
                for c in (falcon.matmul(y.T, y), falcon.gram(y), falcon.gram(y.T, transpose=True)):
                    np.testing.assert_array_equal(c, c.T)
