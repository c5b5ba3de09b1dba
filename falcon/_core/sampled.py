"""`SampledRunner`: a product whose error is named, of which some entries are compared.

`ladder.py` says what a plan promises. Where the worst case is worse, dot products of some rows and
columns are formed in float64, at places that depend on the shape alone, so that results are
reproducible. A product that errs by more is made again by the next rung.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from .bound import is_compared, norms, proved_factor
from .ladder import is_bound
from .packed import PackedOperand
from .runner import BatchRunner, BoundRun, Runner

_log = logging.getLogger("falcon")

# Rows and columns of a sample, and steps of K that are converted at a time.
_ROWS, _COLUMNS, _STEPS = 16, 8, 4096
# The largest error of all entries may be so many times the RMS error of these; and, where a few
# products are most of an entry, as in outlier features, so many times their largest.
_BEYOND_RMS, _BEYOND_LARGEST = 6.0, 4.0
# Calls that take the next rung at once after one whose sample erred: at first, and at most.
_FEWEST, _LONGEST = 8, 1024
# Products that were made again, by their plan's label.
again: Counter[str] = Counter()


def sampled(plan: Any, runner: Runner) -> Runner:
    """Return what makes a plan's products again by the next rung; `runner` where none need that."""
    able = is_bound(plan.problem, plan.options) and plan.problem.device is None
    wanted = plan.operand.converts or _is_sampled(plan)
    return SampledRunner(plan, runner) if able and wanted else runner


def _is_sampled(plan: Any) -> bool:
    """Whether entries are compared, as the promise is not proved."""
    return bool(is_compared(plan) and plan.options.error < proved_factor(plan))


def columns_to_sample(N: int) -> slice:
    """Return the columns that are compared."""
    width = min(_COLUMNS, N)
    start = (N - width) * 5 // 8 // _COLUMNS * _COLUMNS
    return slice(start, start + width)


def _rows_to_sample(M: int) -> np.ndarray:
    count = min(_ROWS, M)
    return (2 * np.arange(count) + 1) * M // (2 * count)


