"""Memory that work on the device needs after the call: until a captured graph is replayed, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from . import device
from .arrays import Library
from .matrix import Memory

# What NVIDIA recommends for Hopper; less is enough elsewhere.
_CUBLAS_BYTES = 32 * 2**20
# What recorded graphs will use when they are replayed.
_kept: list[Any] = []
# The least bytes that were refused to what can do without them, until when that counts, and for how
# many seconds: pools search for memory for tens of milliseconds.
_refused, _until, _AGAIN = 0, 0.0, 10.0


def allocate(library: Library, nbytes: int) -> Memory:
    """Allocate memory for a call; keep it if a graph is recorded that does not own it."""
    if nbytes == 0:
        return Memory(0, 0, None)
    return keep(library, library.allocate(nbytes))


def for_call(library: Library, nbytes: int, *, optional: bool) -> Memory:
    """Allocate the workspace of a call, which may be able to do without."""
    return attempt(partial(allocate, library), nbytes) if optional else allocate(library, nbytes)


def attempt(allocate: Callable[[int], Memory], nbytes: int) -> Memory:
    """Allocate memory that the caller can do without.

    Raises MemoryError: there is none, or as much was refused seconds ago.
    """
    global _refused, _until
    if nbytes >= _refused and monotonic() < _until:
        raise MemoryError(f"{nbytes} bytes of the GPU's memory were not to be had just now")
    try:
        return allocate(nbytes)
    except MemoryError:
        _refused, _until = nbytes, monotonic() + _AGAIN
        raise


def keep(library: Library, made: Any) -> Any:
    """Keep memory, or an array of the library, if a graph is recorded that does not own it."""
    if not library.graphs_own_memory and device.is_capturing():
        _kept.append(made)
    return made


def for_cublas(library: Library) -> Memory | None:
    """Return a workspace for cuBLAS's products if a graph is recorded, else None.

    The handle's own workspace is shared with all other calls, which may run beside a replay.
    """
    return allocate(library, _CUBLAS_BYTES) if device.is_capturing() else None


def release() -> None:
    """Free what is kept for recorded graphs; ask again for memory that was refused."""
    global _until
    _until = 0.0
    _kept.clear()
