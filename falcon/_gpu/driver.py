"""Execution: the stages of one multiplication, started one after another in the current stream.

::

    powers along K            B     -> powers of two      units.cu; for "auto" and parts, as these:
    powers of lines           A, B  -> powers of two      norms.cu, powers.cu
    means                     A, B  -> m, S; m S -> C     means.cu, a product; for centred parts
    for each chunk of rows, columns:                      (one chunk without a workspace limit)
        for each chunk of the inner dimension:
            Combine A, Combine B    A, B  -> At, Bt       lines times their powers, once each; A - m
            products                At, Bt -> H           of each chain length: cuBLAS, or fused.cu
        Combine H                   H     -> C            undoes the powers, applies alpha and beta
        repair                                            ends at once unless a region has a flag

The host never waits for the device. See docs/gpu.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from falcon._core.dtypes import FLOAT32
from falcon._core.matrix import Matrix
from falcon._core.plan import Plan
from falcon.codegen.cuda_plan import products

from . import cublas, fused, kernels, repaired
from .geometry import UNIT, flag_bytes, round_up, segments
from .layout import Buffers, Span
from .matrix import Operand
from .operands import Operands, make_copies
from .packed import Packed, Sums
from .steps import Fill, Step


def steps_of(
    plan: Plan,
    operands: Operands,
    packed: Packed | None,
    pointer: int,
    *,
    alpha: float,
    beta: float,
) -> list[Step]:
    """Return all steps of ``alpha a b + beta c``.

    `packed`: the sums of B, if that is packed for a scheme.
    `pointer`: address of the workspace, of ``plan.method.layout.nbytes``.
    """
    places = plan.method.layout.buffers.placed(pointer)
    factors: dict[str, Any] = {"alpha": alpha, "beta": 0.0 if operands[2] is None else beta}
    copied, copies = make_copies(operands, plan.problem.operand.left, places)
    steps: list[Step] = [*copies]
    if plan.method.layout.scheme is None:
        a, b, c, out = copied
        left, right = Operand.of(a), Operand.of(b)
        how = {"operand": plan.operand, "symmetric": bool(plan.problem.symmetric), **factors}
        steps += _product(a.shape[1], left, right, c, out, **how)
    else:
        stages = _Stages(plan, copied, packed, places, factors)
        if plan.guarded or plan.method.splits > 1:
            stages.find_powers()
        if plan.method.layout.centred:
            stages.multiply_means()
        stages.multiply()
        steps += stages.steps
    if plan.problem.symmetric:
        steps.append(kernels.mirror(copied[3]))
    if copied[3] is not operands[3]:
        steps.append(kernels.copy(copied[3], operands[3]))
    return steps


def _product(
    inner: int,
    a: Operand,
    b: Operand,
    c: Matrix | None,
    out: Matrix,
    symmetric: bool,
    **how: Any,
) -> list[Step]:
    """Write ``alpha a b + beta c`` to `out`: cuBLAS adds to what is there."""
    copies = [] if c is None or c.is_same(out) else [kernels.copy(c, out)]
    (M, N), to = out.shape, Operand.of(out)
    if symmetric:
        return [*copies, *cublas.of_triangle(M, inner, a, b, to, **how)]
    return [*copies, *cublas.products(M, N, inner, a, b, to, **how)]


class _Stages:
    """The stages of an LCMA over all chunks; they are collected in `steps`."""

    def __init__(
        self,
        plan: Plan,
        operands: Operands,
        packed: Packed | None,
        places: Buffers,
        factors: dict[str, Any],
    ) -> None:
        self._plan, self._layout, self._places = plan, plan.method.layout, places
        self._a, self._b, self._c, self._out = operands
        self._packed, self._factors = packed, factors
        self._operand, self._sums = plan.operand, plan.problem.accumulator
        self.steps: list[Step] = []
        # The parts of A and B whose sums At and Bt hold.
        self._held: tuple[kernels.Part | None, kernels.Part | None] = (None, None)
        # Addresses of the powers of A's rows and B's columns; 0: all are 1.
        self._powers_a, self._powers_b = 0, 0 if packed is None else packed.powers.pointer
        self._segments = places.segments if packed is None else packed.segments.pointer
        # Address of the powers along K; 0: all are 1.
        self._steps_of_inner = 0 if packed is None else packed.steps.pointer

    def find_powers(self) -> None:
        """Find powers of two for lines; those of a packed B are known.

        The norms use the memory of At, Bt and H.
        """
        places, (M, N, _), scheme = self._places, self._layout.block, self._layout.scheme
        equilibrate, fit = self._plan.guarded, kernels.exponent_of_norms(scheme, self._operand)
        if places.steps:
            self._steps_of_inner = places.steps
            self.steps.append(kernels.units(self._b, places.steps))
        even, behind = self._steps_of_inner, round_up(self._a.shape[1], UNIT)
        lines = []
        if fit or scheme.m > 1:
            self._powers_a = places.powers_a
            lines.append(kernels.Lines(self._a, M, self._powers_a, places.means, even))
        if self._packed is None and (fit or scheme.n > 1):
            self._powers_b = places.powers_b
            b = self._b.transposed()
            lines.append(kernels.Lines(b, N, self._powers_b, places.segments, even, behind))
        if lines:
            room, columns = places.flags - places.at, self._powers_b * self._layout.centred
            self.steps += kernels.powers(lines, places.at, room, equilibrate, fit, columns)

    def multiply_means(self) -> None:
        """Write the product of A's means and the sums of B's segments, and c, to the result."""
        (M, N), K = self._out.shape, self._a.shape[1]
        means = Operand(self._places.means, round_up(M, UNIT), True, 0, FLOAT32)
        sums = Operand(self._segments, round_up(N, UNIT), False, 0, FLOAT32)
        how: dict[str, Any] = {"operand": FLOAT32, "stage": "means", **self._factors}
        how["symmetric"] = bool(self._plan.problem.symmetric)
        self.steps += _product(segments(K), means, sums, self._c, self._out, **how)

    def multiply(self) -> None:
        """Go over all chunks."""
        rows, columns, inner = self._layout.chunks
        for row in rows:
            for column in columns:
                if self._plan.problem.symmetric and column[0] >= sum(row):
                    continue  # the mirror of others
                for part in inner:
                    self._multiply_chunk(row, column, part)
                self._finish(row, column)

    def _multiply_chunk(self, row: Span, column: Span, part: Span) -> None:
        a, b = self._combine(row, column, part)
        rows, columns, by_columns = row[1], column[1], self._out.by_columns
        p = self._plan.problem
        plane, ld = rows * columns, rows if by_columns else columns
        is_triangle = bool(p.symmetric) and row == column
        if is_triangle and part[0] == 0:  # what is above the tiles stays finite
            self.steps.append(Fill("combine H", (self._places.h, plane * self._sums.itemsize)))
        for group in products(self._layout.scheme).groups:
            at = self._places.h + group.plane * plane * self._sums.itemsize
            out = Operand(at, ld, by_columns, plane, self._sums)
            operands = a.of_group(group), b.of_group(group), out
            inner = group.length * part[1]
            how: dict[str, Any] = {"beta": float(part[0] > 0)}
            if self._layout.fused:
                how |= {"batch": group.count, "triangle": is_triangle}
                self.steps.append(fused.product(rows, columns, inner, *operands, **how))
                continue
            how["operand"] = self._operand
            how["piece"] = cublas.longest(inner, p.device or 0, p.short_sums)
            if is_triangle:
                self.steps += cublas.of_triangle(rows, inner, *operands, **how)
            else:
                how["batch"] = group.count
                self.steps += cublas.products(rows, columns, inner, *operands, **how)

    def _combine(self, row: Span, column: Span, part: Span) -> tuple[Sums, Sums]:
        """Form the sums of a part of A and of B, unless the buffers still hold them."""
        (M, N, K), places, operand = self._layout.block, self._places, self._operand
        a = Sums(places.at, row[1], part[1], self._a.by_columns, False, operand)
        powers, even = (self._powers_a, self._powers_b), self._steps_of_inner
        of_a = kernels.Part(self._a, (M, K), row, part, a, powers[0], places.means, even)
        if self._packed is None:
            b = Sums(places.bt, column[1], part[1], self._b.by_columns, True, operand)
            of_b = kernels.Part(self._b, (K, N), part, column, b, powers[1], steps=even)
        else:
            b, of_b = replace(self._packed.sums, first=column[0]), None
        needed = [None if x == y else x for x, y in zip((of_a, of_b), self._held, strict=True)]
        if any(needed):
            what = self._layout.scheme, operand, *needed, self._layout.centred
            self.steps.append(kernels.combine(*what))
        self._held = of_a, of_b
        return a, b

    def _finish(self, row: Span, column: Span) -> None:
        """Combine H to a part of C, and repair it."""
        plan, by_parts = self._plan, self._operand.splits > 1
        # Parts of Inf, and of what rounds to it, are NaN.
        flags = self._places.flags if plan.options.check != "none" or by_parts else 0
        if flags:  # behind the count of repaired regions, of all chunks
            kept = 4 * bool(row[0] or column[0])
            cleared = flags + kept, flag_bytes(row[1], column[1]) - kept
            self.steps.append(Fill("combine H", cleared))
            flags += 4
        to = kernels.Part(self._out, self._layout.block[:2], row, column)
        what = self._layout.scheme, self._sums, to, self._c
        powers = self._powers_a, self._powers_b
        update = kernels.Update(*what, flags=flags, powers=powers, **self._factors)
        # The means, and c, are in the result already.
        added = replace(update, c=self._out, beta=1.0) if self._layout.centred else update
        self.steps.append(kernels.combine_out(added, self._places.h))
        if flags:
            flag = repaired.flag_of(plan)
            count = 0 if flag is None else flag.pointer
            self.steps.append(kernels.repair(update, self._a, self._b, count))
