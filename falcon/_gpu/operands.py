"""The operands of a call, of any strides, and the copies that some need."""

from __future__ import annotations

from dataclasses import replace

from falcon._core.dtypes import DType
from falcon._core.problem import Problem

from . import kernels, workspaces
from .arrays import library_of
from .layout import Buffers
from .matrix import Matrix, dense
from .steps import Launch, run

Operands = tuple[Matrix, Matrix, Matrix | None, Matrix]  # A, B, C and the result


def is_readable(x: Matrix, dtype: DType) -> bool:
    """Whether cuBLAS and the kernels can read the matrix without a copy."""
    return x.dtype == dtype and x.is_direct


def copies(
    operand: DType, a: Matrix | None, b: Matrix | None, c: Matrix | None, out: Matrix
) -> tuple[bool, bool, bool, bool]:
    """Return which of A, B, C and the result need a copy; of one that is None, none is needed.

    If the result overwrote c, it could not be added again where a region has to be repaired.
    """
    dtype = operand.left
    of_a, of_b = (x is not None and not is_readable(x, dtype) for x in (a, b))
    product = not out.is_direct or out.dtype not in (dtype, dtype.accumulator)
    product = product or any(x is not None and out.overlaps(x) for x in (a, b))
    if c is None:
        return of_a, of_b, False, product
    overlaps = c.overlaps(out)
    product = product or (overlaps and not same(c, out))
    alike = c.dtype == out.dtype and c.is_direct and c.by_columns == out.by_columns
    return of_a, of_b, product or overlaps or not alike, product


def problem_of(problem: Problem, a: Matrix, b: Matrix, out: Matrix) -> Problem:
    """Return the problem for these operands, whose strides may be others than were planned."""
    of_a, of_b, _, product = copies(problem.operand, a, b, None, out)
    return replace(problem, a_direct=not of_a, b_direct=not of_b, out_direct=not product)


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


def same(x: Matrix, y: Matrix) -> bool:
    """Whether the two are one matrix in memory."""
    return (x.pointer, x.strides, x.dtype) == (y.pointer, y.strides, y.dtype)


def duplicate(x: Matrix, dtype: DType | None = None) -> Matrix:
    """Copy a matrix to new memory, where it is by rows; `dtype`: another one than its own."""
    dtype = dtype or x.dtype
    memory = workspaces.allocate(library_of(x.owner), x.shape[0] * x.shape[1] * dtype.itemsize)
    target = dense(memory.pointer, x.shape, dtype, memory.owner)
    run(kernels.copy(x, target))
    return target
