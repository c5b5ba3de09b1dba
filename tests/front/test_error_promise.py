"""`error=` keeps its promise, or says that it cannot: overlaps, settings, small products."""

import pickle
import tracemalloc

import numpy as np
import pytest

import falcon
from falcon._core import sampled
from falcon._core.dtypes import FLOAT32, FLOAT64, RUNGS
from falcon._cpu.extension import isa, why_unavailable

from .test_error import off

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason="no kernels")
SINGLE, DOUBLE = RUNGS[FLOAT64][0], RUNGS[FLOAT32][0]
N = 480
MEASURED = "avx2", "generic"  # by whose slices of K it is known what errs


@pytest.fixture(autouse=True)
def by_own_kernels(doors):
    """Also where a library is faster than they are, as with the generic ones."""
    doors.forget()  # what was made again before
    with falcon.config(backend="cpu"):
        yield


@pytest.fixture
def a():
    return np.random.default_rng(0).standard_normal((N, N))


@pytest.fixture
def b():
    return np.random.default_rng(1).standard_normal((N, N))


def into_a(multiply):
    return lambda a, b: multiply(a, b, a)


INTO = {
    "matmul": lambda a, b, e: falcon.matmul(a, b, out=a, error=e),
    "gemm, right": lambda a, b, e: falcon.gemm(b.T, a.T, out=a.T, error=e, reproducible=True).T,
    "gemm, all three": lambda a, b, e: falcon.gemm(a, b, a, beta=2.0, out=a, error=e),
    "packed": lambda a, b, e: falcon.gemm(a, falcon.pack(b, error=e), out=a),
    "a limit": lambda a, b, e: falcon.gemm(a, b, out=a, error=e, workspace_limit="8MiB"),
}


@pytest.mark.parametrize("way", INTO)
@pytest.mark.parametrize("error", [1e-6, 1e-3])
@pytest.mark.parametrize("is_again", [False, True])
def test_out_may_overlap_operands(a, b, way, error, is_again, monkeypatch):
    if is_again:  # whatever the sample says
        monkeypatch.setattr(sampled.SampledRunner, "_error", lambda *_: 1.0)
    before = a.copy()
    found = INTO[way](a, b, error)
    assert found is a or found.base is a
    a -= 2.0 * before * (way == "gemm, all three")
    assert off(a, before, b) <= error


def test_a_batch_and_a_gram_matrix_into_themselves(a, b):
    x = np.stack([a, b])
    falcon.matmul(x, b, out=x, error=2e-6)
    assert max(off(x[0], a, b), off(x[1], b, b)) <= 2e-6
    y = a.copy()
    falcon.gram(y, out=y, error=2e-6)
    assert off(y, a.T, a) <= 2e-6


@pytest.mark.parametrize(
    ("dtype", "error"),
    [("float16", 1e-6), ("float32", 1e-9), ("float64", 1e-15), ("complex128", 1e-15)],
)
@pytest.mark.parametrize("size", [60, 500, 2048])
def test_a_setting_that_nothing_promises_is_as_accurate_as_can_be(dtype, error, size):
    sizes = ((size, size),) * 2
    with falcon.config(error=error):
        plan = falcon.plan(*sizes, dtype)
    assert plan.growth == 1
    assert plan.operand.summed.unit_roundoff <= 2.0**-24
    with pytest.raises(ValueError, match="by the most accurate arithmetic"):
        falcon.plan(*sizes, dtype, error=error)


@pytest.mark.parametrize(("dtype", "error", "c"), [("f4", 1.2e-6, 1 / 3), ("f8", 1e-6, 1 / 3)])
def test_lines_of_two_values_that_are_alike(dtype, error, c):
    """Roundings of sums of their products have one sign; few entries are such."""
    rng = np.random.default_rng(7)
    x, y = np.where(rng.random((2, 760, 990)) < 0.5, c, -c).astype(dtype)
    y[100:140] = x[300:340]
    plain = falcon.gemm(
        y, x.T, scheme="classical", arithmetic="float32" if dtype == "f8" else "auto"
    )
    assert off(plain, y, x.T) > error or isa() not in MEASURED
    assert off(falcon.gemm(y, x.T, error=error), y, x.T) <= error


@pytest.mark.parametrize("shape", [(778, 218), (700, 600), (34, 784)])
@pytest.mark.parametrize("dtype", ["f4", "c8", "f8"])
def test_packed_operands_keep_the_error_for_any_number_of_rows(shape, dtype):
    b = np.random.default_rng(8).standard_normal(shape).astype(dtype)
    for error in (2e-6, 1e-5, 1e-2):
        for how in ({}, {"rows": 1}, {"keep_source": False}):
            packed = falcon.pack(b, error=error, **how)
            for rows in (1, 5, 300):
                a = np.random.default_rng(9).standard_normal((rows, shape[0])).astype(dtype)
                assert off(a @ packed, a, b) <= error


def test_a_pickled_plan_compares_too():
    a, b = np.full((N, 20_000), 0.3, np.float32), np.full((20_000, N), 0.7, np.float32)
    plan = falcon.plan(a, b, error=2e-6)
    assert plan.method.compute_type is None
    assert off(falcon.gemm(a, b, scheme="classical"), a, b) > 2e-6 or isa() not in MEASURED
    for made in (plan, pickle.loads(pickle.dumps(plan))):
        assert off(made(a, b), a, b) <= 2e-6


