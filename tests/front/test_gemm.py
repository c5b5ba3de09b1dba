"""`falcon.gemm` with a c of another type, by rational schemes, with dropped plans; its workspace.

All else: tests/contract.
"""

import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon.schemes import Scheme

from ..support import python


def rational_scheme():
    """Strassen's algorithm with its factors scaled: exact only among fractions."""
    s = falcon.schemes.get("strassen")
    scaled = (s.U * Fraction(1, 2), s.V * Fraction(1, 3), s.W * Fraction(6))
    return Scheme(*scaled, "rational strassen")


def operand(rng, shape, dtype, largest=9):
    """Small whole numbers, so that every dtype is exact."""
    dtype = np.dtype(dtype)
    x = rng.integers(0 if dtype.kind == "u" else -largest, largest + 1, shape)
    return (x + 1j * x[::-1]).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


@pytest.mark.parametrize("beta_dtype", ["f4", "f8", "i4", "c8", "g"])
def test_the_dtype_of_c_counts_for_the_result(beta_dtype):
    rng = np.random.default_rng(7)
    for dtype in ("i1", "i4", "f4", "c16"):
        a, b = operand(rng, (4, 3), dtype), operand(rng, (3, 5), dtype)
        c = operand(rng, (4, 5), beta_dtype)
        for k in (0, 3):
            found = falcon.gemm(a[:, :k], b[:k], c, beta=2)
            assert found.dtype == np.result_type(a, b, c)
            expected = a[:, :k].astype(found.dtype) @ b[:k].astype(found.dtype) + 2 * c
            np.testing.assert_array_equal(found, expected)
            assert falcon.gemm(a[:, :k], b[:k], c, beta=0).dtype == a.dtype


def test_a_beta_that_is_rounded_to_zero_is_zero():
    a, b, poison = np.ones((6, 4), "f4"), np.ones((4, 5), "f4"), np.full((6, 5), np.nan, "f4")
    np.testing.assert_array_equal(falcon.gemm(a, b, poison, beta=1e-300), np.full((6, 5), 4))


def test_rational_schemes():
    rng = np.random.default_rng(9)
    rational = rational_scheme()
    a, b = operand(rng, (9, 7), "f8"), operand(rng, (7, 8), "f8")
    np.testing.assert_allclose(falcon.gemm(a, b, scheme=rational), a @ b, atol=1e-12)
    with pytest.raises(TypeError, match=r"'rational strassen' cannot .*fractional coefficients"):
        falcon.gemm(a.astype(int), b.astype(int), scheme=rational)


def test_rational_coefficients_in_long_double():
    """1/3 as a float of Python has 53 bits; the coefficients must have all the dtype's."""
    if np.finfo("g").eps == np.finfo("d").eps:
        pytest.skip("long double is double here")
    rng = np.random.default_rng(10)
    a, b = operand(rng, (8, 8), "g"), operand(rng, (8, 8), "g")
    error = abs(falcon.gemm(a, b, scheme=rational_scheme()) - a @ b).max()
    assert error < 1000 * np.finfo("g").eps


def test_more_shapes_than_plans_are_kept(doors):
    """Threads that evict each other's plans get right results."""
    doors.numbers(kept_plans=3)
    _, plans = doors.forget()
    ones = np.ones((40, 40))

    def run(i):
        k = 1 + i % 30
        return (falcon.gemm(ones[:, :k], ones[:k], scheme="strassen") == k).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(400)))
    assert 0 < len(plans) <= 3


def test_a_replaced_scheme_replaces_its_plans(clean):
    """Names are looked up at every call: a plan of the former scheme must not be used."""
    for base in (falcon.schemes.get("strassen"), falcon.schemes.get("laderman")):
        mine = Scheme(base.U, base.V, base.W, "mine")
        falcon.schemes.register(mine, overwrite=True)
        assert falcon.plan((9, 9), (9, 9), scheme="mine").scheme is mine


# --- its workspace ---------------------------------------------------------------------------


# What a call may allocate besides: Python objects, masks and casts of a strip, ufunc buffers.
SLACK = 400_000


@pytest.fixture
def on_numpy():
    """NumPy's allocations can be traced; what the compiled backend uses is checked in tests/cpu."""
    with falcon.config(backend="numpy"):
        yield


def peak(call):
    """The peak of the bytes that a call allocates."""
    call()
    tracemalloc.start()
    try:
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("scheme", ["classical", "strassen", "winograd"])
@pytest.mark.usefixtures("on_numpy")
def test_verify_and_the_classical_fallback_stay_within_the_plan(scheme):
    a, b = np.ones((2, 400, 400))
    poisoned = a.copy()
    poisoned[3, 5] = np.nan
    plan = falcon.plan(a, b, scheme=scheme)
    result = a.nbytes
    assert peak(lambda: falcon.gemm(poisoned, b, scheme=scheme)) - result < plan.workspace + SLACK
    # Strips of half a megabyte (in three steps of the arithmetic) and a few vectors.
    verified = peak(lambda: falcon.gemm(a, b, scheme=scheme, check="verify")) - result
    assert verified < plan.workspace + 2_500_000


@pytest.mark.usefixtures("on_numpy")
def test_a_limit_of_zero():
    a, b = np.ones((2, 64, 64))
    assert (falcon.gemm(a, b, workspace_limit=0, scheme="classical") == 64).all()
    assert (falcon.gemm(a[:, ::2], b[::2], workspace_limit=0) == 32).all()
    with pytest.raises(ValueError, match=r"workspace_limit is 0 bytes; scheme 'strassen' cannot"):
        falcon.gemm(a, b, scheme="strassen", workspace_limit=0)
    with pytest.raises(
        ValueError, match=r"workspace_limit is 0 bytes; classical .* at least 65536"
    ):
        falcon.gemm(a, b, out=a, workspace_limit=0)


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("kind", ["float64", "complex64", "int64"])
def test_without_memory_for_its_workspace_auto_multiplies_classically(backend, kind, doors):
    if backend == "cpu":
        pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 9, (2, 500, 500)).astype(kind)
    strassen = falcon.schemes.get("strassen")
    others = [{"scheme": "strassen"}] + [{"reproducible": True}] * (backend == "cpu")
    for options in ({}, *others):
        auto = falcon.plan(a, b, backend=backend, **options)
        host = BACKENDS[backend]
        method = host.candidates(auto.problem, (strassen,), None)[0]
        out = np.full_like(a, 7)
        plan = auto.instead(method, host)  # as if it had been chosen
        doors.no_memory(max(2**16, doors.least_workspace(a, b, backend)))
        if options:
            with pytest.raises(MemoryError):
                plan.runner(a, b, None, out, 2)
            assert (out == 7).all()
        else:
            plan.runner(a, b, None, out, 2)
            assert np.array_equal(out, 2 * (a @ b))


LIMITED = """
import resource, numpy as np, falcon
from falcon._backends import ENGINE
x = np.random.default_rng(0).integers(-9, 9, (2000, 2000)).astype("f4")
wanted = x @ x
# NumPy's BLAS, which "auto" may choose for floats, ends the process.
a = x if ENGINE.why_unavailable() else x.astype("i4")
c = np.empty_like(a)
falcon.matmul(a[:300, :300], a[:300, :300])
used = next(int(x.split()[1]) for x in open("/proc/self/status") if x.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used * 1024 + 2**25,) * 2)
for _ in range(2):
    c[:] = 0
    falcon.matmul(a, a, c)
    assert np.array_equal(c, wanted)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_limit_of_the_address_space():
    python("-c", LIMITED)
