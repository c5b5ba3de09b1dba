"""`error=` by 8-bit integers: what they promise, data that leave it, and all ways to call it."""

import pickle

import numpy as np
import pytest

import falcon
from falcon._core import sampled
from falcon._core.quantised import LARGEST, Quantised
from falcon._cpu import backend
from falcon._cpu.extension import why_unavailable
from falcon.decision.rewrites import quantised

from .test_error import off

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason="no kernels")
M, K, N, ERROR = 500, 900, 400, 8e-3


@pytest.fixture(autouse=True)
def integers_are_fast(doors, monkeypatch):
    """Whatever is predicted for the kernels here, and was made again before."""
    doors.forget()
    monkeypatch.setattr(quantised, "_PRICE", 1e-3)


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, K)), rng.standard_normal((K, N))


def by_integers(a, b):
    """Return the product of what rows and columns are rounded to."""
    scales = np.abs(a).max(axis=1) / LARGEST, np.abs(b).max(axis=0) / LARGEST
    left, right = np.rint(a / scales[0][:, None]), np.rint(b / scales[1])
    return (left @ right) * np.multiply.outer(*scales)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", ["CC", "FC", "CF", "FF", "strided"])
def test_products_are_those_of_rounded_lines(operands, dtype, order):
    a, b = (x.astype(dtype) for x in operands)
    if order == "strided":
        a, b = (np.repeat(x, 2, 1)[:, ::2] for x in (a, b))
        b = np.repeat(b, 3, 0)[::3]
    else:
        a, b = (np.asarray(x, order=y) for x, y in zip((a, b), order, strict=True))
    plan = falcon.plan(a, b, error=ERROR)
    assert isinstance(plan.rewrite, Quantised)
    again = sampled.again.total()
    for made in (plan, pickle.loads(pickle.dumps(plan))):
        c = made(a, b)
        assert c.dtype == dtype
        want = by_integers(a.astype("f8"), b.astype("f8"))
        assert off(c, a, b, want) < (1e-4 if dtype == "f4" else 1e-5)  # elements halfway, seldom
        assert 1e-4 < off(c, a, b) <= ERROR
    assert sampled.again.total() == again
    norms = np.multiply.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    bounds = plan.error_bound(a, b), plan.error_bound(a, b, proved=True)
    assert (np.abs(c - a.astype("f8") @ b) <= bounds[0]).all()
    assert (bounds[0] <= 1.001 * ERROR * norms).all()
    assert (bounds[1] >= bounds[0]).all()


def test_sums_are_in_blocks_of_rows(operands, monkeypatch):
    a, b = operands
    whole = falcon.gemm(a, b, error=ERROR)
    monkeypatch.setattr(quantised, "_BLOCK", 4 * N * 130)
    plan = falcon.plan(a[:499], b, error=ERROR)
    assert [x.rows.stop for x in plan.parts] == [125, 250, 375, 499]
    np.testing.assert_array_equal(plan(a[:499], b), whole[:499])
    assert "4 blocks of 125 rows" in str(plan)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("where", ["new", "out", "transposed", "other type", "an operand"])
def test_alpha_beta_and_c(operands, dtype, where):
    a, b = (x.astype(dtype) for x in operands)
    if where == "an operand":
        b = np.random.default_rng(2).standard_normal((K, K)).astype(dtype)
    c = np.random.default_rng(1).standard_normal((M, b.shape[1])).astype(dtype)
    outs = {
        "new": None,
        "out": c.copy(),
        "transposed": np.asarray(c, order="F"),
        "other type": np.empty(c.shape, "f4" if dtype == "f8" else "f8"),
        "an operand": a.copy(),
    }
    out, left = outs[where], a
    given = out if where in ("out", "transposed") else c
    left = out if where == "an operand" else a
    found = falcon.gemm(left, b, given, alpha=-2.0, beta=0.5, out=out, error=ERROR)
    want = -2.0 * (a.astype("f8") @ b) + 0.5 * c
    assert 1e-4 < off(found, a, b, want) <= 2 * ERROR
    assert out is None or found is out


def test_lines_of_few_values_that_are_alike_go_up():
    """What rounding takes from them is parallel to them, or to ones."""
    rng = np.random.default_rng(5)
    x, y = rng.exponential(1, (2, 600, K))
    for z in (x, y):
        some = rng.choice(600, 12, replace=False)
        z[some] = 0.145
        z[some, 7] = 1.0
    y[100:150] = x[300:350]
    p, q = (np.clip(np.rint(1.5 * rng.standard_normal((600, K))), -8, 7) * 0.013 for _ in "ab")
    q[100:150] = p[300:350]
    for left, right in ((y, x), (q, p)):
        for dtype in ("f4", "f8"):
            a, b = left.astype(dtype), right.T.astype(dtype)
            assert off(by_integers(a.astype("f8"), b.astype("f8")), a, b) > ERROR
            assert off(falcon.matmul(a, b, error=ERROR), a, b) <= ERROR


