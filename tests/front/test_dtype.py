"""`dtype=` of gemm, matmul, pack and plan: operands count as cast first, as in np.matmul."""

import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon._core.dtypes import ENGINE, PAIRS, TABLE, dtype_of

INT32 = dtype_of("int32")
BF16 = np.dtype(ml_dtypes.bfloat16)
# Types of operands, which may be two, and of results without a conversion.
OPERANDS = [*((row, wide) for row in ENGINE for wide in row.wide), *((x, INT32) for x in PAIRS)]


def draw(name, shape, seed=0):
    """Integers of the full range; floats that are small whole numbers."""
    kind, rng = dtype_of(name).numpy, np.random.default_rng(seed)
    if dtype_of(name).is_exact:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    return rng.integers(-3, 4, shape).astype(kind)


def cast_product(a, b, dtype):
    """The product of the operands after the cast: modulo 2^64, or without rounding."""
    wide = np.int64 if dtype_of(dtype).is_exact else np.complex128
    product = a.astype(dtype).astype(wide) @ b.astype(dtype).astype(wide)
    if not dtype_of(dtype).is_complex and not dtype_of(dtype).is_exact:
        product = product.real
    return product.astype(np.float32).astype(dtype) if dtype_of(dtype).itemsize == 2 else product


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("row", [x for x in ENGINE if x.wide and not x.is_exact], ids=str)
def test_sums_are_not_rounded_twice(row):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(x).astype(row.numpy) for x in ((60, 900), (900, 50)))
    exact = a.astype(float) @ b.astype(float)
    c = rng.standard_normal((60, 50)).astype(np.float32)
    rounding = row.unit_roundoff * abs(exact).max()
    for scheme in ("classical", "strassen"):
        given = {"scheme": scheme, "alpha": 1 / 3, "beta": 0.7}
        out = np.empty((60, 50), np.float32)
        for found, want in (
            (falcon.gemm(a, b, scheme=scheme, dtype="f4"), exact),
            (falcon.gemm(a, b, scheme=scheme, out=out), exact),
            (falcon.matmul(a, b, out=np.empty((60, 50), np.float32)), exact),
            (falcon.gemm(a, falcon.pack(b, scheme=scheme, dtype="f4")), exact),
            (falcon.gemm(a, b, c, **given), exact / 3 + 0.7 * c),  # c is of float32
        ):
            assert found.dtype == np.float32
            assert abs(found - want).max() < rounding / 50
        assert falcon.gemm(a, b, c.astype(row.numpy), **given).dtype == row.numpy
    narrow = falcon.gemm(a, b, scheme="classical")
    np.testing.assert_array_equal(narrow, falcon.gemm(a, b, dtype="f4").astype(row.numpy))
    # Of no other type than the sums': rounded to the operands' type, then cast, as in NumPy.
    double = falcon.gemm(a, b, out=np.empty((60, 50)), scheme="classical")
    np.testing.assert_array_equal(double, narrow.astype(float))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_extremes_of_two_types_wrap_modulo_2_to_the_32(pair):
    """255 by -128 over so long a K that int32 overflows."""
    shapes = (9, 70_000), (70_000, 11)
    ends = [np.iinfo(x.numpy) for x in (pair.left, pair.right)]
    a, b = (
        np.full(shape, x.max if x.min == 0 else x.min, x.dtype)
        for shape, x in zip(shapes, ends, strict=True)
    )
    expected = np.matmul(a.astype(np.int32), b.astype(np.int32))
    assert (expected > 0).all()  # it has wrapped
    for M in (1, 9):
        for N in (1, 11):
            found = falcon.matmul(a[:M], b[:, :N], dtype="int32")
            np.testing.assert_array_equal(found, expected[:M, :N])