class SampledRunner(Runner):
    """A runner, and that of the next rung, for products that err by more than was asked for."""

    def __init__(self, plan: Any, runner: Runner) -> None:
        self._plan, self._runner = plan, runner
        self._left = self._last = 0  # calls that take the next rung, and how many they were last

    @property
    def _single(self) -> Runner:
        found: Runner = self._plan.fitted(self._plan.problem.single).runner
        return found

    def bind(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any = 1, beta: Any = 0, mirror: Any = None
    ) -> BoundRun:
        if len(out.shape) > 2:
            return BatchRunner(self._single).bind(a, b, c, out, alpha, beta)
        return self._of_matrices(a, b, c, out, alpha, beta, mirror)

    def _of_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
        plan, compares = self._plan, _is_sampled(self._plan)
        rows, columns = _rows_to_sample(out.shape[0]), columns_to_sample(out.shape[1])
        overlaps = [x is not None and np.may_share_memory(x, out) for x in (a, _array(b), c)]
        apart = compares and any(overlaps[:2])  # operands that `out` would overwrite stay
        copies = compares and overlaps[2] and not apart
        empty = partial(np.empty, out.shape, out.dtype)
        written = empty() if apart else out
        usual = self._runner.bind(a, b, c, written, alpha, beta, mirror)

        def higher(a: Any, b: Any, c: Any, out: Any, mirror: Any) -> None:
            b = b.source_to_redo() if isinstance(b, PackedOperand) else b
            made = plan.higher() if plan.problem.packed else plan.higher().fitted(plan.problem)
            made.runner.bind(a, b, c, out, alpha, beta, mirror)(a, b, c, out, mirror)

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            if self._is_next():
                higher(a, b, c, out, mirror)
                return
            c_before, made = c.copy() if copies else c, empty() if apart else out
            is_again = usual(a, b, c, made, mirror)
            if is_again:
                self._note("is out of range, or not finite")
            elif compares:
                added = 0.0 if c is None else np.multiply(c_before[rows, columns], beta)
                some = made[rows, columns]
                largest = self._error(
                    a[rows], _columns_of(b, columns), some, alpha, added, rows, columns
                )
                if largest > plan.options.error:
                    self._note(f"may err by {largest:.1e}, not {plan.options.error:.1e}")
                    higher(a, b, c_before, out, mirror)
                    return
            if apart:
                np.copyto(out, made)

        return run

    def _error(
        self, a: Any, b: Any, found: Any, alpha: Any, added: Any, rows: Any, columns: slice
    ) -> float:
        """Return how far entries are off, over the norms, or what all entries may be."""
        p = self._plan.problem
        kind = np.complex128 if p.operand.is_complex else np.float64
        with np.errstate(all="ignore"):
            exact = np.zeros((len(a), b.shape[1]), kind)
            of_a, of_b = np.zeros(len(a)), np.zeros(b.shape[1])
            for k in _slices(a.shape[1]):
                exact += _products(a[:, k], b[k], kind)
                of_a, of_b = np.hypot(of_a, norms(a[:, k], 1)), np.hypot(of_b, norms(b[k], 0))
            exact *= alpha
            size = np.multiply.outer(of_a, of_b) * abs(alpha)
            off = np.abs(found - added - exact)
            # What C, and c in it, are rounded to is no error of the product.
            off -= np.finfo(found.dtype).eps * np.abs(added)
            off -= _coarser(found, p) * np.abs(exact)
            off = np.divide(off, size, out=np.zeros_like(size), where=size > 0)
        # Where c is much larger than the product, nothing is left of its error.
        lost = np.finfo(found.dtype).eps * np.abs(added)
        wanted = np.isfinite(exact) & np.isfinite(size) & (lost <= self._plan.options.error * size)
        if p.symmetric in ("lower", "upper"):
            below = rows[:, None] >= np.arange(columns.start, columns.stop)
            wanted &= below if p.symmetric == "lower" else ~below
        some = np.where(np.isnan(off), np.inf, off)[wanted]
        if not some.size:
            return 0.0
        of_all = _BEYOND_RMS * np.sqrt(np.mean(np.square(some)))
        return float(max(of_all, _BEYOND_LARGEST * some.max()))

    def _is_next(self) -> bool:
        if not self._left:
            return False
        self._left -= 1
        again[self._plan.label] += 1
        return True

    def _note(self, why: str) -> None:
        """Count, log once and remember a product that was made again."""
        plan = self._plan
        again[plan.label] += 1
        if not self._last:
            text = "falcon: %s by %s %s: made again by %s"
            _log.info(text, plan.problem, plan.label, why, plan.higher().label)
        if not plan.problem.reproducible:
            self._last = min(max(2 * self._last, _FEWEST), _LONGEST)
            self._left = self._last - 1


def _slices(K: int) -> list[slice]:
    return [slice(k, k + _STEPS) for k in range(0, K, _STEPS)]


def _products(a: Any, b: Any, kind: Any) -> np.ndarray:
    """Return the dot products of rows and columns; each is summed by itself."""
    b = np.ascontiguousarray(b.T, kind)
    return np.array([(b * x).sum(axis=1) for x in a.astype(kind)])


def _array(b: Any) -> Any:
    return b.source if isinstance(b, PackedOperand) else b


def _columns_of(b: Any, columns: slice) -> Any:
    if not isinstance(b, PackedOperand):
        return b[:, columns]
    return b.sample if b.source is None else b.source[:, columns]


def _coarser(found: np.ndarray, problem: Any) -> float:
    """Return what an `out` of fewer bits than the result loses."""
    unit = float(np.finfo(found.dtype).eps) / 2
    return unit if unit > problem.result.unit_roundoff else 0.0
