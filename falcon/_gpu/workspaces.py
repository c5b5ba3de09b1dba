"""Memory that work on the device needs after the call: until a captured graph is replayed, too."""

from __future__ import annotations

from time import monotonic
from typing import Any

from . import device
from .arrays import Library
from .matrix import Memory

# What NVIDIA recommends for Hopper; less is enough elsewhere.
_CUBLAS_BYTES = 32 * 2**20
# What recorded graphs will use when they are replayed.
_kept: list[Any] = []
# By library and device: the least bytes that were refused to what can do without them, and until
# when that counts. A refusal takes tens of milliseconds, and empties the caches of the library's
# pool, so that nothing is asked for again until the driver has as much.
_refused: dict[tuple[str, int], tuple[int, float]] = {}
_AGAIN = 10.0


def allocate(library: Library, nbytes: int, *, optional: bool = False) -> Memory:
    """Allocate memory for a call; keep it if a graph is recorded that does not own it.

    `optional`: the caller can do without.
    Raises MemoryError: there is none; what is optional was refused, and is not there yet.
    """
    if nbytes == 0:
        return Memory(0, 0, None)
    if not optional:
        return keep(library, library.allocate(nbytes))
    key = library.name, device.current()
    least, until = _refused.get(key, (nbytes + 1, 0.0))
    if nbytes >= least and (monotonic() < until or device.free_bytes() < nbytes):
        raise MemoryError(f"{nbytes} bytes of the GPU's memory were not to be had just now")
    try:
        return keep(library, library.allocate(nbytes))
    except MemoryError:
        _refused[key] = nbytes, monotonic() + _AGAIN
        raise


def keep(library: Library, made: Any) -> Any:
    """Keep memory, or an array of the library, if a graph is recorded that does not own it."""
    if not library.graphs_own_memory and device.is_capturing():
        _kept.append(made)
    return made


def keep_always(made: Any) -> None:
    """Keep memory until `release`."""
    _kept.append(made)


def for_cublas(library: Library, reproducible: bool | str = False) -> Memory | None:
    """Return a workspace for cuBLAS's products if a graph is recorded, else None.

    The handle's own workspace is shared with all other calls, which may run beside a replay.
    `reproducible`: always one, of the same size: cuBLAS chooses kernels by it.
    """
    needed = reproducible or device.is_capturing()
    return allocate(library, _CUBLAS_BYTES) if needed else None


def release() -> None:
    """Free what is kept for recorded graphs; ask again for memory that was refused."""
    _refused.clear()
    _kept.clear()
