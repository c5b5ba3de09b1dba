"""Array families: an interface to the array libraries of operands.

::

    numpy.py         NumPy arrays, and objects that convert to them
    torch_host.py    torch tensors in host memory, as NumPy arrays
    device.py        CuPy arrays and torch tensors in GPU memory

To add an array library: a class that fulfils `Family`, and a line in `family_of`; if NumPy can view
its arrays, functions like those of torch_host.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from falcon._backends import DEVICE
from falcon._core.dtypes import DType
from falcon._core.options import Options
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._gpu.where import is_on_gpu

from .numpy import NUMPY


class Family(Protocol):
    """The interface; `x` is always an array (or converts to one)."""

    # Names of backends with which the library's own product may be called.
    library_backends: tuple[str, ...]

    # Whether a packed operand may be used without B itself.
    source_is_optional: bool

    # Values of `falcon.gram`'s `symmetric`.
    parts_written: tuple[str, ...]

    def requested(self, options: Options) -> Options:
        """Return the options for arrays of the family; raise if one is not supported."""

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which arrays are made and multiplied: device and stream."""

    def array(self, name: str, x: Any) -> Any:
        """Return an operand as an array of the family.

        Raises TypeError: it cannot be converted without loss, or is not numeric.
        """

    def dtype(self, arrays: list[Any]) -> DType:
        """Return the type of the arithmetic; raises TypeError where there is none."""

    def element_type(self, x: Any) -> DType | None:
        """Return the type of an array's or packed operand's elements; None if falcon has none."""

    def type_named(self, dtype: Any) -> DType:
        """Return the row of a user's `dtype`; raise TypeError if it is not multiplied."""

    def scalars(self, dtype: DType) -> DType:
        """Return the type of alpha and beta."""

    def target(self, out: Any) -> Any:
        """Return a caller's `out` as an array of the family that shares its memory."""

    def check_cast(self, out: Any, dtype: DType) -> None:
        """Raise TypeError unless `out` is an array of the family and `dtype` casts to its dtype."""

    def check_out(self, out: Any, shape: tuple[int, ...], dtype: DType) -> None:
        """Raise unless a result of this shape and dtype can be written to `out`."""

    def library_product(self, a: Any, b: Any, out: Any, dtype: Any, options: Options) -> Any:
        """Return the library's own ``matmul(a, b, dtype)`` if falcon cannot multiply the operands.

        Returns NotImplemented for all others.
        """

    def is_taken_over(self, named: Mapping[str, Any], out: Any, options: Options) -> bool:
        """Whether an operand, or `out`, has the library's other functions run by its own class.

        Raises TypeError: one has, but the options name a scheme or a backend.
        """

    def scalar(self, x: Any) -> Any:
        """Return a 0-d result in the form in which the library returns it."""

    def empty(self, shape: tuple[int, ...], dtype: DType, of: Sequence[Any] = ()) -> Any:
        """Make an array by rows; if the library's result dtype for `of` equals `dtype`, it is used.

        (NumPy has several dtypes of 64-bit integers.)
        """

    def problem(
        self,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        operand: DType,
        result: DType,
        options: Options,
        *,
        packed: bool = False,
        symmetric: str = "",
    ) -> Problem:
        """Describe ``out = a @ b + c``.

        `out`: None: it will be made by `empty`.
        `operand`, `result`: the types in which a and b are multiplied, and of the product.
        `packed`: B is packed, and `b` is its source, or its shape if that was not kept.
        `symmetric`: see `Problem`; empty: the family checks whether `b` is the transpose of `a`.
        """

    def operand(self, x: Any) -> Any:
        """Return a matrix in the form that backends of the family take."""

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        """Write ``beta c`` to `out`, or zeros if `c` is None."""

    def copy(self, x: Any, out: Any, casting: Any = "same_kind") -> None:
        """Write `x` to `out`, which may have another dtype."""

    def overlap(self, x: Any, y: Any) -> bool:
        """Whether the arrays may share memory."""

    def same_memory(self, x: Any, y: Any) -> bool:
        """Whether arrays of one shape have the same entries at the same addresses, if known."""

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        """Return a view with the axes in that order."""

    def strides(self, x: Any) -> tuple[int, ...]:
        """Return the distance in memory of neighbours along each axis, in any unit."""

    def einsum_operands(
        self, named: dict[str, Any], out: Any, dtype: Any, casting: Any
    ) -> tuple[list[Any], Any]:
        """Return arrays, and the dtype of their sum of products; None: it is that of all of them.

        Raises TypeError: one of them, or of `out`, cannot be cast by `casting`, or is no array.
        """

    def einsum(self, text: str, arrays: Sequence[Any], dtype: Any) -> Any:
        """Call the library's own einsum; `dtype` as `einsum_operands` returns it."""

    def folded(self, x: Any) -> Any:
        """Return a view of a batch of matrices as one matrix with all rows; None: there is none."""

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with that shape."""

    def in_one_call(
        self, a: Any, b: Any, out: Any, types: tuple[DType, DType], options: Options, plan: Any
    ) -> Plan | str:
        """Multiply a batch by one call of the library, if falcon would use it for each matrix.

        Returns what did: "np.matmul" for arrays as they stand, or the plan of one matrix, which are
        then remembered, or another word; "" if nothing did. `a` and `b` are broadcast to the batch
        of `out`; `types` are those of `Product`; `plan` is that of one of the matrices, None for
        vectors.
        """


def family_of(**operands: Any) -> Family:
    """Return the family of the operands, without those that are None.

    Raises TypeError, ValueError: the operands belong to several libraries or devices.
    """
    arrays: dict[str, Any] = {}
    on_gpu = False
    for name, x in operands.items():
        if x is None:
            continue
        arrays[name] = x.source if isinstance(x, PackedOperand) else x
        on_gpu = on_gpu or (name not in ("c", "out") and is_on_gpu(x))
    if not on_gpu:
        return NUMPY
    for name, x in operands.items():
        if isinstance(x, PackedOperand) and x.backend != DEVICE:
            raise ValueError(f"{name} was packed for backend {x.backend!r}, but a is in GPU memory")
    from .device import device_family  # imported when first needed: 30 ms

    return device_family(arrays)
