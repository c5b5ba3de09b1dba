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

from falcon._core.plan import Plan
from falcon.codegen.cuda_emit import FACTORS
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme

from . import cublas, kernels, repaired, workspaces
from .arrays import library_of
from .geometry import Offsets, block_sizes, mark_bytes, spans
from .matrix import Matrix, Memory, Operand
from .operands import Call, local_chunk, same
from .packed import Packed
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
    """
    call = Call.of(plan, a, b, c, out, packed)
    library = library_of(a.owner)
    at = workspaces.allocate(library, call.nbytes)
    steps = steps_of(call, at, alpha=alpha, beta=beta)
    run(*steps, workspace=workspaces.for_cublas(library))


def steps_of(call: Call, memory: Memory, *, alpha: float, beta: float) -> list[Step]:
    """Return all steps of a call, with `memory` as its workspace."""
    plan = call.plan
    (a, b, c, target), copies = call.settle(memory.pointer)
    steps: list[Step] = [*copies]
    if plan.scheme is None:
        steps += _classical(plan, a, b, c, target, alpha, beta)
    else:
        stages = _Stages(plan, plan.scheme, a, b, target, call.packed, call.place(memory))
        if plan.guarded:
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
        sums=problem.accumulator,
        tf32=problem.tf32,
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
        self._dtype, self._sums = problem.operand, problem.accumulator
        self._block = block_sizes(problem.M, problem.N, problem.K, scheme, self._dtype.itemsize)
        self.steps: list[Step] = []
        self._held: dict[str, tuple] = {}
        # Addresses of the powers of A's rows and B's columns.
        powers = None if packed is None else packed.powers
        self._powers = {"u": 0, "v": 0 if powers is None else powers.pointer}

    def even_out(self) -> None:
        """Find powers of two for lines that the scheme adds up; those of a packed B are known.

        The norms use the memory of At, Bt and H.
        """
        parts = self._scheme.m, 1 if self._packed is not None else self._scheme.n
        for factor, x, block, count, scale in zip(
            FACTORS, (self._a, self._b.transposed()), self._block, parts, self._scales, strict=False
        ):
            if count > 1:
                scratch = self._at, self._marks - self._at
                self.steps += kernels.scales(x, block, *scratch, scale)
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
        scale = self._powers[factor]
        step = kernels.combine_in(self._scheme, factor, source, target, block, start, part, scale)
        self.steps.append(step)

    def _products(
        self, row: tuple[int, int], column: tuple[int, int], part: tuple[int, int]
    ) -> None:
        item, sum_item = self._dtype.itemsize, self._sums.itemsize
        (_, rows), (first_column, columns), (first_inner, inner) = row, column, part
        by_columns, a_columns = self._out.by_columns, self._a.by_columns
        for group in products(self._scheme).groups:
            long = group.length * inner
            plane = rows * inner
            a = Operand(
                self._at + group.block * plane * item,
                rows if a_columns else long,
                a_columns,
                group.length * plane,
                self._dtype,
            )
            if self._packed is not None:
                b = self._packed.group(group, first_column)
            else:
                plane = inner * columns
                b = Operand(
                    self._bt + group.block * plane * item,
                    long if self._b.by_columns else columns,
                    self._b.by_columns,
                    group.length * plane,
                    self._dtype,
                )
            h = Operand(
                self._h + group.plane * rows * columns * sum_item,
                rows if by_columns else columns,
                by_columns,
                rows * columns,
                self._sums,
            )
            product = cublas.product(
                rows,
                columns,
                long,
                a,
                b,
                h,
                beta=float(first_inner > 0),
                batch=group.count,
                sums=self._sums,
                tf32=self._plan.problem.tf32,
            )
            self.steps.append(product)

    def _finish(
        self,
        row: tuple[int, int],
        column: tuple[int, int],
        c: Matrix | None,
        alpha: float,
        beta: float,
    ) -> None:
        marks = 0 if self._plan.options.check == "none" else self._marks
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
            told = repaired.word(self._plan.problem) if self._plan.guarded else 0
            self.steps.append(kernels.repair(update, self._a, self._b, told))
