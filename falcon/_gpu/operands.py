"""The operands of a call, of any strides, and the copies that some need."""

from __future__ import annotations

from falcon._core.dtypes import DType
from falcon._core.matrix import Matrix, dense

from . import kernels, workspaces
from .arrays import library_of
from .layout import Buffers
from .steps import Launch, run

Operands = tuple[Matrix, Matrix, Matrix | None, Matrix]  # A, B, C and the result


def make_copies(operands: Operands, dtype: DType, places: Buffers) -> tuple[Operands, list[Launch]]:
    """Return operands that the kernels can take, and the copies that this needs.

    `places`: addresses of the copies; 0: none is needed.
    """
    a, b, c, out = operands
    steps = []

    def copied(x: Matrix, target: Matrix) -> Matrix:
        steps.append(kernels.copy(x, target))
        return target

    if places.out:
        out = dense(places.out, out.shape, dtype)
    if places.a:
        a = copied(a, dense(places.a, a.shape, dtype))
    if places.b:
        b = copied(b, dense(places.b, b.shape, dtype))
    if c is not None and places.c:
        like = dense(places.c, out.shape, out.dtype)
        if out.by_columns:
            like = dense(places.c, out.shape[::-1], out.dtype).transposed()
        c = copied(c, like)
    return (a, b, c, out), steps


def duplicate(x: Matrix, dtype: DType | None = None) -> Matrix:
    """Copy a matrix to new memory, where it is by rows; `dtype`: another one than its own."""
    dtype = dtype or x.dtype
    memory = workspaces.allocate(library_of(x.owner), x.shape[0] * x.shape[1] * dtype.itemsize)
    target = dense(memory.pointer, x.shape, dtype, memory.owner)
    run(kernels.copy(x, target))
    return target
