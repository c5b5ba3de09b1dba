"""CuPy arrays and torch tensors as `Matrix` objects, and results of the caller's kind.

To add a library: a class like `_Torch`, and a line in `library_of`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from . import device
from .batches import Batch
from .matrix import ITEM_BYTES, Matrix


class Library(Protocol):
    """What falcon asks of an array library."""

    name: str

    def dtype_name(self, x: Any) -> str:
        """Name of an array's dtype, as NumPy calls it."""

    def matrix(self, x: Any) -> Matrix:
        """View a 2-D array."""

    def empty(self, shape: tuple[int, ...], dtype: str, index: int) -> Any:
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

    def dtype_name(self, x: Any) -> str:
        return str(x.dtype.name)

    def matrix(self, x: Any) -> Matrix:
        return _viewed(x, x.dtype.name)

    def empty(self, shape: tuple[int, ...], dtype: str, index: int) -> Any:
        return device.empty(shape, numpy_dtype(dtype))

    def stream(self, index: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def blocks(self, x: Any) -> Batch | None:
        return _batch(x, x.dtype.name)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return device.broadcast(x, shape)


class _Torch:
    name = "torch"

    def __init__(self) -> None:
        self._torch = import_module("torch")

    def dtype_name(self, x: Any) -> str:
        return str(x.dtype).removeprefix("torch.")

    def matrix(self, x: Any) -> Matrix:
        return _viewed(self._bits(x), self.dtype_name(x))

    def blocks(self, x: Any) -> Batch | None:
        return _batch(self._bits(x), self.dtype_name(x))

    def _bits(self, x: Any) -> Any:
        """View a tensor as a CuPy array; as bits, because not every CuPy knows bfloat16."""
        if x.requires_grad:
            raise TypeError(
                "a tensor requires grad, but falcon has no backward pass; pass tensor.detach()"
            )
        return device.from_dlpack(
            x.view(self._torch.int16) if self.dtype_name(x) == "bfloat16" else x
        )

    def empty(self, shape: tuple[int, ...], dtype: str, index: int) -> Any:
        kind = getattr(self._torch, dtype)
        return self._torch.empty(shape, dtype=kind, device=f"cuda:{index}")

    def stream(self, index: int) -> AbstractContextManager[Any]:
        stream = self._torch.cuda.current_stream(index)
        return device.on_stream(int(stream.cuda_stream), index)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self._torch.broadcast_to(x, shape)


def _viewed(x: Any, dtype: str) -> Matrix:
    """View the last two axes."""
    size = x.dtype.itemsize
    rows, columns = (stride // size for stride in x.strides[-2:])
    return Matrix(int(x.data.ptr), tuple(x.shape[-2:]), (rows, columns), dtype, x)


def _batch(x: Any, dtype: str) -> Batch | None:
    strides = tuple(stride // x.dtype.itemsize for stride in x.strides[:-2])
    return Batch.of(_viewed(x, dtype), tuple(x.shape[:-2]), strides)


def numpy_dtype(name: str) -> np.dtype:
    """Return the NumPy dtype of that name; bfloat16 comes from ml_dtypes.

    Raises
    ------
    TypeError
        It is no dtype, or ml_dtypes is missing.
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        return np.dtype(import_module("ml_dtypes").bfloat16)
    except ImportError:
        raise TypeError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None


def promoted(names: list[str]) -> str:
    """Return the dtype in which operands of these dtypes are multiplied.

    Raises
    ------
    TypeError
        One is no floating dtype of a GPU, or float16 meets bfloat16.
    """
    for name in names:
        if name not in ITEM_BYTES:
            raise TypeError(
                f"an operand in GPU memory is {name}; expected one of {', '.join(ITEM_BYTES)}"
            )
    widest = max(names, key=ITEM_BYTES.__getitem__)
    if ITEM_BYTES[widest] == 2 and len(set(names)) > 1:
        raise TypeError("float16 and bfloat16 have no common dtype; convert one of the operands")
    return widest
