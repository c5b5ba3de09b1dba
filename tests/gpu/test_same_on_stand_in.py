"""The tests of `test_on_gpu.py` run on the stand-in: a mistake in them would cost time on a GPU."""

import inspect

import pytest

from . import test_on_gpu, without_pools

# What the stand-in lacks: a graph that is launched, a real allocator, torch, 40 GiB.
BEYOND = {"test_capture", "test_torch", "test_layers_of_torch",
          "test_layers_are_timed_and_captured", "test_more_than_two_to_the_31_elements",
          "test_random_data_and_packed_weights", "test_whole_catalogue"}  # fmt: skip
NAMES = [name for name, _ in inspect.getmembers(test_on_gpu, inspect.isfunction)
         if name.startswith("test_") and name not in BEYOND]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_runs_on_a_gpu_runs_on_the_stand_in(cupy, monkeypatch, request, name):
    needed = {"test_the_kernel_of_tensor_cores": "fused", "test_the_driver_launches": "launches"}
    if name in needed:
        request.getfixturevalue(needed[name])
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 2)
    test = getattr(test_on_gpu, name)
    wanted = inspect.signature(test).parameters
    given = {"real": cupy, "dtype": "bfloat16", "name": "strassen", "scheme": "2x4x2:14",
             "arithmetic": "fp16x3", "shape": (131, 150, 173)}  # fmt: skip
    test(**{x: given[x] for x in wanted})


def test_the_sanitizers_part_has_no_pools(cupy, monkeypatch):
    set_to = {}
    for name in ("set_allocator", "set_pinned_memory_allocator"):
        monkeypatch.setattr(cupy.cuda, name, lambda x, name=name: set_to.update({name: x}))
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "")
    without_pools.pytest_configure()
    assert set_to == {"set_allocator": None, "set_pinned_memory_allocator": None}
