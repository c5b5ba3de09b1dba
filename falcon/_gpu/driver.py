"""Execution: the stages of one multiplication, started one after another in the current stream.

::

    even out norms            A, B  -> powers of two      norms.cu, scales.cu; only for "auto"
    for each chunk of rows, columns:                      (one chunk without a workspace limit)
        for each chunk of the inner dimension:
            Combine A, Combine B    A, B  -> At, Bt       lines times their powers, once each
            products                At, Bt -> H           a strided-batched call per chain length
        Combine H                   H     -> C            undoes the powers, applies alpha and beta
        repair                                            ends at once unless a region is marked

The host never waits for the device. See docs/gpu.md.
"""

from __future__ import annotations

from functools import partial

from falcon._core.plan import Plan
from falcon.codegen.cuda_emit import FACTORS
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme

from . import cublas, kernels, repaired, workspaces
from .arrays import library_of
from .geometry import Offsets, block_sizes, mark_bytes, spans, staged
from .matrix import Matrix, Memory, Operand
from .operands import Call, local_chunk, same
from .packed import Packed, of_group
from .steps import Fill, Step, run


def execute(
    plan: Plan,
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    packed: Packed | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """Write ``alpha a b + beta c`` to `out`, on the current device and stream.

    Parameters
    ----------
    plan : Plan
    a, b, out : Matrix
        Of any strides and floating dtype; an `out` that overlaps one of them is written by way of
        a copy.
    c : Matrix, optional
    packed : Packed, optional
        The sums of `b`.

    Raises
    ------
    MemoryError
        The workspace cannot be had; nothing was started.
    """
    call = Call.of(plan, a, b, c, out, packed)
    library = library_of(a.owner)
    allocate = partial(workspaces.allocate, library)
    at = workspaces.attempt(allocate, call.nbytes) if plan.guarded else allocate(call.nbytes)
    steps = steps_of(call, at, alpha=alpha, beta=beta)
    run(*steps, workspace=workspaces.for_cublas(library))


def steps_of(call: Call, memory: Memory, *, alpha: float, beta: float) -> list[Step]:
    """Return all steps of a call, with `memory` as its workspace."""
    plan = call.plan
    (a, b, c, target), copies = call.settle(memory.pointer)
    steps: list[Step] = [*copies]
    scheme = staged(plan.problem.operand, plan.scheme)
    if scheme is None:
        steps += _classical(plan, a, b, c, target, alpha, beta)
    else:
        stages = _Stages(plan, scheme, a, b, target, call.packed, call.place(memory))
        if plan.guarded or plan.problem.operand.parts > 1:
            stages.even_out()
        stages.multiply(c, alpha, beta)
        steps += stages.steps
    out = call.operands[3]
    if target is not out:
        steps.append(kernels.copy(target, out))
    return steps


def _classical(
    plan: Plan, a: Matrix, b: Matrix, c: Matrix | None, out: Matrix, alpha: float, beta: float
) -> list[Step]:
    problem = plan.problem
    product = cublas.product(
        problem.M,
        problem.N,
        problem.K,
        Operand.of(a),
        Operand.of(b),
        Operand.of(out),
        alpha=alpha,
        beta=0.0 if c is None else beta,
        operand=problem.operand,
    )
    if c is None or same(c, out):
        return [product]
    return [kernels.copy(c, out), product]


class _Stages:
    """The stages of an LCMA over all chunks; they are collected in `steps`."""

    def __init__(
        self,
        plan: Plan,
        scheme: Scheme,
        a: Matrix,
        b: Matrix,
        out: Matrix,
        packed: Packed | None,
        places: Offsets,
    ) -> None:
        problem = plan.problem
        self._plan, self._scheme, self._packed = plan, scheme, packed
        self._a, self._b, self._out = a, b, out
        self._at, self._bt, self._h, self._marks, *self._scales = places
        self._operand, self._sums = problem.operand, problem.accumulator
        self._block = block_sizes(problem.M, problem.N, problem.K, scheme)
        self.steps: list[Step] = []
        self._held: dict[str, tuple] = {}
        # Addresses of the powers of A's rows and B's columns.
        powers = None if packed is None else packed.powers
        self._powers = {"u": 0, "v": 0 if powers is None else powers.pointer}

    def even_out(self) -> None:
        """Find powers of two for lines; those of a packed B are known.

        The norms use the memory of At, Bt and H.
        """
        even, lift = self._plan.guarded, self._operand.parts > 1
        for factor, x, block, count, scale in zip(
            FACTORS,
            (self._a, self._b.transposed()),
            self._block,
            (self._scheme.m, self._scheme.n),
            self._scales,
            strict=False,
        ):
            known = factor == "v" and self._packed is not None
            if not known and (lift or count > 1):
                scratch = self._at, self._marks - self._at
                self.steps += kernels.scales(x, block, *scratch, scale, even, lift)
                self._powers[factor] = scale

    def multiply(self, c: Matrix | None, alpha: float, beta: float) -> None:
        """Go over all chunks."""
        chunk = local_chunk(self._plan)
        rows, columns, inner = (
            spans(size, part) for size, part in zip(self._block, chunk, strict=True)
        )
        for row in rows:
            for column in columns:
                for part in inner:
                    self._combine("u", row, part)
                    if self._packed is None:
                        self._combine("v", part, column)
                    self._products(row, column, part)
                self._finish(row, column, c, alpha, beta)

    def _combine(self, factor: str, first: tuple[int, int], second: tuple[int, int]) -> None:
        """Form the sums of a part of A or B, unless the buffer still holds them."""
        if self._held.get(factor) == (first, second):
            return
        self._held[factor] = (first, second)
        M, N, K = self._block
        source, target, block = (
            (self._a, self._at, (M, K)) if factor == "u" else (self._b, self._bt, (K, N))
        )
        start, part = (first[0], second[0]), (first[1], second[1])
        how = self._scheme, factor, self._operand
        scale = self._powers[factor]
        self.steps.append(kernels.combine_in(*how, source, target, block, start, part, scale))

    def _products(
        self, row: tuple[int, int], column: tuple[int, int], part: tuple[int, int]
    ) -> None:
        (_, rows), (first_column, columns), (first_inner, inner) = row, column, part
        by_columns, a_columns, kind = self._out.by_columns, self._a.by_columns, self._operand
        for group in products(self._scheme).groups:
            a = of_group(self._at, group, rows, inner, not a_columns, a_columns, kind)
            if self._packed is not None:
                b = self._packed.group(group, first_column)
            else:
                along = self._b.by_columns
                b = of_group(self._bt, group, columns, inner, along, along, kind)
            h = Operand(
                self._h + group.plane * rows * columns * self._sums.itemsize,
                rows if by_columns else columns,
                by_columns,
                rows * columns,
                self._sums,
            )
            sizes, beta = (rows, columns, group.length * inner), float(first_inner > 0)
            self.steps += cublas.products(
                *sizes, a, b, h, beta=beta, batch=group.count, operand=kind
            )

    def _finish(
        self,
        row: tuple[int, int],
        column: tuple[int, int],
        c: Matrix | None,
        alpha: float,
        beta: float,
    ) -> None:
        # Parts of Inf, and of what rounds to it, are NaN.
        unmarked = self._plan.options.check == "none" and self._operand.parts == 1
        marks = 0 if unmarked else self._marks
        if marks:
            self.steps.append(Fill("repair", marks, 0, mark_bytes(row[1], column[1])))
        update = kernels.Update(
            self._scheme,
            self._sums,
            self._out,
            c,
            self._block[:2],
            (row[0], column[0]),
            (row[1], column[1]),
            alpha,
            0.0 if c is None else beta,
            marks,
            (self._powers["u"], self._powers["v"]),
        )
        self.steps.append(kernels.combine_out(update, self._h))
        if marks:
            forgiven = not self._plan.guarded and self._operand.parts == 1
            told = 0 if forgiven else repaired.word(self._plan.problem)
            self.steps.append(kernels.repair(update, self._a, self._b, told))
