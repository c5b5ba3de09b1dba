"""``overflow="raise"``: integers that do not fit their type, against Python's own."""

import numpy as np
import pytest

import falcon
from falcon._accelerate import switch

from ..support import python

TYPES = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
RANDOM = np.random.default_rng(3)


def exact(a, b):
    return a.astype(object) @ b.astype(object)


def wrong(right, dtype):
    info = np.iinfo(dtype)
    return np.argwhere((right > info.max) | (right < info.min))


def draw(dtype, shape, magnitude):
    info = np.iinfo(dtype)
    low, high = max(info.min, -magnitude), min(info.max, magnitude)
    return RANDOM.integers(low, high, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_any_integers(dtype):
    seen = set()
    for magnitude in (1, 3, 90, 2**11, 2**15, 2**30, 2**62, 2**64):
        for _ in range(12):
            M, K, N = (int(x) for x in RANDOM.integers(1, 12, 3))
            a, b = draw(dtype, (M, K), magnitude), draw(dtype, (K, N), magnitude)
            right = exact(a, b)
            bad = wrong(right, dtype)
            seen.add(len(bad) > 0)
            if not len(bad):
                found = falcon.matmul(a, b, overflow="raise")
                assert found.dtype == dtype
                assert (found.astype(object) == right).all()
                continue
            i, j = bad[0]
            with pytest.raises(OverflowError) as error:
                falcon.matmul(a, b, overflow="raise")
            assert f"entry [{i}, {j}] of the product is {right[i, j]}, " in str(error.value)
    assert seen == {False, True}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_borders(dtype):
    """The largest and the least numbers fit; one more, or less, in one entry of many, does not."""
    info = np.iinfo(dtype)
    a, b = np.zeros((70, 90), dtype), np.zeros((90, 80), dtype)
    for value in {int(info.max), int(info.min)}:
        a[...], b[...] = 0, 0
        a[41, 3], b[3, 57] = value, 1
        assert falcon.gemm(a, b, overflow="raise")[41, 57] == value
        step = 1 if value > 0 else -1
        if info.min == 0 and step < 0:
            continue
        a[41, 88], b[88, 57] = 1, 1
        if step < 0:
            a[41, 88] = -1
        with pytest.raises(OverflowError, match=rf"entry \[41, 57\] .* is {value + step},"):
            falcon.gemm(a, b, overflow="raise")


@pytest.mark.parametrize("dtype", [x for x in TYPES if x.kind == "i"], ids=str)
def test_sums_that_leave_the_range_and_come_back(dtype):
    most = int(np.iinfo(dtype).max)
    a = np.array([[most, most, -most, -most, 5, most, -most]] * 3, dtype)
    b = np.full((7, 4), min(most, 2**62), dtype)
    b[4] = 1
    assert (falcon.matmul(a, b, overflow="raise") == 5).all()
    a[1, [3, 6]] += 1
    with pytest.raises(OverflowError, match=rf"entry \[1, 0\] .* is {5 + 2 * int(b[0, 0])}, "):
        falcon.matmul(a, b, overflow="raise")


def test_nothing_is_written():
    a, b = np.full((3, 4), 100, np.int8), np.full((4, 5), 100, np.int8)
    out = np.full((3, 5), 7, np.int8)
    with pytest.raises(OverflowError, match=r"beyond int8 \(-128 to 127\)"):
        falcon.matmul(a, b, out, overflow="raise")
    assert (out == 7).all()
    assert falcon.matmul(a, b, dtype="int32", overflow="raise")[0, 0] == 40000
    assert falcon.matmul(a, b).dtype == np.int8  # wraps, as ever
    with pytest.raises(ValueError, match="overflow is 'Raise'; expected one of 'wrap', 'raise'"):
        falcon.matmul(a, b, overflow="Raise")


def test_factors_and_an_added_matrix():
    a, b = draw("i4", (30, 40), 1000), draw("i4", (40, 20), 1000)
    c = draw("i4", (30, 20), 10**6)
    right = 3 * exact(a, b) - 2 * c.astype(object)
    found = falcon.gemm(a, b, c=c, alpha=3, beta=-2, overflow="raise")
    assert (found.astype(object) == right).all()
    c[7, 9] = -(2**31)
    with pytest.raises(OverflowError, match=r"entry \[7, 9\]"):
        falcon.gemm(a, b, c=c, alpha=3, beta=-2, overflow="raise")
    with pytest.raises(OverflowError, match=rf"\[7, 9\] of the product is {2**32},"):
        falcon.gemm(a, b, c=c, alpha=0, beta=-2, overflow="raise")


def test_other_functions():
    x = draw("i2", (50, 30), 20)
    x[3, 4] = 200
    with pytest.raises(OverflowError, match=r"\[4, 4\]"):
        falcon.gram(x, overflow="raise")
    for part in ("full", "lower", "upper"):
        y = np.minimum(x, 20)
        kept = {"full": np.array, "lower": np.tril, "upper": np.triu}[part]
        assert (falcon.gram(y, symmetric=part, overflow="raise") == kept(y.T @ y)).all()
    with pytest.raises(OverflowError, match=r"\[4, 4\]"):
        falcon.einsum("ki,kj->ij", x, x, overflow="raise")
    batch = np.stack([np.minimum(x, 20)] * 3)
    assert (falcon.matmul(batch, batch.swapaxes(1, 2), overflow="raise")
            == batch @ batch.swapaxes(1, 2)).all()  # fmt: skip
    batch[1, 3, 4] = 200
    with pytest.raises(OverflowError, match=r"entry \[1, 3, 3\]"):
        falcon.matmul(batch, batch.swapaxes(1, 2), overflow="raise")
    mixed = falcon.matmul(x, x.T.astype(np.uint8), overflow="raise", dtype="int64")
    assert (mixed == x.astype("i8") @ x.T.astype(np.uint8).astype("i8")).all()
    packed = falcon.pack(x.T)
    with pytest.raises(OverflowError, match=r"\[3, 3\]"):
        falcon.matmul(x, packed, overflow="raise")


def test_as_a_setting():
    a = np.full((300, 300), 100, np.int16)
    with falcon.config(overflow="raise"), pytest.raises(OverflowError):
        falcon.matmul(a, a)
    with falcon.config(overflow="raise"):
        assert falcon.matmul(np.ones((300, 300)), np.ones((300, 300)))[0, 0] == 300
        assert (falcon.matmul(a, a, modulus=7) == 300 * 100 * 100 % 7).all()
    if switch._loops is not None:
        on = falcon.config(overflow="raise"), falcon.accelerate(quiet=True)
        with on[0], on[1], pytest.raises(OverflowError, match="beyond int16"):
            a @ a


def test_mixed_types_and_values_that_a_cast_would_wrap():
    for left, right in (("i1", "u1"), ("i2", "i8"), ("u4", "i1"), ("?", "i1"), ("u2", "u1")):
        a, b = (RANDOM.integers(0, 2, (9, 9)).astype(kind) for kind in (left, right))
        assert (falcon.matmul(a, b, overflow="raise") == a.astype("i8") @ b.astype("i8")).all()
        a[2] = 1 if left == "?" else np.iinfo(left).max
        b[:, 4] = np.iinfo(right).max
        bad = wrong(exact(a, b), np.result_type(a, b))
        if left == "u4":
            assert not len(bad) and falcon.matmul(a, b, overflow="raise")[2, 4] == exact(a, b)[2, 4]
            continue
        with pytest.raises(OverflowError) as error:
            falcon.matmul(a, b, overflow="raise")
        assert f"entry [{bad[0][0]}, {bad[0][1]}] of the product is" in str(error.value)
    high = np.array([[2**63 + 5]], np.uint64)
    with pytest.raises(OverflowError, match=f"is {2**63 + 5}, beyond int64"):
        falcon.matmul(high, np.array([[1]], np.uint64), dtype="int64", overflow="raise")


def test_factors_of_any_size():
    three, four, c = (np.array([[x]], np.uint8) for x in (3, 4, 200))
    assert falcon.gemm(three, four, c, alpha=-1, beta=1, overflow="raise") == 188
    assert falcon.gemm(three * 0, four, alpha=300, overflow="raise") == 0
    with pytest.raises(OverflowError, match=r"is -12, beyond uint8 \(0 to 255\)"):
        falcon.gemm(three, four, alpha=-1, overflow="raise")
    with pytest.raises(OverflowError, match="is 3600, beyond uint8"):
        falcon.gemm(three, four, alpha=300, overflow="raise")


@pytest.mark.parametrize(
    ("dtype", "steps", "expected"),
    [("i1", 5, "i4"), ("u1", 5, "i4"), ("i2", 1, "i4"), ("i2", 5, "i8"), ("i4", 5, "i8"),
     ("u4", 5, "u8"), ("i8", 5, "i8"), ("u8", 5, "u8"), ("i1", 2**17, "i8"), ("?", 5, "?"),
     ("f4", 5, "f4")],
)  # fmt: skip
def test_wider_results(dtype, steps, expected):
    a = np.ones((3, steps), dtype)
    found = [falcon.matmul(a, a.T, overflow="widen")]
    found += [falcon.einsum("ik,jk", a, a, overflow="widen")]
    found += [] if dtype == "?" else [falcon.gemm(a, a.T, overflow="widen")]
    found += [] if dtype == "?" else [falcon.gram(a, transpose=True, overflow="widen")]
    for x in found:
        assert x.dtype == expected and (x == (True if dtype == "?" else steps)).all()
    if dtype[0] in "iu":
        a[1] = np.iinfo(dtype).max
        a[2] = np.iinfo(dtype).min
        if exact(a, a.T).max() < 2**63:
            assert (falcon.matmul(a, a.T, overflow="widen") == exact(a, a.T)).all()
        out = np.zeros((3, 3), dtype)
        with pytest.raises(OverflowError, match="overflow='widen': entry"):
            falcon.matmul(a, a.T, out, overflow="widen")  # fixes the type
        assert not out.any()
        if dtype[0] == "i":
            with pytest.raises(TypeError, match="does not cast"):
                falcon.matmul(a, a.T, out.astype(np.uint64), overflow="widen")


def test_integers_of_python_where_nothing_else_holds_them():
    a = np.array([[2**62, 3], [5, -(2**61)]])
    with pytest.warns(RuntimeWarning, match=r"\[0, 0\] .*: the result holds Python's integers"):
        found = falcon.matmul(a, a, overflow="widen")
    assert found.dtype == object and (found == exact(a, a)).all()
    for call in (falcon.gemm, lambda x, y, **how: falcon.matmul(x, y, dtype="i8", **how)):
        with pytest.raises(OverflowError, match="beyond int64"):
            call(a, a, overflow="widen")


def test_sums_that_are_no_products_of_matrices():
    a = np.array([100, 27, -100], np.int8)
    for subscripts, arrays, text in (("i,j->ij", (a, a), r"\[0, 0\] of i,j->ij is 10000"),
                                     ("i->", (np.repeat(a, 2),), ""),
                                     ("i,i->i", (a, a), r"\[0\] of i,i->i is 10000")):  # fmt: skip
        with falcon.config(overflow="raise"):
            if not text:
                assert falcon.einsum(subscripts, *arrays) == 54
                continue
            with pytest.raises(OverflowError, match=text):
                falcon.einsum(subscripts, *arrays)
        if len(arrays) > 1:
            wide = falcon.einsum(subscripts, *arrays, overflow="widen")
            assert wide.dtype == np.int32 and wide.flat[0] == 10000
        assert falcon.einsum(subscripts, *arrays).dtype == np.int8  # wraps
    with pytest.raises(OverflowError, match="beyond int8"):
        falcon.tensordot(a, a, 0, overflow="raise")
    with pytest.raises(OverflowError, match="is 20729, beyond int8"):
        falcon.dot(a, a, overflow="raise")
    with pytest.raises(ValueError, match="takes no weights"):
        falcon.gram(a[:, None], weights=a, overflow="raise")


@pytest.mark.skipif(switch._loops is None, reason="NumPy's loops are not replaced here")
def test_numpys_own_products():
    a, one = np.full((3, 4), 100, np.int8), np.ones((3, 4), np.int8)
    with falcon.accelerate(quiet=True):
        assert (a @ a.T).dtype == np.int8
        with falcon.accelerate(quiet=True, overflow="raise"):
            for call in (lambda: a @ a.T, lambda: a[0] @ a[0], lambda: np.dot(a, a.T),
                         lambda: np.matmul([a, one], a.T)):  # fmt: skip
                with pytest.raises(OverflowError, match="is 40000, beyond int8"):
                    call()
            assert ((one @ one.T) == 4).all() and (one[:, :0] @ one.T[:0] == 0).all()
            assert (np.ones((3, 2)) @ np.ones((2, 3)) == 2).all()
            assert (one.astype(bool) @ one.T.astype(bool)).all()
        assert (a @ a.T).dtype == np.int8
    with pytest.raises(ValueError, match="overflow is 'widen'; expected one of 'wrap', 'raise'"):
        falcon.accelerate(overflow="widen")
    assert not switch.is_on()


@pytest.mark.skipif(switch._loops is None, reason="NumPy's loops are not replaced here")
def test_started_children_check_integers():
    code = """if True:
        import subprocess, sys, falcon
        falcon.accelerate(quiet=True, inherit=True, overflow="raise")
        child = "import numpy as np; np.full((2, 2), 100, 'i1') @ np.full((2, 2), 100, 'i1')"
        print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stderr)
    """
    assert "OverflowError: overflow='raise': entry [0, 0]" in python("-c", code).stdout


def test_a_factor_of_a_gram_matrix_may_be_beyond_the_type():
    x = np.ones((3, 2), np.int8)
    with pytest.raises(OverflowError, match="is 900, beyond int8"):
        falcon.gram(x, alpha=300, overflow="raise")
