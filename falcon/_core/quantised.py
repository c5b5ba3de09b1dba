"""`Quantised`: floats as 8-bit integers, the coarsest rung of an error that is named (`ladder.py`).

::

    rows of A, columns of B:  s x integers of at most 127, s = largest magnitude / 127
    C = s_i t_j (a product of integers, exact in 32 bits)

Every element is off by up to s / 2, in the RMS by ``s / sqrt(12)`` whatever it is multiplied by. So
the RMS error of c_ij over the norms is ``sqrt((s_i / norm(a_i))^2 + (t_j / norm(b_j))^2) /
sqrt(12)``, and the promise is seven times that. What rounding took from a line of few different
values may be parallel to it, or to ones; where either is more than chance makes it, it is added.
All of that is measured in each call, while integers are formed. A product that may err by more is
made by the next rung.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from .bound import norms
from .rewrite import Rewrite
from .runner import Runner
from .sampled import Lines, SampledRunner, most_error

LARGEST = 127  # of integers
# The largest of 10^7 normal errors is 5.3 times their RMS.
_SURE = 7 / sqrt(12)
# Of as many lines as there may be, the largest of normal numbers is so many times their RMS.
_CHANCE = 4.5
# The largest magnitude of normal lines over their RMS; and of any line that keeps all bits.
_TYPICAL, _LEAST = 5.5, 2.0**-90


@dataclass(frozen=True)
class Quantised(Rewrite):
    """A product of integers of 8 bits, by blocks of rows, whose sums stay in caches."""

    def runner(self, plan: Any) -> Runner:
        """Return what makes integers, multiplies and scales them."""
        return QuantisedRunner(plan)

    def fitted(self, plan: Any, problem: Any) -> Any:
        """Return the same: passes over the operands write what the parts multiply."""
        return replace(plan, problem=problem)

    def promised(self, plan: Any, share: float | None = None) -> float:
        """Return the promise; `share`: of scales to norms, squared and added; None: normal data."""
        p = plan.problem
        share = 2 * (_TYPICAL / LARGEST) ** 2 / max(p.K, 1) if share is None else share
        return _SURE * sqrt(share) + 2 * float(p.result.unit_roundoff)

    def most_error(self, plan: Any) -> float:
        """Return the same for lines of which one element is all."""
        return self.promised(plan, 2 / LARGEST**2)

    def error_bound(self, plan: Any, a: np.ndarray, b: np.ndarray, proved: bool) -> np.ndarray:
        """Return the promise by these operands, or what any operands of such scales may err by."""
        sizes = norms(a, 1), norms(b, 0)
        scales = np.abs(a).max(axis=1) / LARGEST, np.abs(b).max(axis=0) / LARGEST
        both = np.multiply.outer(*sizes)
        crossed = np.multiply.outer(scales[0], sizes[1]), np.multiply.outer(sizes[0], scales[1])
        last = 2 * plan.problem.result.unit_roundoff * both
        if not proved:
            found = _SURE * np.hypot(*crossed) + last
            return np.minimum(found, most_error(plan) * both)
        steps = len(b)
        worst = sqrt(steps) / 2 * sum(crossed) + steps / 4 * np.multiply.outer(*scales)
        return np.asarray(worst + last)

    def told(self, plan: Any) -> Iterable[str]:
        """Say how many blocks there are, and what multiplies them."""
        first = plan.parts[0].plan
        blocks = f"{len(plan.parts)} blocks of {first.problem.M} rows"
        yield f"integers   {first.label}{f', {blocks}' if len(plan.parts) > 1 else ''}"


class QuantisedRunner(SampledRunner):
    """What multiplies as integers, compares entries, and makes the product again if it must."""

    def __init__(self, plan: Any) -> None:
        super().__init__(plan, None)
        self._parts = [(x.rows, x.plan.runner) for x in plan.parts]

    def _compares(self) -> bool:
        return True

    def _lines(self, a: Any, b: Any) -> tuple[Lines, Lines]:
        """Make integers of the operands."""
        return self._quantised(a, 0), self._quantised(b.T, 1)

    def _quantised(self, x: Any, axis: int) -> Lines:
        plan, kind = self._plan, self._plan.problem.operand.numpy
        if x.dtype != kind or x.itemsize not in x.strides or not x.flags.aligned:
            x = np.array(x, kind, order="K")
        if x.itemsize not in x.strides:
            x = np.ascontiguousarray(x)
        numbers = np.empty((4, len(x)))
        by_lines = x.strides[1] == x.itemsize
        integers = np.empty(x.shape if by_lines else x.shape[::-1], np.int8)
        integers = integers if by_lines else integers.T
        plan.backend.quantise(x, integers, numbers, plan.threads)
        scales, squares, along, mean = numbers
        scales /= LARGEST
        fits = (scales == 0) | ((scales > _LEAST) & (scales < 1 / _LEAST))
        with np.errstate(all="ignore"):
            shares = np.where(fits, np.where(squares, 1 / squares, 0.0), np.nan)
            sizes = np.abs(along) * shares, np.abs(mean) * np.sqrt(shares / x.shape[1])
            by_chance, sizes_of_lines = _CHANCE * np.sqrt(shares / 12), squares * scales**2
            beyond = np.add(*(np.maximum(y - by_chance, 0) for y in sizes)).max(initial=0.0)
        of_x = integers.T if axis else integers, scales, float(beyond)
        return Lines.chosen(shares, x.T)._replace(squares=sizes_of_lines, also=of_x)

    def _promised(self, of_a: Lines, of_b: Lines) -> float:
        how: Quantised = self._plan.rewrite
        alike = of_a.also[2] + of_b.also[2]
        return how.promised(self._plan, of_a.most + of_b.most) + float(alike)

    def _usual(self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any) -> Any:
        plan = self._plan
        most = max(len(range(*x.indices(len(out)))) for x, _ in self._parts)

        def run(lines: Any, a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> bool:
            (left, of_rows, _), (right, of_columns, _) = (x.also for x in lines)
            whole = out.dtype == plan.problem.result.numpy and out.flags.aligned
            target = out if whole else np.empty(out.shape, plan.problem.result.numpy)
            if c is not None and c is not target:
                np.copyto(target, c)
            sums = np.empty((most, out.shape[1]), np.int32)
            add = 0.0 if c is None else float(beta)
            of_rows = of_rows * float(alpha)
            for rows, product in self._parts:
                x, some = left[rows], sums[: len(left[rows])]
                product(x, right, None, some)
                plan.backend.from_bytes(
                    some, of_rows[rows], of_columns, target[rows], add, plan.threads
                )
            if not whole:
                np.copyto(out, target, casting="unsafe")
            return False

        return run
