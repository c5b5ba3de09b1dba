"""CuPy arrays and torch tensors as `Matrix` objects, and results of the caller's kind.

To add a library: a class like `_Torch`, and a line in `library_of`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol

from falcon._core.dtypes import CUDA, DType, find, find_torch

from . import device
from .batches import Batch
from .matrix import Matrix


class Library(Protocol):
    """What falcon asks of an array library."""

    name: str

    def dtype(self, x: Any) -> DType:
        """Type of an array's elements; raises TypeError where falcon has no such type."""

    def matrix(self, x: Any) -> Matrix:
        """View a 2-D array."""

    def span(self, x: Any) -> tuple[int, int]:
        """First address of an array of any axes, and the one after its last."""

    def empty(self, shape: tuple[int, ...], dtype: DType, index: int) -> Any:
        """Make a new array by rows."""

    def stream(self, index: int) -> AbstractContextManager[Any]:
        """Make the library's current stream CuPy's."""

    def blocks(self, x: Any) -> Batch | None:
        """View an array of more axes as a batch; None where its matrices are at no one distance."""

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        """View an array with that shape."""


def library_of(x: Any) -> Library:
    """Return the library of a GPU array.

    Raises
    ------
    TypeError
        It is none that falcon knows.
    """
    module = type(x).__module__.split(".")[0]
    if module == "cupy":
        return _CuPy()
    # Parameters, and subclasses elsewhere, are tensors too.
    if any(base.__module__.split(".")[0] == "torch" for base in type(x).__mro__):
        return _Torch()
    raise TypeError(
        f"{type(x).__module__}.{type(x).__name__} is in GPU memory; falcon takes arrays of cupy "
        "and torch there (cupy.from_dlpack(x) views most others without a copy)"
    )


class _CuPy:
    name = "cupy"

    def dtype(self, x: Any) -> DType:
        return _known(find(x.dtype), x.dtype)

    def matrix(self, x: Any) -> Matrix:
        return _viewed(x, self.dtype(x))

    def empty(self, shape: tuple[int, ...], dtype: DType, index: int) -> Any:
        return device.empty(shape, dtype.numpy)

    def stream(self, index: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def blocks(self, x: Any) -> Batch | None:
        return _batch(x, self.dtype(x))

    def span(self, x: Any) -> tuple[int, int]:
        return _span(x)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return device.broadcast(x, shape)


class _Torch:
    name = "torch"

    def __init__(self) -> None:
        self._torch = import_module("torch")

    def dtype(self, x: Any) -> DType:
        name = str(x.dtype).removeprefix("torch.")
        return _known(find_torch(name), name)

    def matrix(self, x: Any) -> Matrix:
        return _viewed(self._bits(x), self.dtype(x))

    def blocks(self, x: Any) -> Batch | None:
        return _batch(self._bits(x), self.dtype(x))

    def span(self, x: Any) -> tuple[int, int]:
        return _span(self._bits(x))

    def _bits(self, x: Any) -> Any:
        """View a tensor as a CuPy array; as bits where not every CuPy knows the type: bfloat16."""
        if x.requires_grad:
            raise TypeError(
                "a tensor requires grad, but falcon has no backward pass; pass tensor.detach()"
            )
        known = self.dtype(x).module == "numpy"
        return device.from_dlpack(x if known else x.view(self._torch.int16))

    def empty(self, shape: tuple[int, ...], dtype: DType, index: int) -> Any:
        assert dtype.torch is not None  # as all types of GPUs have
        kind = getattr(self._torch, dtype.torch)
        return self._torch.empty(shape, dtype=kind, device=f"cuda:{index}")

    def stream(self, index: int) -> AbstractContextManager[Any]:
        stream = self._torch.cuda.current_stream(index)
        return device.on_stream(int(stream.cuda_stream))

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self._torch.broadcast_to(x, shape)


def _viewed(x: Any, dtype: DType) -> Matrix:
    """View the last two axes."""
    size = x.dtype.itemsize
    rows, columns = (stride // size for stride in x.strides[-2:])
    return Matrix(int(x.data.ptr), tuple(x.shape[-2:]), (rows, columns), dtype, x)


def _batch(x: Any, dtype: DType) -> Batch | None:
    strides = tuple(stride // x.dtype.itemsize for stride in x.strides[:-2])
    return Batch.of(_viewed(x, dtype), tuple(x.shape[:-2]), strides)


def _span(x: Any) -> tuple[int, int]:
    reach = [(size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)]
    start = int(x.data.ptr)
    low, high = sum(min(y, 0) for y in reach), sum(max(y, 0) for y in reach)
    return start + low, start + high + x.dtype.itemsize


def _known(row: DType | None, name: Any) -> DType:
    if row is None:
        raise _unknown(name)
    return row


def _unknown(name: Any) -> TypeError:
    expected = ", ".join(row.name for row in CUDA)
    return TypeError(f"an operand in GPU memory is {name}; expected one of {expected}")


def promoted(rows: list[DType]) -> DType:
    """Return the type in which operands of these types are multiplied.

    Raises
    ------
    TypeError
        One is no floating type of a GPU, or float16 meets bfloat16.
    """
    for row in rows:
        if row.cuda is None:
            raise _unknown(row)
    widest = max(rows, key=lambda row: row.itemsize)
    for row in rows:
        if row.itemsize == widest.itemsize and row is not widest:
            raise TypeError(f"{widest} and {row} have no common dtype; convert one of the operands")
    return widest
