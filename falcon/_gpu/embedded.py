"""The steps of a product of complex matrices: copies, and those of a real one (`_core.reals`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

from falcon._core.dtypes import DType
from falcon._core.matrix import Matrix, dense
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.reals import as_reals, copies, turned

from . import driver, kernels, workspaces
from .arrays import Library, library_of
from .matrix import Memory, Operand
from .operands import Operands
from .packed import Packed
from .steps import Launch, Step, run


def turn(b: Matrix, kind: DType, pointer: int, factor: complex = 1.0) -> Launch:
    """Write B' of a matrix, or of several below one another, times a factor."""
    N = b.shape[1]
    target = Matrix(pointer, b.shape, (2 * N, 1), kind)
    return kernels.copy(b, target, factor, turned=N)


def turned_of(b: Matrix, kind: DType) -> Matrix:
    """Return B' in new memory."""
    made = turned(b.shape, kind, 0)
    nbytes = made.shape[0] * made.shape[1] * made.itemsize
    memory = workspaces.allocate(library_of(b.owner), nbytes)
    if nbytes:
        run(turn(b, kind, memory.pointer))
    return replace(made, pointer=memory.pointer, owner=memory.owner if nbytes else b.owner)


def real_of(plan: Plan) -> Plan | None:
    """Return the plan by which complex matrices are multiplied as real ones; None: they are not."""
    return None if plan.method.layout.operand.is_complex else plan.reals


def nbytes_of(plan: Plan, alpha: complex, beta: complex) -> int:
    """Return the bytes of the workspace.

    Raises ValueError: by a complex factor a copy is multiplied for which the limit has no room.
    """
    needed: int = plan.method.layout.nbytes + sum(copies(plan.problem, alpha, beta))
    limit = plan.options.workspace_limit
    if limit is not None and needed > limit:
        raise ValueError(f"workspace_limit is {limit} bytes; complex factors take {needed}")
    return needed


def steps_of(
    plan: Plan, operands: Operands, packed: Packed | None, at: int, alpha: complex, beta: complex
) -> list[Step]:
    """Return all steps of ``alpha a b + beta c``; parameters as of `driver.steps_of`.

    A packed b is B' already.
    """
    a, b, c, out = operands
    kind, of_b = plan.problem.operand, not plan.problem.packed
    sizes = copies(plan.problem, alpha, 0.0 if c is None else beta)
    *places, end = accumulate(sizes, initial=at)
    steps: list[Step] = []

    def copied(x: Matrix, which: int, factor: complex) -> Matrix:
        if not sizes[which]:
            return x
        target = dense(places[which], x.shape, kind)
        steps.append(kernels.copy(x, target, factor if factor.imag else 1.0))
        return target

    if of_b:
        steps.append(turn(b, kind, places[1], alpha if alpha.imag else 1.0))
        b = turned(b.shape, kind, places[1])
    a = copied(a, 0, 1.0 if of_b else alpha)
    c = None if c is None else as_reals(copied(c, 2, beta))
    target = dense(places[3], out.shape, kind) if sizes[3] else out
    left = (1.0 if x.imag else x.real for x in (alpha, beta))  # of the factors
    how, real = zip(("alpha", "beta"), left, strict=True), (as_reals(a), b, c, as_reals(target))
    of_reals: Any = real_of(plan)
    steps += driver.steps_of(of_reals, real, packed, end, **dict(how))
    if target is not out:
        steps.append(kernels.copy(target, out))
    return steps


def takes_batch(p: Problem, a: Operand, b: Operand, out: Operand) -> bool:
    """Whether `reals_of_batch` does: all are by rows, those of b below one another, or the same."""
    by_rows = not (a.by_columns or b.by_columns or out.by_columns)
    return by_rows and b.step in (0, p.K * b.ld) and a.dtype is p.operand


def reals_of_batch(
    p: Problem, library: Library, factor: complex, a: Operand, b: Operand, out: Operand
) -> tuple[Launch, Memory, Operand, Operand, Operand]:
    """View batches as real matrices; also what writes B', times a factor, and its new memory."""
    rows: int = p.K * (p.count if b.step else 1)
    part: Any = p.operand.part
    memory = workspaces.allocate(library, 4 * rows * p.N * part.itemsize)
    source = Matrix(b.pointer, (rows, p.N), (b.ld, 1), p.operand)
    right = Operand(memory.pointer, 2 * p.N, False, 4 * p.K * p.N * bool(b.step), part)
    left, to = (replace(x, ld=2 * x.ld, step=2 * x.step, dtype=part) for x in (a, out))
    return turn(source, p.operand, memory.pointer, factor), memory, left, right, to
