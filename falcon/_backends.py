"""The table of backends. To add a backend: an import and an entry here."""

from __future__ import annotations

from functools import cache
from typing import cast

from ._core.backend import Backend
from ._cpu.backend import CpuBackend
from ._numpy.backend import NumpyBackend

# In order of preference: a scheme by name runs on the first backend that can run it.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CpuBackend(), NumpyBackend())}

# The backend for operands in GPU memory: chosen by where they are, never compared with the others.
DEVICE = "gpu"


@cache
def device_backend() -> Backend:
    """Return the backend for GPU memory; imported when first needed (30 ms)."""
    from ._gpu.backend import GpuBackend

    return cast(Backend, GpuBackend())  # a cast, since its operands are no NumPy arrays


def get_backend(name: str) -> Backend:
    """Return an available backend by name.

    Raises ValueError: there is no such backend, or it does not run here (the message says why).
    """
    backend = device_backend() if name == DEVICE else BACKENDS.get(name)
    if backend is None:
        known = ", ".join(["auto", *BACKENDS, DEVICE])
        raise ValueError(f"backend is {name!r}; expected one of {known}")
    reason = backend.why_unavailable()
    if reason is not None:
        raise ValueError(f"backend {name!r} is not available: {reason}")
    return backend


def available_backends() -> list[Backend]:
    """Backends for host memory that run here, in the order in which ties are broken."""
    return [backend for backend in BACKENDS.values() if backend.why_unavailable() is None]


def host_engine() -> Backend:
    """Return the backend with kernels of its own for host memory; NumPy's where there is none."""
    return min(available_backends(), key=lambda x: x.is_library)


def release_workspace() -> None:
    """Free the workspaces that are kept between calls.

    Notes
    -----
    On the CPU falcon keeps one workspace, because the first use of new memory is slow. It is at
    most 512 MiB (1/32 of the memory if that is less; up to 1/16 where that saves passes; more after
    a call whose ``workspace_limit`` allowed it), and another for products modulo p;
    `falcon.show_config` prints their sizes. On a GPU it keeps the workspaces of calls that were
    captured into a graph: release them when the graphs are no longer used. Other GPU workspaces
    return to CuPy's pool after every call (``cupy.get_default_memory_pool().free_all_blocks()``
    frees them).

    Examples
    --------
    >>> import falcon
    >>> falcon.release_workspace()
    """
    is_loaded = device_backend.cache_info().currsize > 0  # else it keeps nothing
    for backend in (*BACKENDS.values(), *([device_backend()] if is_loaded else [])):
        backend.release_workspace()