@pytest.mark.parametrize(("row", "wide"), OPERANDS, ids=str)
def test_operands_are_multiplied_as_they_are(row, wide):
    a, b = draw(row.left.name, (300, 310)), draw(row.right.name, (310, 320))
    plan = falcon.plan(a, b, wide.numpy, scheme="classical")
    expected = cast_product(a, b, wide.numpy).astype(wide.numpy)
    if BACKENDS["cpu"].why_unavailable() is None:
        problem = plan.problem
        assert (problem.operand, problem.result, problem.accumulator) == (row, wide, wide)
        assert problem.a_direct and problem.b_direct and not problem.buffered
        assert all(f"{row} to {wide}" in x for x in (str(problem), str(plan), plan.explain()))
        found = pickle.loads(pickle.dumps(plan))(a, b)
        assert found.dtype == wide.numpy
        np.testing.assert_array_equal(found, expected)
    found = falcon.gemm(a, b, dtype=wide.numpy, check="verify")
    np.testing.assert_array_equal(found, expected)
    assert falcon.verify(a, b, found)
    # Shapes alone do not say the type of the operands.
    assert falcon.plan((30, 40), (40, 20), wide.numpy).problem.operand is wide
    mixed = falcon.plan(a, b.astype(wide.numpy), wide.numpy).problem
    assert mixed.operand is mixed.result is wide
    if row in PAIRS:
        assert falcon.plan(a, b).problem.operand.name == "int16"  # as NumPy's
        assert falcon.matmul(a, b).dtype == np.int16
        with pytest.raises(ValueError, match=f"a is .* {b.dtype}; this plan is for .*"):
            plan(b[:300, :310].copy(), b)


@pytest.mark.parametrize(("row", "wide"), OPERANDS, ids=str)
@pytest.mark.parametrize("keep", [True, False])
def test_packed(row, wide, keep):
    """Of two types, B is packed for an `a` of either."""
    b = draw(row.right.name, (90, 70))
    for scheme in ("auto", "classical", "strassen"):
        packed = falcon.pack(b, dtype=wide.name, scheme=scheme, keep_source=keep)
        some = [packed, *([pickle.loads(pickle.dumps(packed))] if keep else [])]
        for again, kind in itertools.product(some, {row.left, row.right}):
            a = draw(kind.name, (30, 90))
            expected = cast_product(a, b, wide.numpy).astype(wide.numpy)
            assert again.dtype == wide.numpy
            for given in ({}, {"dtype": wide.numpy}):
                np.testing.assert_array_equal(falcon.gemm(a, again, **given), expected)
                np.testing.assert_array_equal(falcon.matmul(a[0], again, **given), expected[0])
            found = falcon.gemm(a, again, expected, alpha=2, beta=3)
            np.testing.assert_array_equal(found, 5 * expected)
            if keep:
                np.testing.assert_array_equal(falcon.gemm(a, again, check="verify"), expected)
            if row not in PAIRS and again.panels is not None:
                assert f"{row} to {wide}" in repr(again)
                refused = f"b was packed for products of {row} in {wide}"
                with pytest.raises(TypeError, match=refused):
                    falcon.gemm(np.ones((2, 90), wide.numpy), again)
        with pytest.raises(TypeError, match=f"the arithmetic would be .*for {wide}"):
            falcon.gemm(a, packed, dtype="complex128")


NAMES = [x.name for x in TABLE if x.module == "numpy" and x.numpy.char not in "gG"]


@pytest.mark.parametrize("name", NAMES)
def test_casting_is_refused_where_numpy_refuses_it(name):
    for left, right in itertools.product(NAMES, NAMES):
        a, b = np.ones((2, 3), left), np.ones((3, 2), right)
        try:
            expected = np.matmul(a, b, dtype=name)
        except TypeError:
            wrong = "a" if not np.can_cast(left, name, "same_kind") else "b"
            refused = rf"{wrong} has dtype .* to dtype={name} \(same_kind"
            for call in (falcon.matmul, falcon.gemm, falcon.plan):
                with pytest.raises(TypeError, match=refused):
                    call(a, b, dtype=name)
            continue
        for call in (falcon.matmul, falcon.gemm):
            found = call(a, b, dtype=name)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (("float32", "f4", np.float32, np.dtype("f4"), "<f4", "single"), np.float32),
        (("bfloat16", BF16, ml_dtypes.bfloat16), BF16),
    ],
)
def test_whatever_names_a_dtype(names, dtype):
    a = np.ones((4, 4))
    for name in names:
        for call in (falcon.gemm, falcon.matmul):
            assert call(a, a, dtype=name).dtype == dtype
        assert falcon.pack(a, dtype=name).dtype == dtype
        assert falcon.plan(a, a, dtype=name).problem.dtype == dtype


