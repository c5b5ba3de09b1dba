"""Where `falcon.gemm` reads and writes: its workspace. All else: tests/contract."""

import sys
import tracemalloc

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS

from ..support import python

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
        doors.no_memory(2**16)
        if options:
            with pytest.raises(MemoryError):
                plan.execute(a, b, None, out, alpha=2)
            assert (out == 7).all()
        else:
            plan.execute(a, b, None, out, alpha=2)
            assert np.array_equal(out, 2 * (a @ b))


LIMITED = """
import resource, numpy as np, falcon
a = np.random.default_rng(0).integers(-9, 9, (2000, 2000)).astype("f4")
c = np.empty_like(a)
wanted = a @ a
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
