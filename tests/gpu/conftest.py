"""The stand-in for CuPy as a fixture; tests marked "gpu" need a real GPU instead."""

import sys

import pytest

from falcon import _backends
from falcon._gpu import available, cublas, device, direct, kernels, rates, repaired, workspaces
from falcon._gpu import fused as fused_kernel

from ..doors import forget_calls, forget_devices
from . import fake_cublas, fake_cupy, fake_driver


def forget():
    available._works = False
    device.properties.cache_clear()
    rates.shipped.cache_clear()
    workspaces.release()
    for cached in (kernels._function, device.on_stream, cublas._wrapper, cublas._library):
        cached.cache_clear()
    for cached in (fused_kernel._kernel, fused_kernel.map_of, fused_kernel.driver):
        cached.cache_clear()
    fused_kernel.trial.found.clear()
    direct.trial.found.clear()
    repaired._memory = None
    repaired._flags.clear()
    cublas._of_thread.of_device.clear()
    cublas._Handle._unused.clear()
    forget_calls()
    forget_devices()
    _backends.device_backend.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def compiled_once(built):
    fake_cupy.FOLDER = built


@pytest.fixture
def cupy(monkeypatch, doors, tmp_path):
    """CuPy's stand-in, in place of the real one; guard zones are checked at the end."""
    if fake_cupy.COMPILER is None:
        pytest.skip("no C++ compiler")
    pytest.importorskip("ml_dtypes")
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path))
    for name, module in fake_cupy.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    sizes = dict.fromkeys((8, 4, 2), 64)  # times of measuring mean nothing here
    doors.numbers(gpu_run=0.0, gpu_warm_up=0.0, gpu_sizes=sizes)
    monkeypatch.setattr(cublas, "load", fake_cublas.load)
    fake_cupy.STATE.__init__()
    forget()
    for tried in (
        fused_kernel.trial.found,
        direct.trial.found,
    ):  # but for the fixtures `fused`, `launches`
        tried |= dict.fromkeys(range(fake_cupy.DEVICES), False)
    assert available.why_unavailable() is None  # tried once, before what a test looks at
    fake_cupy.STATE.__init__()
    yield sys.modules["cupy"]
    fake_cupy.STATE.check()
    forget()


@pytest.fixture
def state(cupy):
    """What the stand-in has recorded."""
    return fake_cupy.STATE


@pytest.fixture
def fused(cupy, state, monkeypatch):
    """A Hopper GPU whose driver makes maps; the fused_kernel was tried."""
    monkeypatch.setattr(fused_kernel, "load", fake_driver.load)
    fused_kernel.trial.found[0] = True
    return state


@pytest.fixture
def launches(cupy, state, monkeypatch):
    """A driver that launches kernels, which was not tried yet."""
    monkeypatch.setattr(fused_kernel, "load", fake_driver.load)
    fake_driver.STATUS.clear()
    direct.trial.found.clear()
    return state


def pytest_collection_modifyitems(items):
    reason = None
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            reason = reason if reason is not None else (available.why_unavailable() or "")
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
