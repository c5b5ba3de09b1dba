"""The one registration table of backends. To add a backend: an import and an entry here."""

from __future__ import annotations

import sys
from functools import cache
from typing import cast

from ._core.backend import Backend
from ._cpu.backend import CpuBackend
from ._cpu.backend import release_workspace as _release_cpu
from ._numpy.backend import NumpyBackend

# In the order in which they are preferred where nothing is measured: LCMAs by name run on the first
# that can; the last one, NumPy, has the least overhead and multiplies what is small.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CpuBackend(), NumpyBackend())}

# The backend whose operands are in GPU memory: chosen by where they are, never among the others.
DEVICE = "gpu"


@cache
def device_backend() -> Backend:
    """Return the backend for GPU memory; imported at first need (30 ms)."""
    from ._gpu.backend import GpuBackend

    return cast(Backend, GpuBackend())  # whose operands are no NumPy arrays


def get_backend(name: str) -> Backend:
    """Return an available backend by name.

    Raises
    ------
    ValueError
        There is no such backend, or it does not run here (the message says why).
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


def release_workspace() -> None:
    """Free the workspaces that are kept between calls.

    Notes
    -----
    On the CPU falcon keeps one workspace of at most 512 MiB (1/32 of the memory where that is
    less; up to 1/16 where that saves passes; more after a call whose ``workspace_limit`` allowed
    it), because memory fresh from the
    operating system is slow at its first use; `falcon.show_config` tells how much is kept. On a
    GPU it keeps the workspaces of calls that were captured into a graph: release them once the
    graphs are gone. Other GPU workspaces go back to CuPy's pool after every call
    (``cupy.get_default_memory_pool().free_all_blocks()``).

    Examples
    --------
    >>> import falcon
    >>> falcon.release_workspace()
    """
    _release_cpu()
    driver = sys.modules.get(f"{__package__}._gpu.driver")
    if driver is not None:
        driver.release()
