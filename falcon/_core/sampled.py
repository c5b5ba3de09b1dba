"""`SampledRunner`: a product whose error is named, of which some entries are compared.

`ladder.py` says what a plan promises. Where the worst case is worse, the roundings of all lines are
measured first, by which the promise is that of the data. Dot products of some lines are then formed
in float64: of those with the most and the fewest roundings, of those that are most parallel, by C
itself, since roundings of lines that are alike may have one sign, and of some at places that depend
on the shape alone. A product that errs by more, or may, is made again by the next rung, and so are
the next ones, at first; with ``reproducible=True`` it depends on its operands alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from math import inf, sqrt
from sys import float_info
from typing import Any, NamedTuple

import numpy as np

from falcon._tools.lazy import lazy

from .bound import is_compared, norms, promised, proved_factor
from .ladder import is_bound, most_roundings
from .packed import PackedOperand
from .runner import BatchRunner, BoundRun, Runner

_log = logging.getLogger("falcon")

# Lines of a sample at fixed places; those with the most, and with the fewest, roundings; entries of
# lines that are most parallel; and steps of K that are converted at a time.
_FIXED, _EXTREME, _PARALLEL, _STEPS = 8, 4, 24, 4096
# Entries of most parallel lines with which those are compared that a scheme adds to them.
_ADDED = 12
# The largest error of all entries may be so many times the RMS error of these, and their largest.
_BEYOND_RMS, _BEYOND_LARGEST = 6.0, 2.0
# Calls that take the next rung at once after one whose sample erred: at first, and at most.
_FEWEST, _LONGEST = 8, 1024
# Products that were made again, by their plan's label.
again: Counter[str] = Counter()


class Lines(NamedTuple):
    """What is known of an operand's lines: rows of A, or columns of B."""

    most: float  # of what was measured: roundings
    at: np.ndarray  # which are compared
    x: np.ndarray  # a matrix of K rows; lines are its columns `of_x`
    of_x: Any
    squares: np.ndarray | None = None  # squared norms of all, if they were measured
    also: Any = None  # what else a runner knows of them

    @classmethod
    def of(cls, plan: Any, x: Any, axis: int) -> Lines:
        """Measure the rows (axis 0) or the columns (1) of an operand."""
        counts, squares = plan.backend.roundings(x, axis, plan)
        return cls.chosen(counts, x if axis else x.T)._replace(squares=squares)

    @classmethod
    def chosen(cls, measured: np.ndarray, x: np.ndarray) -> Lines:
        """Choose the columns of x that are compared, by what was measured of them; NaN: could not.

        Those at fixed places, and those of which most was measured, and least but not 0.
        """
        most, number = float(measured.max(initial=0.0)), len(measured)
        fixed = (2 * np.arange(_FIXED) + 1) * number // (2 * _FIXED)
        few = min(_EXTREME, number)
        orders = -measured, np.where(measured, measured, inf)
        ends = [np.argpartition(y, few - 1)[:few] for y in orders]
        at = np.unique(np.concatenate((fixed, *ends)))
        return cls(most if most == most else inf, at, x, at)

    def kept(self) -> Lines:
        """Return lines that do not need the operand."""
        return self._replace(x=self.x[:, self.of_x], of_x=slice(None))

    def and_also(self, at: np.ndarray, x: Any) -> Lines:
        """Return these and others of the operand."""
        at = np.union1d(self.at, at)
        return self._replace(at=at, x=x, of_x=at)


def sampled(plan: Any, runner: Runner) -> Runner:
    """Return what makes a plan's products again by the next rung; `runner` where none need that."""
    able = is_bound(plan.problem, plan.options) and plan.problem.device is None
    wanted = plan.operand.converts or needs_sample(plan)
    return SampledRunner(plan, runner) if able and wanted else runner


def most_error(plan: Any) -> float:
    """Return the error that a plan's options name; none: any number."""
    error = plan.options.error if is_bound(plan.problem, plan.options) else None
    return float_info.max if error is None else float(error)


def needs_sample(plan: Any) -> bool:
    """Whether entries are compared, as the promise is not proved."""
    return bool(is_compared(plan) and plan.options.error < proved_factor(plan))


