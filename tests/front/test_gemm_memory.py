"""Where `falcon.gemm` reads and writes: its workspace. All else: tests/contract."""

import tracemalloc

import numpy as np
import pytest

import falcon

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
