"""Array libraries: whose arrays the operands of a call are, and what falcon needs of each library.

::

    gemm, matmul, gram ... --> adapt_operands: the adapter of the call, and views of its operands
                                          |
    host.py     NumPy's arrays, and all that converts to them; torch's tensors, and arrays of any
                other library that has ``__dlpack__``, which are multiplied by way of NumPy's views

CuPy's arrays and torch's tensors in GPU memory are those of `falcon._gpu.adapter`.

To add a library in host memory: a class as `Torch`, and its place in `host.LIBRARIES`. On a GPU: a
class in `falcon._gpu.arrays`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from falcon._backends import DEVICE
from falcon._core.dtypes import DType
from falcon._core.matrix import Matrix, checked_out
from falcon._core.packed import PackedOperand
from falcon._core.where import is_on_gpu as is_on_gpu

from . import host


class Adapter(Protocol):
    """The interface; `x` is always an array as `adapt_operands` returns it, but for `wrap`'s."""

    @property
    def device(self) -> int | None:
        """The GPU that holds the arrays; None: host memory."""

    def wrap(self, x: Any) -> Any:
        """Return a result as an array of the caller's library."""

    def scalar(self, x: Any) -> Any:
        """Return a 0-d result in the form in which the library returns it."""

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which arrays are made and multiplied: device and stream."""

    def array(self, name: str, x: Any) -> Any:
        """Return an operand as an array.

        Raises TypeError: it cannot be converted without loss, or is not numeric.
        """

    def target(self, out: Any) -> Any:
        """Return `out` as an array that shares its memory."""

    def dtype(self, x: Any) -> DType | None:
        """Return the type of an array's or packed operand's elements; None if falcon has none."""

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Sequence[Any] = ()) -> Any:
        """Make an array by rows; if NumPy's result dtype for `like` equals `dtype`, it is used.

        (NumPy has several dtypes of 64-bit integers.)
        """

    def copy(self, x: Any, out: Any, casting: Any = "same_kind") -> None:
        """Write `x` to `out`, which may have another dtype."""

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        """Write ``beta c`` to `out`, or zeros if `c` is None."""

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        """Return a view with the axes in that order."""

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with that shape."""

    def einsum(self, text: str, arrays: Sequence[Any], dtype: Any) -> Any:
        """Call the library's own einsum; `dtype`, if it is not None, is that of the result."""

    def matrix(self, x: Any) -> Matrix:
        """Describe how an array lies in memory, with all its axes."""


def adapt_operands(**operands: Any) -> tuple[Any, ...]:
    """Return the adapter of a call, and its operands in their order: the one door for arrays.

    Arrays of other libraries in host memory become NumPy's views of them; all else, None and what
    NumPy converts included, stays as it is. `c` and `out` alone do not bring a call to a GPU.

    Raises TypeError, ValueError: the operands belong to several libraries or devices, or are arrays
    that cannot be viewed; or elements of `out` share memory.
    """
    on_gpu = False
    for name, x in operands.items():
        on_gpu = on_gpu or (x is not None and name not in ("c", "out") and is_on_gpu(x))
    if not on_gpu:
        found = _checked(operands, *host.viewed(operands))
        out = operands.get("out")
        host.library_of(out).note_write(out)
        return found
    arrays: dict[str, Any] = {}
    for name, x in operands.items():
        if isinstance(x, PackedOperand) and x.backend != DEVICE:
            raise ValueError(f"{name} was packed for backend {x.backend!r}, but a is in GPU memory")
        if x is not None:
            arrays[name] = x.source if isinstance(x, PackedOperand) else x
    from falcon._gpu.adapter import of_arrays  # imported when first needed: 30 ms

    return _checked(operands, of_arrays(arrays), *operands.values())


def _checked(operands: dict[str, Any], adapter: Adapter, *views: Any) -> tuple[Any, ...]:
    """Return what `adapt_operands` does; raise ValueError where elements of `out` share memory."""
    out = dict(zip(operands, views, strict=True)).get("out")
    if out is not None and (adapter.device is not None or isinstance(out, np.ndarray)):
        checked_out(adapter.matrix(out))
    return adapter, *views
