"""The table of backends, and the only names of them outside of their own packages.

To add a backend: an import and an entry here; a program may add one to `BACKENDS` before its first
product.
"""

from __future__ import annotations

from functools import cache

from ._core.plan import Backend
from ._cpu.backend import CpuBackend
from ._numpy.backend import NumpyBackend

# falcon's own kernels, which may not run here; and the library of host arrays, which always does.
ENGINE, LIBRARY = CpuBackend(), NumpyBackend()

# In order of preference: a scheme by name runs on the first backend that can run it.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (ENGINE, LIBRARY)}

# The backend for operands in GPU memory: chosen by where they are, never compared with the others.
DEVICE = "gpu"


@cache
def device_backend() -> Backend:
    """Return the backend for GPU memory; imported when first needed (30 ms)."""
    from ._gpu.backend import GpuBackend

    return GpuBackend()


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
    """Return the backend with kernels of its own for host memory, else a library."""
    return min(available_backends(), key=lambda x: x.is_library)