def test_the_order_of_operands_changes_no_bit(operands):
    a, b = operands
    found = falcon.gemm(np.ascontiguousarray(a), np.ascontiguousarray(b), error=ERROR)
    for x, y in ((a, np.asfortranarray(b)), (np.asfortranarray(a), np.repeat(b, 2, 1)[:, ::2])):
        np.testing.assert_array_equal(found, falcon.gemm(x, y, error=ERROR))


DATA = {
    "outliers": lambda x: np.where(np.arange(x.size).reshape(x.shape) % 997, x, 200.0),
    "heavy tails": lambda x: np.exp(2 * x),
    "two values": lambda x: np.where(x > 0, 0.1, 0.37),
    "large means": lambda x: x + 1e4,
    "NaN": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7, np.nan, x),
    "Inf": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7, np.inf, x),
    "tiny": lambda x: x * 1e-36,
    "zeros": lambda x: 0 * x,
    "one line of zeros": lambda x: x * (np.arange(len(x)) != 3)[:, None],
    "sparse": lambda x: x * (np.abs(x) > 2.5),
    "sorted": lambda x: np.sort(x, axis=1),
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_data_that_leave_the_promise_go_up(operands, kind, dtype):
    a, b = (DATA[kind](x).astype(dtype) for x in (operands[0], operands[1].T))
    b = np.ascontiguousarray(b.T) * b.dtype.type(1e36 if kind == "tiny" else 1)
    for _ in range(2):
        c = falcon.gemm(a, b, error=ERROR)
        if kind in ("NaN", "Inf"):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(np.isfinite(c), np.isfinite(a @ b))
        elif kind == "zeros":
            assert not c.any()
        else:
            assert off(c, a, b) <= ERROR


def test_doors_that_take_it_and_others(operands, monkeypatch):
    a, b = operands
    a = a[:490]
    assert off(falcon.einsum("ij,jk->ik", a, b, error=ERROR), a, b) > 1e-4
    stack = np.stack([a, 2 * a])
    found = falcon.matmul(stack, b, error=ERROR)
    assert all(1e-4 < off(x, y, b) <= ERROR for x, y in zip(found, stack, strict=True))
    for about in ({"workspace_limit": "100KiB"}, {"backend": "numpy"}, {"scheme": "strassen"}):
        assert falcon.plan(a, b, error=ERROR, **about).rewrite is None
    same = falcon.gemm(a, b, error=ERROR, reproducible=True, threads=1)
    np.testing.assert_array_equal(same, falcon.gemm(a, b, error=ERROR, reproducible=True))
    packed = falcon.pack(b, error=ERROR)
    assert off(a @ packed, a, b) <= ERROR
    x = np.ascontiguousarray(a)
    assert off(falcon.gram(x, error=ERROR), x.T, x) <= ERROR
    monkeypatch.setattr(quantised, "_PRICE", 1e3)
    assert falcon.plan(a[:480], b, error=ERROR).rewrite is None


def test_an_error_that_integers_do_not_promise(operands):
    assert falcon.plan(*operands, error=1e-3).rewrite is None
    told = falcon.plan(*operands, error=ERROR).explain()
    assert "int8" in told.split("arithmetic")[1]
    assert told.split("candidate")[1].count("chosen") == 1