class SampledRunner(Runner):
    """A runner, and that of the next rung, for products that err by more than was asked for."""

    def __init__(self, plan: Any, runner: Runner | None) -> None:
        self._plan, self._runner = plan, runner
        self._left = self._last = 0  # calls that take the next rung, and how many they were last
        self._why = ""  # of the last one

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
        plan, error = self._plan, most_error(self._plan)
        compares = self._compares() and not (isinstance(b, PackedOperand) and b.lines is None)
        overlaps = [x is not None and np.may_share_memory(x, out) for x in (a, _array(b), c)]
        apart = compares and any(overlaps[:2])  # operands that `out` would overwrite stay
        copies = compares and overlaps[2] and not apart
        empty = partial(np.empty, out.shape, out.dtype)
        written = empty() if apart else out
        usual = self._usual(a, b, c, written, alpha, beta, mirror)

        def higher(a: Any, b: Any, c: Any, out: Any, mirror: Any) -> None:
            b = b.source_to_redo(why=self._why) if isinstance(b, PackedOperand) else b
            made = plan.higher() if plan.problem.packed else plan.higher().fitted(plan.problem)
            made.runner.bind(a, b, c, out, alpha, beta, mirror)(a, b, c, out, mirror)

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            if self._is_next():
                higher(a, b, c, out, mirror)
                return
            lines = self._lines(a, b) if compares else None
            if lines is not None and self._promised(*lines) > error:
                self._note(b, "has lines that may err by more")
                higher(a, b, c, out, mirror)
                return
            c_before, made = c.copy() if copies else c, empty() if apart else out
            if usual(lines, a, b, c, made, mirror):
                self._note(b, "is out of range, or not finite")
            elif lines is not None and error < float_info.max:
                of_a, of_b = self._with_parallel(lines, a, _array(b), made)
                where = np.ix_(of_a.at, of_b.at)
                added = 0.0 if c is None else np.multiply(c_before[where], beta)
                largest = self._error(of_a, of_b, made[where], alpha, added)
                if largest > error:
                    self._note(b, f"may err by {largest:.1e}, not {error:.1e}")
                    higher(a, b, c_before, out, mirror)
                    return
            if apart:
                np.copyto(out, made)

        return run

    def _compares(self) -> bool:
        return needs_sample(self._plan)

    def _usual(self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any) -> Any:
        """Return what multiplies, and returns whether operands were not as they must be."""
        assert self._runner is not None  # for type checkers
        made = self._runner.bind(a, b, c, out, alpha, beta, mirror)
        return lambda lines, *given: made(*given)

    @lazy
    def _for_all(self) -> float:
        """The most roundings of any line, if that of all lines is promised; else 0."""
        most = float(most_roundings(self._plan.problem, self._plan.method))
        return most if promised(self._plan, most) <= most_error(self._plan) else 0.0

    def _lines(self, a: Any, b: Any) -> tuple[Lines, Lines]:
        """Measure operands, where that matters; of a packed one, it is known."""
        plan, known = self._plan, b.lines if isinstance(b, PackedOperand) else None
        if self._for_all:
            of_a = Lines.chosen(np.full(a.shape[0], self._for_all), a.T)
            return of_a, known or Lines.chosen(np.full(b.shape[1], self._for_all), b)
        return Lines.of(plan, a, 0), known or Lines.of(plan, b, 1)

    def _with_parallel(self, lines: tuple[Lines, Lines], a: Any, b: Any, c: Any) -> Any:
        """Add lines that are most parallel, if their norms were measured."""
        of_a, of_b = lines
        if b is None or of_a.squares is None or of_b.squares is None:
            return lines
        squares = of_a.squares, of_b.squares
        plan = self._plan
        found = plan.backend.most_parallel(c, squares, _PARALLEL, plan.threads)
        if plan.scheme is not None:  # which adds lines of blocks: so are those that are added
            parts, chunks = (plan.scheme.m, plan.scheme.n), plan.method.chunks
            some = zip(found, c.shape, chunks, parts, strict=False)
            found = tuple(_with_added(x, *sizes) for x, *sizes in some)
        return of_a.and_also(found[0], a.T), of_b.and_also(found[1], b)

    def _promised(self, of_a: Lines, of_b: Lines) -> float:
        return promised(self._plan, sqrt(of_a.most * of_b.most))

    def _error(self, of_a: Lines, of_b: Lines, found: Any, alpha: Any, added: Any) -> float:
        """Return how far entries are off, over the norms, or what all entries may be."""
        p = self._plan.problem
        kind = np.complex128 if p.operand.is_complex else np.float64
        with np.errstate(all="ignore"):
            exact = np.zeros(found.shape, kind)
            size = [np.zeros(x) for x in found.shape]
            for k in range(0, max(p.K, 1), _STEPS):
                some = [x.x[k : k + _STEPS, x.of_x].astype(kind) for x in (of_a, of_b)]
                exact += some[0].T @ some[1]
                size = [np.hypot(x, norms(y, 0)) for x, y in zip(size, some, strict=True)]
            exact *= alpha
            size = np.multiply.outer(*size) * abs(alpha)
            off = np.abs(found - added - exact)
            # What C, and c in it, are rounded to is no error of the product.
            lost = np.finfo(found.dtype).eps * np.abs(added)
            off -= lost + _coarser(found, p) * np.abs(exact)
            off = np.divide(off, size, out=np.zeros_like(size), where=size > 0)
        # Where c is much larger than the product, nothing is left of its error.
        wanted = np.isfinite(exact) & np.isfinite(size) & (lost <= most_error(self._plan) * size)
        if p.symmetric in ("lower", "upper"):
            below = of_a.at[:, None] >= of_b.at
            wanted &= below if p.symmetric == "lower" else ~below
        some = np.where(np.isnan(off), inf, off)[wanted]
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

    def _note(self, b: Any, why: str) -> None:
        """Count, log once and remember a product that was made again."""
        plan = self._plan
        again[plan.label] += 1
        if not self._last:
            text = "falcon: %s by %s %s: made again by %s"
            _log.info(text, plan.problem, plan.label, why, plan.higher().label)
        self._why = why
        if not plan.problem.reproducible and _array(b) is not None:
            self._last = min(max(2 * self._last, _FEWEST), _LONGEST)
            self._left = self._last - 1


def _with_added(lines: np.ndarray, count: int, chunk: int, parts: int) -> np.ndarray:
    """Return lines, and those that a scheme adds to some, in passes over so many of `count`."""
    block, some = -(-chunk // parts), lines[:_ADDED]
    first = some // chunk * chunk + some % chunk % block
    found = (first[:, None] + block * np.arange(parts)).ravel()
    return np.union1d(lines, found[found < count])


def _array(b: Any) -> Any:
    return b.source if isinstance(b, PackedOperand) else b


def _coarser(found: np.ndarray, problem: Any) -> float:
    """Return what an `out` of fewer bits than the result loses."""
    unit = float(np.finfo(found.dtype).eps) / 2
    return unit if unit > problem.result.unit_roundoff else 0.0
