"""All that falcon uses of CuPy except cuBLAS (see cublas.py): memory, streams, kernels, events.

Only these two files call CuPy (arrays.py also views the caller's arrays by it), and importing them
does not import it. The tests run the whole backend on a stand-in for what is used here, and compare
these names and signatures with those of the installed CuPy.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from .matrix import Memory


def _cupy() -> Any:
    return sys.modules.get("cupy") or import_module("cupy")  # import_module alone takes longer


# --- devices and streams ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties of a device, as the driver gives them."""

    name: str
    driver: int  # CUDA version that it supports, as 1000 major + 10 minor
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    capability: tuple[int, int]  # compute capability


@cache
def properties(device: int) -> Properties:
    """Ask the driver for a device's properties."""
    runtime = _cupy().cuda.runtime
    about = runtime.getDeviceProperties(device)
    name = about["name"]
    return Properties(
        name.decode() if isinstance(name, bytes) else name,
        runtime.driverGetVersion(),
        about["multiProcessorCount"],
        about["l2CacheSize"],
        about["totalGlobalMem"],
        (about["major"], about["minor"]),
    )


def version() -> str:
    """Return CuPy's version; raises ImportError if it is not installed."""
    return str(_cupy().__version__)


def runtime_version() -> int:
    """Return the version of CUDA's runtime, as 1000 major + 10 minor."""
    return int(_cupy().cuda.runtime.runtimeGetVersion())


def count() -> int:
    """Return the number of GPUs; raises if there is no driver."""
    return int(_cupy().cuda.runtime.getDeviceCount())


def current() -> int:
    """Return the number of the current device."""
    return int(_cupy().cuda.runtime.getDevice())


def on(device: int) -> AbstractContextManager[Any]:
    """Make a device current."""
    return _cupy().cuda.Device(device)


@lru_cache(maxsize=256)
def on_stream(pointer: int, device: int) -> AbstractContextManager[Any]:
    """Make another library's stream on `device` current; the device must be current already."""
    return _cupy().cuda.Stream.from_external(_ForeignStream(pointer))


@dataclass(frozen=True, slots=True)
class _ForeignStream:
    """A stream with the protocol that CUDA libraries share."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def stream() -> Any:
    """Return the current stream, which has `ptr`, `wait_event` and `is_capturing`."""
    return _cupy().cuda.get_current_stream()


def is_lost() -> bool:
    """Whether an error has made the device unusable for this process: all that follows fails."""
    try:
        _cupy().cuda.runtime.deviceSynchronize()
    except Exception:
        return True
    return False


def is_capturing() -> bool:
    """Whether the current stream records a graph."""
    return bool(stream().is_capturing())


def event() -> Any:
    """Record an event in the current stream."""
    made = _cupy().cuda.Event()
    made.record(stream())
    return made


def seconds_between(start: Any, end: Any) -> float:
    """Wait for `end`; return the seconds since `start`."""
    end.synchronize()
    return float(_cupy().cuda.get_elapsed_time(start, end)) * 1e-3


# --- memory ----------------------------------------------------------------------------------


def allocate(nbytes: int) -> Memory:
    """Allocate memory from CuPy's pool, for the current stream; freed with the object.

    Raises MemoryError: there is not enough; CuPy's error is one.
    """
    made = _cupy().empty((max(nbytes, 1),), np.uint8)
    return Memory(int(made.data.ptr), nbytes, made)


def free_bytes() -> int:
    """Return the bytes of the current device that the driver has free."""
    return int(_cupy().cuda.runtime.memGetInfo()[0])


def free_unused() -> None:
    """Return memory of CuPy's pool that no array uses to the driver, for other libraries."""
    _cupy().get_default_memory_pool().free_all_blocks()


def allocate_on_host(nbytes: int) -> Memory:
    """Allocate zeros in the host's memory that kernels of every device can write."""
    made = _cupy().cuda.alloc_pinned_memory(nbytes)
    np.frombuffer(made, np.uint8, nbytes)[:] = 0
    return Memory(int(made.ptr), nbytes, made)


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a new CuPy array."""
    return _cupy().empty(shape, dtype)


def upload(array: np.ndarray) -> Any:
    """Copy a NumPy array to the current device."""
    return _cupy().asarray(array)


def download(array: Any) -> np.ndarray:
    """Copy a CuPy array to the host."""
    return _cupy().asnumpy(array)


def clear(pointer: int, nbytes: int) -> None:
    """Set memory to zero, in the current stream."""
    cuda = _cupy().cuda
    cuda.runtime.memsetAsync(pointer, 0, nbytes, cuda.get_current_stream().ptr)


# --- kernels --------------------------------------------------------------------------------


def function(source: str, name: str, options: tuple[str, ...] = ()) -> Any:
    """Return a kernel, compiled as C++17 for each device on which it is launched.

    -fmad, on by default, may contract alpha * sum + beta * c, which rounds once less.
    """
    return _cupy().RawModule(code=source, options=options).get_function(name)


def address_of(kernel: Any) -> int:
    """Return the driver's handle of a kernel on the current device."""
    return int(kernel.kernel.ptr)


def begin() -> None:
    """Let the current thread use the current device."""
    runtime = _cupy().cuda.runtime
    runtime.setDevice(runtime.getDevice())


def allow_shared(kernel: Any, nbytes: int) -> None:
    """Allow a kernel so much shared memory on the current device, beyond 48 KiB."""
    kernel.max_dynamic_shared_size_bytes = nbytes
