"""Recalled calls: like one seen before, so run without planning; other calls are planned."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import falcon
from falcon._tools.cpus import usable_cpus
from falcon.decision.machine import replaced

from ..contract.places import laid


@pytest.fixture(autouse=True)
def kept(doors):
    """The calls that are kept: none at first."""
    return doors.forget()[0]


def operands(M=70, N=50, K=60, dtype="f8"):
    random = np.random.default_rng(0)
    a, b = random.integers(-5, 6, (M, K)), random.integers(-5, 6, (K, N))
    return a.astype(dtype), b.astype(dtype)


@pytest.fixture
def recalled(doors):
    """A function of a call: (result, whether it was not validated)."""
    validated = doors.validated()

    def of(function, *arguments, **options):
        validated.clear()
        return function(*arguments, **options), not validated

    return of


@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
def test_what_equals_a_value_is_refused_after_it_too(function):
    for option, wrong in (("threads", True), ("threads", 1.0), ("max_growth", True)):
        function(*operands(), **{option: 1})
        with pytest.raises(TypeError, match=f"{option} is {wrong}; expected a"):
            function(*operands(), **{option: wrong})


@pytest.mark.parametrize("shapes", [((20,), (20, 3)), ((3, 20), (20,)), ((2, 70, 70), (70, 70))])
def test_gemm_refuses_what_matmul_multiplied(shapes):
    a, b = map(np.ones, shapes)
    for _ in range(3):
        with pytest.raises(ValueError, match="expected a matrix"):
            falcon.gemm(a, b, threads=1)
        falcon.matmul(a, b, threads=1)


@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
@pytest.mark.parametrize("scheme", ["auto", "strassen", falcon.schemes.get("winograd")])
@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_the_second_call_is_recalled_and_right(recalled, function, scheme, backend, dtype):
    a, b = operands(dtype=dtype)
    out = np.empty((70, 50), dtype)
    options = {"scheme": scheme, "backend": backend}
    first = function(a, b, **options)
    again, was = recalled(function, a, b, **options)
    assert was and not np.shares_memory(first, again)
    np.testing.assert_array_equal(again, a @ b)
    function(a, b, out=out, **options)
    for factor in (1, 2, 3):
        result, was = recalled(function, factor * a, b, out=out, **options)
        assert was
        assert result is out
        np.testing.assert_array_equal(out, factor * (a @ b))


@pytest.mark.parametrize("how", ["byte-swapped", "misaligned"])
@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16", "i4", "i8"])
@pytest.mark.parametrize("size", [4, 70])
@pytest.mark.parametrize("options", [{}, {"backend": "numpy"}, {"reproducible": True}])
def test_what_is_copied_first_is_recalled(recalled, how, function, dtype, size, options):
    if options.get("reproducible"):
        pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
    a, b = operands(size, size, size, dtype)
    out, wanted = laid(np.zeros_like(a), how), a @ b
    for x, y in ((laid(a, how), b), (a, laid(b, how)), (laid(a, how).T.copy().T, b)):
        for target in (None, out):
            first = function(x, y, out=target, **options).copy()
            again, was = recalled(function, x, y, out=target, **options)
            assert was and again.dtype == first.dtype and (target is None or again is target)
            np.testing.assert_array_equal(again, wanted)
    for twin in (laid(a, how), laid(a[:, ::2].copy(), how)):
        first, again = (function(twin.T, twin, **options) for _ in range(2))
        np.testing.assert_array_equal(again, first)
        np.testing.assert_array_equal(again, again.T)
    noise = laid(np.random.default_rng(0).standard_normal((size, size)).astype(dtype), how)
    first, again = (function(noise, b, **options) for _ in range(2))
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("dtypes", ["f4 f8", "i4 f8", "f8 c8", "i1 i8", "u1 i1", "i8 f4"])
def test_operands_of_two_types_are_recalled(recalled, dtypes):
    one, other = dtypes.split()
    for size in (4, 70):
        a, b = abs(operands(size, size, size)[0]).astype(one), operands(size, size, size)[1]
        b = abs(b).astype(other)
        falcon.matmul(a, b), falcon.matmul(a, b, dtype="f8" if "c8" not in dtypes else "c16")
        again, was = recalled(falcon.matmul, a, b)
        assert was and again.dtype == (a @ b).dtype
        np.testing.assert_array_equal(again, a @ b)


@pytest.mark.parametrize("dtype", ["i4", "f2", "f4"])
def test_batches_are_recalled(recalled, dtype):
    x, y = np.random.default_rng(0).integers(-3, 4, (2, 5, 40, 40)).astype(dtype)
    for b in (y.swapaxes(1, 2), x.swapaxes(1, 2), y.swapaxes(1, 2), y[0].T[None]):
        falcon.matmul(x, b)
        found, was = recalled(falcon.matmul, x, b)
        assert was or falcon.show_config("dict")["backends"]["cpu"] != "available"
        np.testing.assert_array_equal(found, np.matmul(x, b))


# Operands that differ in one thing from those that were seen; other types: tests/contract.
CHANGES = {
    "strides of a": lambda a, b, out: (np.asfortranarray(a), b, out),
    "strides of out": lambda a, b, out: (a, b, np.empty((*out.shape, 2))[..., 0]),
    "reversed": lambda a, b, out: (a[::-1], b, out),
    "unaligned": lambda a, b, out: (laid(a, "misaligned"), b, out),
    "unaligned out": lambda a, b, out: (a, b, laid(out, "misaligned")),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("scheme", ["strassen", "classical"])
def test_other_operands_are_planned_again(recalled, how, scheme):
    a, b = operands()
    out = np.empty((70, 50))
    falcon.gemm(a, b, out=out, scheme=scheme)
    a, b, out = CHANGES[how](a, b, out)
    result, was = recalled(falcon.gemm, a, b, out=out, scheme=scheme)
    assert not was
    np.testing.assert_array_equal(result, a @ b)


@pytest.mark.parametrize("sizes", [(70, 50, 60), (3, 3, 3)])
def test_results_of_equal_dtypes_have_those_of_numpy(sizes):
    """Of "l" and "q", as one after the other is remembered."""
    a, b = operands(*sizes, "l")
    for kinds in ("ll", "qq", "lq", "ql", "qq"):
        x, y = (z.astype(kind) for z, kind in zip((a, b), kinds, strict=True))
        numpy = np.matmul(x, y).dtype.char
        packed = falcon.pack(y)
        for _ in range(2):
            for found in (falcon.matmul(x, y), falcon.gemm(x, y), falcon.matmul(x[0], y)):
                assert found.dtype.char == numpy
            assert type(falcon.matmul(x[0], y[:, 0])) is type(np.matmul(x[0], y[:, 0]))
            assert falcon.gemm(x, packed).dtype.char in kinds
            sums = falcon.gemm(x, y, (x @ y).astype("q"), beta=2)
            assert sums.dtype.char == np.result_type(x, y, np.dtype("q")).char


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.s_[:70, 0:120:2], np.s_[:70, 0:180:3]),
        (np.s_[:70, :60], np.s_[0:140:2, :60]),
        (np.s_[:1, :60], np.s_[0:200:200, :60]),  # one row: contiguous both ways, any stride
    ],
)
def test_strides_that_flags_do_not_tell(recalled, first, second):
    whole = np.random.default_rng(0).integers(-5, 6, (210, 240)).astype("f8")
    a, other, (_, b) = whole[first], whole[:, ::-1].copy()[second], operands()
    if a.shape[0] == 1:
        other = np.lib.stride_tricks.as_strided(other, strides=(8, 8))
    assert a.shape == other.shape
    assert a.flags.num & 0x3 == other.flags.num & 0x3
    assert a.strides != other.strides
    falcon.gemm(a, b, scheme="classical")
    assert recalled(falcon.gemm, a, b, scheme="classical")[1]
    result, was = recalled(falcon.gemm, other, b, scheme="classical")
    assert not was
    np.testing.assert_array_equal(result, other @ b)


@pytest.mark.usefixtures("engine")
@pytest.mark.skipif(usable_cpus() < 2, reason="one CPU: nothing to limit")
def test_other_cpus_are_planned_again(recalled):
    a, b = operands()
    falcon.gemm(a, b, scheme="strassen")
    assert recalled(falcon.gemm, a, b, scheme="strassen")[1]
    with threadpool_limits(1):
        assert not recalled(falcon.gemm, a, b, scheme="strassen")[1]


@pytest.mark.parametrize(
    "options",
    [{"alpha": 2.0}, {"beta": 1.0}, {"check": "verify"}, {"scheme": "winograd"}, {"threads": 1},
     {"workspace_limit": 10**6}, {"max_growth": 3.0}, {"check": "none"}],
)  # fmt: skip
def test_other_arguments_are_planned_again(recalled, options):
    a, b = operands()
    c, out = np.ones((70, 50)), np.empty((70, 50))
    falcon.gemm(a, b, out=out, scheme="strassen")
    given = {"scheme": "strassen", **options}
    result, was = recalled(falcon.gemm, a, b, c, out=out, **given)
    assert not was
    expected = options.get("alpha", 1) * (a @ b) + options.get("beta", 0) * c
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["f4", "i2", "c16"])
@pytest.mark.parametrize("into", ["new", "out", "c", "overlapping"])
def test_alpha_and_beta_are_recalled(recalled, dtype, into):
    a, b = operands(dtype=dtype)
    room = np.zeros((71, 50), dtype)
    c = room[:70]
    out = {"new": None, "out": np.empty_like(c), "c": c, "overlapping": room[1:]}[into]
    for i, (alpha, beta) in enumerate([(2.0, 1), (2.0, 1), (2.0, 1), (3.0, 1), (2.0, 2), (2.0, 0)]):
        given = {"c": c} if beta else {}
        c[...] = np.arange(50) - i
        expected = (alpha * (a + i) @ b + beta * c).astype(dtype)
        result, was = recalled(
            falcon.gemm, (a + i).astype(dtype), b, alpha=alpha, beta=beta, out=out, **given
        )
        assert was == (i in (1, 2) and into != "overlapping")
        assert into == "new" or result is out
        np.testing.assert_array_equal(result, expected)
    for other in (c[::-1], c.tolist(), c.astype(np.dtype(dtype).newbyteorder()), c.astype("c16")):
        result, was = recalled(falcon.gemm, a, b, other, alpha=2.0, beta=1)
        assert not was
        np.testing.assert_array_equal(result, 2 * (a @ b) + np.asarray(other))
    with pytest.raises(ValueError, match="c has shape"):
        falcon.gemm(a, b, c[:3], alpha=2.0, beta=1, out=out)
    with pytest.raises(TypeError, match="beta"):
        falcon.gemm(a, b, c, alpha=2.0, beta="1", out=out)
    with pytest.raises(ValueError, match="c is missing"):
        falcon.gemm(a, b, alpha=2.0, beta=1, out=out)


def test_products_modulo_several_numbers_are_recalled(recalled):
    a, b = np.arange(80).reshape(8, 10), np.arange(120).reshape(10, 12)
    out = np.zeros((2, 8, 12), int)
    for moduli in ([7, 11], (11, 7), [7, 13]):
        for turn in range(2):
            for given in ({}, {"out": out}):
                found, was = recalled(falcon.matmul, a + turn, b, modulus=moduli, **given)
                assert was == turn
                wanted = [(a + turn) @ b % p for p in moduli]
                np.testing.assert_array_equal(found, wanted)
    for wrong in ([7, 11.0], (7, True), [7, [11]]):
        with pytest.raises((TypeError, ValueError), match=r"modulus|moduli"):
            falcon.matmul(a, b, modulus=wrong)
    room = np.zeros((2, 3, 3), int)
    room[0] = a[:3, :3]
    for _ in range(2):  # out holds a
        falcon.matmul(room[0].copy(), b[:3, :3], room, modulus=[7, 11])
        room[0] = a[:3, :3]
        falcon.matmul(room[0], b[:3, :3], room, modulus=[7, 11])
        np.testing.assert_array_equal(room, [a[:3, :3] @ b[:3, :3] % p for p in (7, 11)])
        room[0] = a[:3, :3]


@pytest.mark.parametrize("how", [{}, {"scheme": "strassen"}, {"scheme": "classical"}])
@pytest.mark.parametrize("function", [falcon.gemm, falcon.matmul])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_calls_by_a_packed_operand_are_recalled(recalled, function, how, dtype):
    a, b = operands(dtype=dtype)
    packed = falcon.pack(b, **how)
    if not packed.is_packed:  # by this machine's rates panels gain nothing
        packed = falcon.pack(b, scheme="classical")
    out = np.empty((70, 50), dtype)
    for x, into in ((a, None), (a, out), (a[::-1], out), (np.asfortranarray(a), None)):
        for i in range(2):
            result, was = recalled(function, x + i, packed, out=into)
            assert (result is into) == (into is not None)
            np.testing.assert_array_equal(result, (x + i) @ b)
            assert i == 0 or was or x.base is not None
    assert not recalled(function, a, packed, threads=1)[1]
    with falcon.config(max_growth=3.0):
        assert not recalled(function, a, packed)[1]
    a[3, 4] = np.nan
    np.testing.assert_array_equal(function(a, packed), a @ b)
    np.testing.assert_array_equal(function(a, packed.pack_again(b + 1)), a @ (b + 1))
    for wrong in (a[:, 1:], a.astype("O")):
        with pytest.raises((ValueError, TypeError)):
            function(wrong, packed)


def test_settings_and_what_plans_depend_on(recalled):
    a, b = operands()
    out = np.empty((70, 50))
    assert not recalled(falcon.gemm, a, b, out=out, threads=1)[1]
    assert recalled(falcon.gemm, a, b, out=out, threads=1)[1]
    with falcon.config(scheme="strassen"):
        assert not recalled(falcon.gemm, a, b, out=out, threads=1)[1]
        assert recalled(falcon.gemm, a, b, out=out, threads=1)[1]
    assert not recalled(falcon.gemm, a, b, out=out, threads=1)[1]
    replaced()
    assert not recalled(falcon.gemm, a, b, out=out, threads=1)[1]
    assert recalled(falcon.gemm, a, b, out=out, threads=1)[1]


def test_errors_are_not_remembered(kept):
    a, b = operands()
    for _ in range(3):
        with pytest.raises(TypeError, match="scheme"):
            falcon.gemm(a, b, scheme=["strassen"])
        with pytest.raises(ValueError, match="there is no scheme"):
            falcon.gemm(a, b, scheme="strasen")
        with pytest.raises(ValueError, match="a's columns"):
            falcon.gemm(a, b.T)
    assert not kept


def test_few_are_kept(kept, doors):
    doors.numbers(kept_calls=3)
    for size in range(2, 12):
        falcon.gemm(np.ones((size, 2)), np.ones((2, 2)), scheme="classical")
        assert 0 < len(kept) <= 3


def test_plain_gram_and_vectors_are_recalled(recalled):
    x, v = np.arange(12.0).reshape(4, 3), np.arange(9.0)
    for call, wanted in ((lambda: falcon.gram(x), x.T @ x), (lambda: falcon.dot(v, v), v @ v),
                         (lambda: falcon.gram(x, transpose=True), x @ x.T)):  # fmt: skip
        call()
        found, was = recalled(call)
        assert was and type(found) is type(wanted) and np.array_equal(found, wanted)
    out = np.zeros(())
    for _ in range(2):
        assert falcon.matmul(v, v, out) is out and out == v @ v


BATCHES = [((6, 3, 4), (6, 4, 5)), ((2, 3, 5, 4), (3, 4, 2)), ((5, 4), (3, 4, 2)), ((7, 4), (4,)),
           ((3, 20, 18), (3, 18, 20)), ((2, 30, 18), (18, 20)), ((2, 3, 1, 4), (4, 5)),
           ((5, 200, 300), (300, 200))]  # fmt: skip


@pytest.mark.parametrize("shapes", BATCHES, ids=str)
@pytest.mark.parametrize("given", [False, True])
def test_batches_that_numpy_multiplies_are_recalled(recalled, shapes, given):
    """2 microseconds, where validation and planning take 40."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, x).astype("f8") for x in shapes)
    wanted = np.matmul(a, b)
    out = np.empty_like(wanted) if given else None
    np.testing.assert_array_equal(falcon.matmul(a, b, out), wanted)
    for x, y in ((a, b), (a + 1, b - 1)):
        found, was = recalled(falcon.matmul, x, y, out)
        np.testing.assert_array_equal(found, np.matmul(x, y))
        assert was and (found is out) == given
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
    for args, how in (((a[::-1], b[..., ::-1]), {}), ((a, b), {"threads": 1})):
        assert not recalled(falcon.matmul, *args, out, **how)[1]
    with falcon.config(threads=1):
        np.testing.assert_array_equal(falcon.matmul(a, b), wanted)
    other = falcon.matmul(a.astype("f4"), b)
    np.testing.assert_array_equal(other, wanted)


def test_a_product_by_a_packed_operand_into_its_own_memory():
    """It may be redone with B itself, which is not overwritten before; also after other calls."""
    a, b = operands(60, 60, 60)
    kept, other = b.copy(), np.empty_like(b)
    packed = falcon.pack(b, scheme="strassen")
    for out in (other, other, b):
        b[...] = kept
        x = a.copy()
        x[3, 4] = np.inf if out is b else 1
        with np.errstate(all="ignore"):
            expected = x @ kept
        falcon.gemm(x, packed, out=out)
        np.testing.assert_array_equal(out, expected)
