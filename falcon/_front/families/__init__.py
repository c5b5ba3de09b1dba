"""Array families: whose arrays are these, and what the front must know of them.

::

    numpy.py         NumPy arrays, and whatever converts to them
    torch_host.py    torch tensors in host memory
    device.py        CuPy arrays and torch tensors in GPU memory

To add an array library: a class that fulfils `Family`, and a line in `family_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from falcon._backends import DEVICE
from falcon._core.dtypes import DType
from falcon._core.options import Options
from falcon._core.packed import PackedOperand
from falcon._core.problem import Problem
from falcon._gpu.where import is_on_gpu

from .numpy import NUMPY
from .torch_host import TORCH, is_tensor


class Family(Protocol):
    """What the front asks of a family; `x` is always an array (or what converts to one)."""

    # Names of backends that mean the library's own product, or none in particular.
    own: tuple[str, ...]

    # Whether a packed operand may do without B itself.
    source_is_optional: bool

    def requested(self, options: Options) -> Options:
        """Return the options as they are meant here; raises where one cannot be served."""

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which arrays are made and multiplied: device, stream."""

    def array(self, name: str, x: Any) -> Any:
        """Return an operand as an array of the family.

        Raises
        ------
        TypeError
            It is none, would lose something, or is not numeric.
        """

    def dtype(self, arrays: list[Any]) -> DType:
        """Return the type of the arithmetic; raises TypeError where there is none."""

    def held(self, x: Any) -> DType | None:
        """Return the type of an array's or packed operand's elements; None if falcon has none."""

    def named(self, dtype: Any) -> DType:
        """Return the type that a user names; raises TypeError where it is not multiplied."""

    def scalars(self, dtype: DType) -> DType:
        """Return the type of alpha and beta."""

    def target(self, out: Any) -> Any:
        """Return the array that a caller's `out` stands for: it shares its memory."""

    def result(self, x: Any) -> Any:
        """Return a new result as the caller's library has it."""

    def check_cast(self, out: Any, dtype: DType) -> None:
        """Raise TypeError unless `out` is an array of the family to which results cast."""

    def check_out(self, out: Any, shape: tuple[int, ...], dtype: DType) -> None:
        """Raise unless a result of this shape and dtype can be written to `out`."""

    def left_alone(self, a: Any, b: Any, out: Any, dtype: Any, options: Options) -> Any:
        """Return the library's own ``matmul(a, b, dtype)`` of what falcon does not multiply.

        NotImplemented for what it does.
        """

    def scalar(self, x: Any) -> Any:
        """Return an array without axes as the library returns it from a product."""

    def empty(self, shape: tuple[int, ...], dtype: DType, of: Sequence[Any] = ()) -> Any:
        """Make an array by rows: of that type, as the library has it for a product of arrays `of`.

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

        Parameters
        ----------
        a, b : array, or (rows, columns) of one by rows
        c : array or None
        out : array or None
            None: it will be made by `empty`.
        operand, result : DType
            As which a and b are multiplied, and of which type the product is.
        packed : bool
            B comes packed, and `b` is its source, or its shape where that was not kept.
        symmetric : str
            See `Problem`; empty: the family looks whether `b` is the transpose of `a`.
        """

    def operand(self, x: Any) -> Any:
        """Return a matrix as backends of the family take it."""

    def scale(self, c: Any, beta: Any, out: Any, dtype: DType) -> None:
        """Write ``beta c`` to `out`, zeros where `c` is None."""

    def copy(self, x: Any, out: Any) -> None:
        """Write `x` to `out`, of another dtype maybe."""

    def overlap(self, x: Any, y: Any) -> bool:
        """Whether the arrays may share memory."""

    def expanded(self, x: Any, axes: tuple[int, ...]) -> Any:
        """Return a view with axes of size 1 at these places (negative numbers)."""

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with that shape."""

    def in_one_call(
        self, a: Any, b: Any, out: Any, types: tuple[DType, DType], options: Options, plan: Any
    ) -> bool:
        """Multiply a whole batch at once, where that is what falcon would do matrix by matrix.

        `a` and `b` are broadcast to the batch of `out`; `types` are those of `Product`; `plan` is
        that of one of its matrices, None for vectors.
        """


def family_of(**operands: Any) -> Family:
    """Return the family of the operands that are given; None stands for none.

    Raises
    ------
    TypeError, ValueError
        They are of several families, libraries or devices.
    """
    arrays: dict[str, Any] = {}
    on_gpu = False
    for name, x in operands.items():
        if x is None:
            continue
        arrays[name] = x.source if isinstance(x, PackedOperand) else x
        on_gpu = on_gpu or (name in ("a", "b") and is_on_gpu(x))
    if not on_gpu:
        return TORCH if any(map(is_tensor, arrays.values())) else NUMPY
    for name, x in operands.items():
        if isinstance(x, PackedOperand) and x.backend != DEVICE:
            raise ValueError(f"{name} was packed for backend {x.backend!r}, but a is in GPU memory")
    from .device import device_family  # at first need: 30 ms

    return device_family(arrays)