SHAPES = [(1, 4096, 300), (8, 20_000, 500), (8, 100_000, 8), (50, 4000, 60), (200, 300, 200)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "constant"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("error", [1e-3, 1e-5, 1e-6, 2e-7, 1e-13])
def test_small_products_promise_their_worst_case(shape, kind, dtype, error):
    """No sample is compared, so that sums of one sign, whose roundings add up, count."""
    M, K, columns = shape
    rng = np.random.default_rng(2)
    a, b = (
        (rng.random(x) if kind == "uniform" else np.full(x, 0.1)).astype(dtype)
        for x in ((M, K), (K, columns))
    )
    if dtype == "c8":
        a, b = a * (1 + 1j), b * np.complex64(1 - 2j)
    try:
        plan = falcon.plan(a, b, error=error)
    except ValueError:
        assert error < (1e-6 if dtype == "f8" else 2.5e-7)
        return
    c = falcon.gemm(a, b, error=error)
    assert off(c, a, b) <= error
    norms = np.multiply.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    assert (plan.error_bound(a, b) <= 1.001 * error * norms).all()


@pytest.mark.parametrize("how", [{"error": 1e-3}, {"arithmetic": "float32"}])
@pytest.mark.parametrize("alpha", [1e-50, -6.6e-16, 1e30])
def test_a_factor_is_no_loss(a, b, how, alpha):
    small = 1e-15 if alpha == -6.6e-16 else 1.0
    x = a * small
    assert off(falcon.gemm(x, b, alpha=alpha, **how) / alpha, x, b) < 2e-6
    assert off(falcon.gemm(x, falcon.pack(b, **how), alpha=alpha) / alpha, x, b) < 2e-6
    z = x + 1j * x
    assert off(falcon.gemm(z, b + 0j, alpha=1j * alpha, **how) / (1j * alpha), z, b + 0j) < 4e-6


def test_no_keyword_is_ignored(a):
    x = a.astype(np.float32)
    for call in (
        lambda: falcon.gram(x, weights=np.ones(N, np.float32), error=1e-9),
        lambda: falcon.gemm(x, x, error=1e-7, reproducible="rows"),
    ):
        with pytest.raises(ValueError, match=r"error is 1e-0\d"):
            call()
    for setting in ({"arithmetic": "float32"}, {"scheme": "strassen"}, {"arithmetic": "native"}):
        with falcon.config(**setting):
            assert off(falcon.gemm(a, a, error=1e-12), a, a) <= 1e-12
            assert falcon.plan(x, x, error=1e-7).method.compute_type is DOUBLE


def test_products_too_small_for_a_gain_take_other_arithmetic_where_they_must(a):
    x = a.astype(np.float32)
    for left, right in ((x[:232, :232], x[:232, :232]), (x[:1], x), (x[:7], x[:, :3])):
        assert falcon.plan(left, right, error=1e-7).method.compute_type is DOUBLE
        assert off(falcon.gemm(left, right, error=1e-7), left, right) <= 1e-7
        assert falcon.plan(left, right, error=1e-3).method.compute_type is None
    found = falcon.einsum("i,i->", x[0], x[1], error=1e-7)
    norms = np.linalg.norm(x[0]) * np.linalg.norm(x[1])
    assert abs(found - x[0].astype(float) @ x[1]) <= 1e-7 * norms


def test_numpys_products_never_raise(a, b):
    want = a @ b
    with falcon.accelerate(error=1e-6, quiet=True):
        for kind, size in (("f2", 300), ("f4", 220), ("c8", N)):
            x = np.ones((size, size), kind)
            assert (x @ x == size).all()
        with falcon.config(error=1e-13):
            assert off(a @ b, a, b, want) < 1e-13
        assert off(a @ b, a, b, want) > 1e-9


def test_a_sample_takes_little_memory():
    a, b = np.ones((N, 100_000), np.float32), np.ones((100_000, N), np.float32)
    falcon.gemm(a, b, error=1e-5, scheme="classical")  # a scheme's workspace is no sample's
    tracemalloc.start()
    falcon.gemm(a, b, error=1e-5, scheme="classical")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * N * N + 8 * 2**20


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e300])
def test_what_is_added_is_no_error(a, b, value):
    before = sampled.again.total()
    c = np.where(np.tri(N) > 0, value, 0.0)
    falcon.gemm(a, b, c, beta=1.0, error=1.1e-6)
    assert sampled.again.total() == before


def test_lines_with_one_large_element_go_up(a, b):
    """By what is measured of them alone: entries of a sample err by little."""
    x, y, error = np.tile(a, (1, 4)), np.tile(b, (4, 1)), 1e-6
    before = sampled.again.total()
    falcon.gemm(x, y, error=error, reproducible=True)
    assert sampled.again.total() == before
    x[::100, 0] = 1e4
    y[0, ::100] = 1e4
    assert off(falcon.gemm(x, y, error=error, reproducible=True), x, y) <= error
    assert sampled.again.total() == before + 1
