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
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme

from . import cublas, kernels, repaired
from .geometry import block_sizes, mark_bytes, spans, staged
from .matrix import Matrix, Memory, Operand
from .operands import Call, local_chunk, same
from .packed import of_group
from .steps import Fill, Step


def steps_of(call: Call, memory: Memory, *, alpha: float, beta: float) -> list[Step]:
    """Return all steps of ``alpha a b + beta c``, with `memory` as the workspace of the call."""
    plan = call.plan
    (a, b, c, target), copies = call.settle(memory.pointer)
    beta = 0.0 if c is None else beta
    steps: list[Step] = [*copies]
    scheme = staged(plan.problem.operand, plan.scheme)
    if scheme is None:
        steps += _classical(plan, a, b, c, target, alpha, beta)
    else:
        stages = _Stages(call, scheme, a, b, target, call.place(memory))
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
    p = plan.problem
    left, right, to = (Operand.of(x) for x in (a, b, out))
    copies = [] if c is None or same(c, out) else [kernels.copy(c, out)]
    sizes = p.M, p.N, p.K
    made = cublas.products(*sizes, left, right, to, alpha=alpha, beta=beta, operand=p.operand)
    return [*copies, *made]


Span = tuple[int, int]  # first and number of rows, columns or inner elements of every block


class _Stages:
    """The stages of an LCMA over all chunks; they are collected in `steps`."""

    def __init__(
        self, call: Call, scheme: Scheme, a: Matrix, b: Matrix, out: Matrix, places: list[int]
    ) -> None:
        problem, packed = call.plan.problem, call.packed
        self._plan, self._scheme, self._packed = call.plan, scheme, packed
        self._a, self._b, self._out = a, b, out
        self._at, self._bt, self._h, self._marks, *self._scales, _ = places
        self._operand, self._sums = problem.operand, problem.accumulator
        self._block = block_sizes(problem.M, problem.N, problem.K, scheme)
        self.steps: list[Step] = []
        self._held: dict[str, tuple] = {}
        self._clean = False  # the marks are zero
        # Addresses of the powers of A's rows and B's columns.
        powers = None if packed is None else packed.powers
        self._powers = {"u": 0, "v": 0 if powers is None else powers.pointer}

    def even_out(self) -> None:
        """Find powers of two for lines; those of a packed B are known.

        The norms use the memory of At, Bt and H; marks and powers are zeroed together.
        """
        even, lift = self._plan.guarded, self._operand.parts > 1
        found = []
        if lift or self._scheme.m > 1:
            found.append(kernels.Lines(self._a, self._block[0], self._scales[0]))
            self._powers["u"] = self._scales[0]
        if self._packed is None and (lift or self._scheme.n > 1):
            found.append(kernels.Lines(self._b.transposed(), self._block[1], self._scales[1]))
            self._powers["v"] = self._scales[1]
        if found:
            self.steps.append(Fill("norms", (self._marks, found[-1].scale + 8 - self._marks)))
            self.steps += kernels.scales(found, self._at, self._marks - self._at, even, lift)
            self._clean = True

    def multiply(self, c: Matrix | None, alpha: float, beta: float) -> None:
        """Go over all chunks."""
        chunk = local_chunk(self._plan)
        rows, columns, inner = map(spans, self._block, chunk)
        for row in rows:
            for column in columns:
                for part in inner:
                    self._combine(row, column, part)
                    self._products(row, column, part)
                self._finish(row, column, c, alpha, beta)

    def _combine(self, row: Span, column: Span, part: Span) -> None:
        """Form the sums of a part of A and of B, unless the buffers still hold them."""
        M, N, K = self._block
        made: dict[str, kernels.Part | None] = {}
        for factor, source, target, block, spans_of in (
            ("u", self._a, self._at, (M, K), (row, part)),
            ("v", self._b, self._bt, (K, N), (part, column)),
        ):
            packed = factor == "v" and self._packed is not None
            known = packed or self._held.get(factor) == spans_of
            start, size = zip(*spans_of, strict=True)
            what = source, block, start, size, target, self._powers[factor]
            made[factor] = None if known else kernels.Part(*what)
            self._held[factor] = spans_of
        if any(made.values()):
            self.steps.append(kernels.combine(self._scheme, self._operand, *made.values()))

    def _products(self, row: Span, column: Span, part: Span) -> None:
        (_, rows), (first_column, columns), (first_inner, inner) = row, column, part
        by_columns, a_columns, kind = self._out.by_columns, self._a.by_columns, self._operand
        for group in products(self._scheme).groups:
            a = of_group(self._at, group, rows, inner, not a_columns, a_columns, kind)
            if self._packed is not None:
                b = self._packed.group(group, first_column)
            else:
                along = self._b.by_columns
                b = of_group(self._bt, group, columns, inner, along, along, kind)
            plane, ld = rows * columns, rows if by_columns else columns
            at = self._h + group.plane * plane * self._sums.itemsize
            h = Operand(at, ld, by_columns, plane, self._sums)
            sizes, beta = (rows, columns, group.length * inner), float(first_inner > 0)
            how = {"batch": group.count, "operand": kind}
            self.steps += cublas.products(*sizes, a, b, h, beta=beta, **how)  # type: ignore[arg-type]

    def _finish(self, row: Span, column: Span, c: Matrix | None, alpha: float, beta: float) -> None:
        # Parts of Inf, and of what rounds to it, are NaN.
        unmarked = self._plan.options.check == "none" and self._operand.parts == 1
        marks = 0 if unmarked else self._marks
        if marks and not self._clean:
            self.steps.append(Fill("repair", (marks, mark_bytes(row[1], column[1]))))
        start, part = zip(row, column, strict=True)
        to = kernels.Part(self._out, self._block[:2], start, part)
        what = self._scheme, self._sums, to, c
        powers = self._powers["u"], self._powers["v"]
        update = kernels.Update(*what, alpha, beta, marks, powers)
        self.steps.append(kernels.combine_out(update, self._h))
        if marks:
            forgiven = not self._plan.guarded and self._operand.parts == 1
            told = 0 if forgiven else repaired.word(self._plan.problem)
            self.steps.append(kernels.repair(update, self._a, self._b, told))
        self._clean = False