@pytest.mark.parametrize("name", [bool, object, "nonsense", "S3", "M8[s]", ml_dtypes.float8_e4m3])
def test_what_is_no_dtype_of_products(name):
    a = np.ones((4, 4))
    refused = r"dtype is .*; expected integers, floats or complex"
    for call in (falcon.gemm, falcon.matmul, falcon.plan):
        with pytest.raises(TypeError, match=refused):
            call(a, a, dtype=name)
    with pytest.raises(TypeError, match=refused):
        falcon.pack(a, dtype=name)


def test_out_and_c_are_checked_against_it():
    a = np.ones((4, 4), np.int8)
    with pytest.raises(TypeError, match="out has dtype int8, to which the result's float32"):
        falcon.gemm(a, a, dtype="f4", out=a.copy())
    with pytest.raises(TypeError, match="c has dtype float64, which does not cast to dtype=int32"):
        falcon.gemm(a, a, np.ones((4, 4)), beta=1, dtype="i4")
    with pytest.raises(TypeError, match=r"alpha is 0\.5; integer matrices"):
        falcon.gemm(a, a, alpha=0.5, dtype="i4")
    wide = falcon.gemm(a, a, out=np.empty((4, 4), np.int64), dtype="i4")
    assert wide.dtype == np.int64


@pytest.mark.parametrize("dtype", [None, *"lqLQpPi", "int64", np.int64, np.longlong, int])
def test_results_have_numpys_own_dtype(dtype):
    """Of 64-bit integers it has several, which are equal."""
    for first, second in itertools.product("lqLQiI", repeat=2):
        a, b = np.ones((2, 2), first), np.ones((2, 2), second)
        try:
            wanted = np.matmul(a, b, dtype=dtype).dtype.char
        except TypeError:
            continue
        stack, packed = np.stack([a, a]), falcon.pack(b, dtype=dtype or np.matmul(a, b).dtype)
        found = [falcon.matmul(a, b, dtype=dtype), falcon.matmul(a[0], b, dtype=dtype)]
        found += [falcon.gemm(a, b, dtype=dtype), falcon.matmul(stack, b, dtype=dtype)]
        if wanted != "d":
            found += [falcon.matmul(a, b, dtype=dtype, modulus=[5, 7])]
        found += [falcon.matmul(a, packed, dtype=dtype)] if dtype else []
        how = {"dtype": dtype, "casting": "same_kind"}
        found += [falcon.einsum(text, a, b, **how) for text in ("ij,jk", "ij,ij->ij")]
        assert {x.dtype.char for x in found} == {wanted}, (first, second)


def test_booleans_of_another_result_are_left_to_numpy():
    a = np.eye(3, dtype=bool)
    found = falcon.matmul(a, a, dtype="int32")
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.eye(3))


@pytest.mark.usefixtures("engine")
def test_which_booleans_are_counted(doors):
    """Those whose first pairs of True come late; NumPy, which stops there, has others at once."""
    rng = np.random.default_rng(1)
    for density, counted in ((0.0, True), (0.5, False)):
        a, b = (rng.random((300, 300)) < density for _ in range(2))
        seen = doors.multiplied(lambda plan, count: plan.problem.operand.name)
        for out in (None, np.empty((300, 300), bool), np.empty((300, 600), bool)[:, ::2]):
            np.testing.assert_array_equal(falcon.matmul(a, b, out), np.matmul(a, b))
        assert seen == ["uint8"] * 3 * counted


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 1.0])
def test_booleans_are_counted(density):
    rng = np.random.default_rng(0)
    two, three, four = ((70, 300), (300, 41)), ((3, 61, 50), (50, 67)), ((2, 1, 64, 9), (5, 9, 99))
    for left, right in (two, three, four):
        a, b = rng.random(left) < density, rng.random(right) < density
        b = np.asfortranarray(b)
        wanted = a @ b
        found = falcon.matmul(a, b)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, wanted)
        for kind in (bool, np.int8, np.float64):
            out = np.full(wanted.shape, 7, kind)
            assert falcon.matmul(a, b, out) is out
            np.testing.assert_array_equal(out, wanted)
    with pytest.raises(ValueError, match=r"broadcast|mismatch"):
        falcon.matmul(a, b, np.empty((3, 3), bool))
    with pytest.raises(ValueError, match=r"inner|mismatch"):
        falcon.matmul(a, b[:, :7])