@pytest.mark.parametrize("isa", backend._core.supported_isas() if backend._core else [])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 700), (513, 65), (1100, 31)])
def test_kernels(isa, dtype, by_rows, shape):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(dtype)
    x[0] *= 1e-20
    x[-1, :-1] = 0
    x = x if by_rows else np.asfortranarray(x)
    to, numbers = np.empty_like(x, np.int8), np.empty((4, len(x)))
    backend._core.quantise(x, to, numbers, 2, isa)
    largest = np.abs(x).max(axis=1)
    np.testing.assert_array_equal(numbers[0], largest)
    np.testing.assert_array_equal(numbers[1], (to.astype(int) ** 2).sum(axis=1))
    want = x.astype("f8") * (LARGEST / largest.astype("f8"))[:, None]
    assert (np.abs(to - want) <= 0.5001).all()
    left = want - to
    np.testing.assert_allclose(numbers[2], (left * want).sum(axis=1), atol=0.1)
    np.testing.assert_allclose(numbers[3], left.sum(axis=1), atol=0.1)
    sums = rng.integers(-(10**6), 10**6, (7, len(x))).astype(np.int32)
    c = rng.standard_normal((7, len(x))).astype(dtype)
    for beta, target in ((0.0, np.full_like(c, np.nan)), (-0.5, c.copy()), (2.0, c.copy("F"))):
        rows = rng.random(7)
        backend._core.from_bytes(sums, rows, numbers[0], target, beta, 2, isa)
        want = rows[:, None] * sums * numbers[0] + (beta * c if beta else 0)
        np.testing.assert_allclose(target, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_kernels_tell_what_is_not_finite(value):
    for x in (np.ones((5, 70)), np.ones((70, 5)).T):
        x[2, 3] = value
        to, numbers = np.empty_like(x, np.int8), np.empty((4, 5))
        backend._core.quantise(x, to, numbers)
        assert (np.isfinite(numbers[0]) == (np.arange(5) != 2)).all()


@pytest.mark.parametrize("which", ["to", "numbers", "strides", "c"])
def test_kernels_refuse_what_does_not_fit(which):
    x, to, numbers = np.ones((4, 6)), np.empty((4, 6), np.int8), np.empty((4, 4))
    wrong = {"to": np.empty((4, 5), np.int8), "numbers": np.empty((4, 3)), "strides": x.T.copy().T}
    with pytest.raises(ValueError, match=r"expected|strides"):
        if which == "c":
            backend._core.from_bytes(np.ones((4, 6), np.int32), np.ones(3), np.ones(6), x)
        else:
            to = wrong.get(which, to) if which == "to" else to
            numbers = wrong[which] if which == "numbers" else numbers
            backend._core.quantise(wrong[which] if which == "strides" else x, to, numbers)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 40, 5), (300, 200, 100)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_integers_by_name(shape, dtype):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(x).astype(dtype) for x in (shape[:2], shape[1:]))
    c = falcon.gemm(a, b, arithmetic="int8")
    assert off(c, a, b, by_integers(a.astype("f8"), b.astype("f8"))) < 1e-3
    whole = rng.integers(-126, 127, (2, 90, 90)).astype(dtype)
    whole[:, 0] = whole[:, :, 0] = 127  # scales are 1
    np.testing.assert_array_equal(falcon.matmul(*whole, arithmetic="int8"), whole[0] @ whole[1])
    a[0] = np.nan
    assert np.isnan(falcon.gemm(a, b, arithmetic="int8")[0]).all()


def test_integers_by_name_are_for_what_they_fit(operands):
    a, b = operands
    for call in (
        lambda: falcon.gemm(a + 0j, b + 0j, arithmetic="int8"),
        lambda: falcon.gram(a, arithmetic="int8"),
        lambda: falcon.pack(b, arithmetic="int8"),
        lambda: falcon.matmul(a, b, arithmetic="int8", backend="numpy"),
    ):
        with pytest.raises(TypeError, match="arithmetic 'int8'"):
            call()
    with pytest.raises(ValueError, match="workspace_limit is 1000 bytes; integers take"):
        falcon.matmul(a, b, arithmetic="int8", workspace_limit=1000)
    with falcon.config(arithmetic="int8"):
        assert off(falcon.matmul(a, b), a, b) > 1e-4
        assert off(falcon.gram(a), a.T, a) < 1e-14
        assert off((a + 0j) @ b, a + 0j, b) < 1e-14


@pytest.mark.parametrize("how", [{"error": ERROR}, {"arithmetic": "int8"}])
@pytest.mark.parametrize("kind", ["", "heavy tails", "two values"])
def test_products_are_verified_to_what_integers_may_err_by(operands, how, kind, caplog):
    a, b = (DATA[kind](x) if kind else x for x in operands)
    if kind == "heavy tails" and "error" not in how:
        with pytest.warns(RuntimeWarning, match="rounding may hide"):
            falcon.gemm(a, b, check="verify", **how)
        return
    c = falcon.gemm(a, b, check="verify", **how)
    assert not caplog.records
    assert off(c, a, b) > 1e-5 or kind


@pytest.mark.parametrize(
    "factors", [(1e-25, 1e25, 1e-20), (1e25, 1e-25, 1e20), (1e-20, 1e-15, 1.0)]
)
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_factors_and_scales_beyond_float32_whose_product_is_not(operands, factors, beta):
    *sizes, alpha = factors
    a, b = (np.float32(y) * x.astype("f4") for x, y in zip(operands, sizes, strict=True))
    c = np.zeros((M, N), "f4")
    found = falcon.gemm(a, b, c, alpha=alpha, beta=beta, error=ERROR)
    assert 1e-4 < off(found.astype("f8") / alpha, a, b) <= ERROR


def test_what_rounding_takes_along_lines_or_ones_is_added_to_the_promise(operands):
    a, b = operands
    dark, codes = np.full((M, K), 0.145), np.where(a > 0, 0.3, -0.1)
    dark[:, 7] = 1.0
    runner = falcon.plan(a, b, error=ERROR).runner
    usual = runner._promised(*runner._lines(a, b))
    assert usual < ERROR
    for x, least in ((dark, ERROR), (codes, usual + 1e-3)):
        few = a.copy()
        few[[3, 77]] = x[[3, 77]]
        assert runner._promised(*runner._lines(few, b)) > least
