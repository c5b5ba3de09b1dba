"""The one registration table of backends. To add a backend: an import and an entry here."""

from __future__ import annotations

from ._cpu.backend import CpuBackend
from ._numpy import NumpyBackend
from ._plan import Backend

# In the order in which they are preferred where nothing is measured: LCMAs by name run on the first
# that can; the last one, NumPy, has the least overhead and multiplies what is small.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CpuBackend(), NumpyBackend())}

# Names that are planned for, so that asking for one says why it is missing.
PLANNED = {
    "gpu": "falcon's own GPU kernels are not part of this version",
}


def get_backend(name: str) -> Backend:
    """Return an available backend by name.

    Raises
    ------
    ValueError
        There is no such backend, or it does not run here (the message says why).
    """
    backend = BACKENDS.get(name)
    if backend is None:
        known = ", ".join(["auto", *BACKENDS])
        reason = PLANNED.get(name)
        raise ValueError(
            f"backend {name!r} is not available: {reason}"
            if reason
            else f"backend is {name!r}; expected one of {known}"
        )
    reason = backend.why_unavailable()
    if reason is not None:
        raise ValueError(f"backend {name!r} is not available: {reason}")
    return backend


def available_backends() -> list[Backend]:
    """Backends that run here, in the order in which ties are broken."""
    return [backend for backend in BACKENDS.values() if backend.why_unavailable() is None]
