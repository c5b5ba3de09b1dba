"""What calls share: memory that is short, shipped rates, packed operands, records' keys."""

import gc
import sys
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon._gpu import device, rates, workspaces
from falcon._gpu.arrays import Library

from ..doors import forget_calls
from . import fake_cupy
from .support import on_device, whole
from .test_parts import HOPPER, error, in_order


def on_architecture(monkeypatch, major, name=b"Stand-in"):
    known = fake_cupy.properties(0) | {"major": major, "name": name}
    runtime = sys.modules["cupy"].cuda.runtime
    monkeypatch.setattr(runtime, "getDeviceProperties", lambda index: known)
    device.properties.cache_clear()
    rates.shipped.cache_clear()
    forget_calls()


def test_auto_takes_parts_where_sums_are_known(cupy, state, monkeypatch, doors):
    """Elsewhere by name only, with an error that holds for a coarse adder too."""

    def plan(**options):
        return falcon.plan((8192, 8192), (8192, 8192), "float32", backend="gpu", **options)

    found = rates.DeviceRates(110e12, 105e12, 40e12, 3e12, 1e-6, 132, 50 * 2**20)
    native = replace(found, multiply=50e12, batched=50e12)
    doors.rates(lambda backend, problem, some, operand=None: found if operand else native)
    for major in (9, 8):
        on_architecture(monkeypatch, major)
        assert plan().method.arithmetic.name == "fp16x3"
    on_architecture(monkeypatch, 7)
    assert plan().method.arithmetic is None
    assert plan().scheme is not None
    state.truncates = 8, 1
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(x).astype(np.float32) for x in ((24, 1500), (1500, 20)))
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    named = falcon.plan(left, right, arithmetic="fp16x3", scheme="classical")
    assert error(cupy.asnumpy(named(left, right)), a, b) <= named.growth * error(
        in_order(a, b), a, b
    )
    state.truncates = HOPPER
    assert named.growth > 1.5


def test_parts_of_auto_give_way_where_memory_is_short(cupy, state, monkeypatch):
    """The classical algorithm by parts needs a workspace; that by name raises."""
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    plan = falcon.plan(a, b, arithmetic="fp16x3", scheme="classical")
    want = cupy.asnumpy(a) @ cupy.asnumpy(b)
    out = cupy.empty((64, 64), np.float32)
    state.room = plan.workspace - 1
    with pytest.raises(MemoryError):
        plan(a, b, out)
    state.products.clear()
    replace(plan, optional=True)(a, b, out)
    assert len(state.products) == 1
    np.testing.assert_array_equal(cupy.asnumpy(out), want)


def test_memory_that_was_refused_is_asked_for_when_it_is_free(cupy, state, monkeypatch, doors):
    """Of one library and device: a refusal empties the caches of its pool."""
    asked = []

    def attempt(library, nbytes):
        monkeypatch.setattr(library, "allocate", lambda n: asked.append(n) or device.allocate(n))
        return workspaces.allocate(library, nbytes, optional=True)

    state.room = 1000
    cupy_s, other = Library(), Library()
    other.name = "another"
    doors.numbers(asked_again=0.0)
    for _ in range(3):
        with pytest.raises(MemoryError):
            attempt(cupy_s, 2000)
    assert asked == [2000]
    attempt(cupy_s, 500)
    with pytest.raises(MemoryError):
        attempt(other, 3000)
    assert asked == [2000, 500, 3000]
    state.room = None
    attempt(cupy_s, 2000)
    assert asked[3:] == [2000]


def test_a_packed_operand_that_is_freed_in_a_capture_is_kept(cupy, state):
    """No wait becomes part of the graph."""
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    packed = falcon.pack(b, scheme="strassen")
    state.current += 1
    falcon.gemm(a, packed)  # in another stream
    held, waits = len(workspaces._kept), len(state.waits)
    state.capturing = True
    del packed
    gc.collect()
    state.capturing = False
    assert (len(workspaces._kept), len(state.waits)) == (held + 1, waits)


def test_rates_of_known_devices_are_shipped(cupy, monkeypatch, doors):
    """All ranks of a job decide alike; other devices are measured."""
    backend = falcon.plan((64, 64), (64, 64), "float32", backend="gpu").backend
    on_architecture(monkeypatch, 9, b"NVIDIA H200")
    doors.measured_on_gpu("measured")
    assert backend.measure(dtype_of("float64"), 1, device=0).multiply == 6.03e13
    assert backend.measure(dtype_of("float64"), 1, device=0).multiprocessors == 8
    on_architecture(monkeypatch, 9)
    assert backend.measure(dtype_of("float64"), 1, device=0) == "measured"


def test_calls_are_recalled_by_the_types_of_arguments(cupy, state):
    """True equals 1, and is no number of threads."""
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    for _ in range(3):
        falcon.gemm(a, b, threads=1)
    with pytest.raises(TypeError, match="threads"):
        falcon.gemm(a, b, threads=True)
