"""Operands of calls that are CuPy arrays and torch tensors in GPU memory.

No data is moved: operands stay where they are, the result is an array of the caller's library, and
all work runs in the caller's current stream, without waiting for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from falcon._core.dtypes import DType, dtype_of
from falcon._core.matrix import Matrix
from falcon._core.packed import PackedOperand, refuse_packed
from falcon._core.where import device_of

from . import kernels, workspaces
from .arrays import Library, library_of
from .device import current, on
from .operands import duplicate
from .steps import run


def of_arrays(arrays: dict[str, Any]) -> Device:
    """Return the adapter of arrays of one library on one device.

    Raises TypeError: one is in host memory, or of another library.
    Raises ValueError: one is on another device.
    """
    first = next(iter(arrays))
    index = {name: device_of(x) for name, x in arrays.items()}
    gpu = next(x for x in index.values() if x is not None)
    for name, found in index.items():
        if found is None:
            kind = type(arrays[name]).__name__
            raise TypeError(
                f"{name} is a {kind} in host memory, but another operand is on cuda:{gpu}; move "
                f"it there first (cupy.asarray({name}), or {name}.cuda() of torch): falcon moves "
                "no data by itself"
            )
        if found != gpu:
            raise ValueError(f"{name} is on cuda:{found} and {first} on cuda:{index[first]}")
    libraries = {name: library_of(x) for name, x in arrays.items()}
    for name, library in libraries.items():
        if library.name != libraries[first].name:
            raise TypeError(
                f"{name} is of {library.name} and {first} of {libraries[first].name}; convert one "
                "(cupy.from_dlpack and torch.from_dlpack do it without a copy)"
            )
    return Device(libraries[first], gpu)


def current_device() -> Device:
    """Return the adapter to plan for shapes, without arrays, on the current device."""
    return Device(Library(), current())


class Device:
    """Arrays of one library on one device; `falcon._front.adapters.Adapter` is the interface."""

    def __init__(self, library: Library, index: int) -> None:
        self.library, self.device = library, index

    def wrap(self, x: Any) -> Any:
        return x

    def scalar(self, x: Any) -> Any:
        return x

    @contextmanager
    def current(self) -> Iterator[None]:
        with on(self.device), self.library.stream(self.device):
            yield

    def array(self, name: str, x: Any) -> Any:
        refuse_packed(name, x)
        if x is None:
            raise TypeError(f"{name} is None; expected an array")
        return self.library.resolved(x)

    def target(self, out: Any) -> Any:
        self.library.note_write(out)
        return out

    def dtype(self, x: Any) -> DType | None:
        return dtype_of(x.dtype) if isinstance(x, PackedOperand) else self.library.dtype(x)

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Sequence[Any] = ()) -> Any:
        """Make an array by rows; falcon's buffers are made so too, which a graph may need again."""
        return workspaces.keep(self.library, self.library.empty(shape, dtype, self.device))

    def copy(self, x: Any, out: Any, casting: Any = "same_kind") -> None:
        out[...] = x

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        added, target = None if c is None else self.matrix(c), self.matrix(out)
        # A thread may overwrite what another one has yet to read, except at the same entry.
        if added is not None and added.overlaps(target) and not added.is_same(target):
            added = duplicate(added)
        factor = complex(beta) if dtype.is_complex else float(beta)
        run(kernels.copy(added, target, factor if added is not None else 1.0))

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.library.permuted(x, axes)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self.library.broadcast(x, shape)

    def einsum(self, text: str, arrays: Sequence[Any], dtype: Any) -> Any:
        """Call the library's own einsum, for copies of arrays of another dtype."""
        cast = list(arrays)
        for i, x in enumerate(arrays):
            if dtype is not None and self.dtype(x) is not dtype_of(dtype):
                cast[i] = self.empty(tuple(x.shape), dtype_of(dtype))
                self.copy(x, cast[i])
        return self.library.einsum(text, cast)

    def matrix(self, x: Any) -> Matrix:
        return self.library.matrix(x)
