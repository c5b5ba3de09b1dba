"""reproducible=True on a GPU: nothing is measured, or remembered of earlier calls."""

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import CUDA
from falcon._gpu import rates, workspaces

from .support import kind, on_device, whole


@pytest.fixture
def never_measured(monkeypatch):
    def refuse(*_):
        raise AssertionError("a GPU is measured")

    monkeypatch.setattr(rates, "_measured", refuse)


@pytest.mark.parametrize("dtype", [x.name for x in CUDA])
def test_shipped_rates_and_a_workspace_for_cublas(cupy, state, never_measured, dtype):
    state.products.clear()
    plan = falcon.plan((8192, 8192), (8192, 8192), dtype, reproducible=True, backend="gpu")
    assert plan.rates == "shipped"
    assert not plan.optional
    x = whole((48, 48), 1)
    array = on_device(cupy, x, dtype)
    for stack in (array, array.reshape(2, 24, 48)):
        state.workspace = None
        b = array if stack is array else array.reshape(2, 48, 24)
        before = state.allocated
        found = falcon.matmul(stack, b, reproducible=True)
        assert state.workspace is not None
        assert state.allocated - before >= workspaces._CUBLAS_BYTES
        host = (x, x) if stack is array else (x.reshape(2, 24, 48), x.reshape(2, 48, 24))
        np.testing.assert_array_equal(cupy.asnumpy(found), np.matmul(*host).astype(kind(dtype)))


@pytest.mark.parametrize("arithmetic", ["fp16x3", "bf16x6"])
def test_parts_by_name_have_rates_of_their_products(cupy, never_measured, arithmetic):
    how = {"reproducible": True, "backend": "gpu", "arithmetic": arithmetic}
    plan = falcon.plan((8192, 8192), (8192, 8192), "float32", **how)
    assert plan.method.arithmetic.name == arithmetic
    assert plan.candidates


def test_float32_is_native(cupy, never_measured):
    plan = falcon.plan((8192, 8192), (8192, 8192), "float32", reproducible=True, backend="gpu")
    assert plan.method.arithmetic is None


def test_what_was_repaired_before_decides_nothing(cupy, state):
    """Calls behind one with many NaN take the same steps as the first."""
    x = whole((48, 48), 1).astype(np.float32)
    bad = x.copy()
    bad[::2] = np.nan
    how = {"arithmetic": "fp16x3", "reproducible": True}
    good, poor = (on_device(cupy, y, "float32") for y in (x, bad))
    launches = []
    for a in (good, poor, good):
        state.launches.clear()
        falcon.gemm(a, good, **how)
        launches.append(list(state.launches))
    assert launches[0] == launches[1] == launches[2]


def test_short_memory_raises(cupy, state, doors):
    """Another algorithm would give other bits."""
    x = on_device(cupy, whole((48, 48), 1), "float32")
    how = {"arithmetic": "fp16x3", "reproducible": True}
    falcon.gemm(x, x, **how)
    state.room = 2**14
    with pytest.raises(MemoryError):
        falcon.gemm(x, x, **how)


def test_rows_are_refused(cupy):
    x = on_device(cupy, whole((48, 48), 1), "float32")
    with pytest.raises(ValueError, match="reproducible='rows' is for falcon's own kernels on the"):
        falcon.gemm(x, x, reproducible="rows")
