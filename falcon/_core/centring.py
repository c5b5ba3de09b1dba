r"""Subtract means before a scheme adds rows: errors are then those of what is left.

::

    A = m + (A - m)        C = (A - m) B + m S        S: sums of B's columns

What is left has both signs: its norms are smaller, and sums walk instead of growing. Means and sums
are those of segments of K, which a backend names; `m S` has a row and a column for each, formed in
accumulators: first what single segments have beside the mean of the whole, if any, then that mean
times the whole sum, as two numbers, which are the only terms of most data. B's columns are centred
too, for the sums of what is left of A. docs/accuracy.md has the bound.

A mean is rounded to `_BITS` bits of the line's root mean square, and is 0 where it is below
`LEAST` of that, so that data without a mean stay as they are, and sparse lines sparse. Where norms
bound all sums to the bits of accumulators, as for small whole numbers, nothing is rounded, and
nothing centred: exact products stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from falcon.schemes import Scheme

from .options import Options
from .problem import Problem

# Rows of `left` and `right` are so much longer than C's sides, for vectors that read beyond.
PADDING = 64
# Measured (1200^3, three schemes): at a third, sparse positive data, whose zeros are lost, err as
# much as before; if both operands are centred, at four tenths.
_BITS, LEAST, _LEAST_SECOND = 6, 0.35, 0.5
# Means of L elements without one are 1/sqrt(L) of their root mean square.
NOISE = 6.0
# Norms that are left are measured no smaller than this share of the line's.
_LEAST_LEFT = 2.0**-20
_SAMPLE = 32

# As which the classical algorithm runs where it is to centre: its one product is a scheme's.
_ONE = np.ones((1, 1, 1), int)
CENTRED = Scheme(_ONE, _ONE, _ONE, "centred")

Passes = Sequence[Sequence[int]]  # where the segments of each pass over K end; some are empty


def classical_scheme(problem: Problem, options: Options, compute_type: Any) -> Scheme | None:
    """Return as which the classical algorithm runs; `compute_type`: see `Method`."""
    wanted = options.centre and compute_type is None
    if compute_type is not None and compute_type.splits == 1 and compute_type.rounds_once:
        wanted = options.centre is not False  # its promise asks for it
    return CENTRED if wanted and has_means(problem) else None


def may_centre(plan: Any) -> bool:
    """Whether a plan's products subtract means, if operands have any."""
    wanted = plan.guarded if plan.options.centre is None else plan.options.centre
    return bool(plan.scheme is not None and wanted and has_means(plan.problem))


def has_means(problem: Problem) -> bool:
    """Whether means may be subtracted from the operands of a product."""
    row = problem.operand
    return problem.device is None and not (row.is_exact or row.is_complex)


def add_exactly(total: np.ndarray, low: np.ndarray, x: np.ndarray) -> None:
    """Add x to total, and what rounding takes to low (Knuth's sum of two numbers)."""
    before = total.copy()
    total += x
    back = total - before
    low += (before - (total - back)) + (x - back)


@dataclass(frozen=True, eq=False)
class Totals:
    """What is known of an operand beside its norms."""

    sums: Any  # of the elements of each line, 2 x segments x lines, float64: and what rounding took
    sample: np.ndarray  # some of its elements


@dataclass(frozen=True, eq=False)
class Centring:
    """What is subtracted and added, in accumulators; see the module's docstring.

    `a_means`, `b_means`: None, or segments x lines, or 1 x lines for all segments alike.
    `left`, `right`: passes x rank x lines of A or of B and `PADDING`.
    `residues`: the share of each line's squared norm that is left, of A's rows and of B's columns.
    """

    a_means: np.ndarray | None
    b_means: np.ndarray | None
    left: np.ndarray
    right: np.ndarray
    residues: tuple[Any, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        means = (x for x in (self.a_means, self.b_means) if x is not None)
        return sum(x.nbytes for x in (*means, self.left, self.right))

    def without(self, a: np.ndarray, b: np.ndarray, passes: Passes) -> tuple[Any, Any]:
        """Return the operands without their means."""
        lengths, given = np.diff(all_ends(passes), prepend=0), (self.a_means, self.b_means)
        of_a, of_b = (x if x is None or len(x) == 1 else x.repeat(lengths, 0) for x in given)
        return a if of_a is None else a - of_a.T, b if of_b is None else b - of_b

    def add_to(self, product: np.ndarray, strip: int = 96) -> None:
        """Add the outer products to a product."""
        left, right = (x.reshape(-1, x.shape[-1])[:, :-PADDING] for x in (self.left, self.right))
        for start in range(0, len(product), strip):
            some = slice(start, start + strip)
            product[some] += (left[:, some].T @ right).astype(product.dtype, copy=False)


def all_ends(passes: Passes) -> np.ndarray:
    """Return where the segments of all passes end."""
    return np.array([end for some in passes for end in some], np.intp)


def sample(x: np.ndarray, factors: np.ndarray | None = None) -> np.ndarray:
    """Return some of a matrix's elements, times those of the factors of its rows or columns."""
    at = tuple(slice(None, None, max(1, n // _SAMPLE)) for n in x.shape)
    if factors is None:
        return x[at]
    with np.errstate(all="ignore"):
        return x[at] * np.broadcast_to(factors, x.shape)[at]


def _granule(x: np.ndarray) -> float:
    """Return the largest power of two of which all are multiples; 0: all are zeros."""
    x = x.astype(np.float64)
    parts, exponents = np.frexp(x[x != 0])
    if not parts.size:
        return 0.0
    whole = np.abs(np.ldexp(parts, 53)).astype(np.int64)
    return float(np.ldexp((whole & -whole).astype(np.float64), exponents - 53).min())


def choose_centring(
    kind: np.dtype,
    passes: Passes,
    squares: tuple[np.ndarray, np.ndarray],
    totals: tuple[Totals, Totals],
    *,
    only_a: bool = False,
) -> Centring | None:
    """Return what is subtracted from operands; None: nothing.

    `kind`: the type of accumulators. `squares`, `totals`: of the rows of A, and the columns of B.
    """
    a, b = totals
    cuts = _Cuts.of(passes)
    of_a = _Means.of(squares[0], a.sums[0], cuts, LEAST)
    least = LEAST if of_a is None else _LEAST_SECOND
    of_b = None if only_a else _Means.of(squares[1], b.sums[0], cuts, least)
    if of_a is None and of_b is None:
        return None
    if not all(np.isfinite(x.sums).all() for x in totals):  # near overflow
        return None
    largest = [sqrt(float(x.max(initial=0))) for x in squares]
    last = _granule(a.sample) * _granule(b.sample)  # bit of the products
    if largest[0] * largest[1] < 2 / np.finfo(kind).eps * last:
        return None
    rows: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in passes]
    if of_b is not None:  # times the sums of what is left of A
        left = a.sums
        if of_a is not None:
            left = np.array([left[0] - cuts.lengths * of_a.of_segments(), left[1]])
        for some, pairs in zip(rows, of_b.terms(left, kind), strict=True):
            some += [(y, x) for x, y in pairs]
    if of_a is not None:
        for some, pairs in zip(rows, of_a.terms(b.sums, kind), strict=True):
            some += pairs
    rank = max(map(len, rows))
    left, right = (np.zeros((len(passes), rank, len(x) + PADDING), kind) for x in squares)
    for at, some in enumerate(rows):
        for r, (x, y) in enumerate(some):
            left[at, r, :-PADDING], right[at, r, :-PADDING] = x, y
    a_means, b_means = (None if x is None else x.of_segments().astype(kind) for x in (of_a, of_b))
    a_left, b_left = (1.0 if x is None else x.residue for x in (of_a, of_b))
    return Centring(a_means, b_means, left, right, (a_left, b_left))


@dataclass(frozen=True, eq=False)
class _Cuts:
    """The segments of all passes."""

    spans: tuple[slice, ...]  # those of each pass
    lengths: np.ndarray  # steps of each, a column of float64
    least: np.ndarray  # below which share of the root mean square a mean is noise

    @classmethod
    def of(cls, passes: Passes) -> _Cuts:
        ends = [0, *(end for some in passes for end in some)]
        lengths = np.array(ends[1:], np.float64) - ends[:-1]
        first, spans = 0, []
        for some in passes:
            spans.append(slice(first, first + len(some)))
            first += len(some)
        least = NOISE / np.sqrt(np.maximum(lengths, 1))
        return cls(tuple(spans), lengths[:, None], least[:, None])


@dataclass(frozen=True, eq=False)
class _Means:
    """Rounded means of an operand's lines."""

    whole: np.ndarray  # passes x lines
    beside: np.ndarray | None  # what segments have beside it, segments x lines; None: nothing
    cuts: _Cuts
    residue: np.ndarray  # see Centring

    @classmethod
    def of(cls, squares: np.ndarray, sums: np.ndarray, cuts: _Cuts, least: float) -> _Means | None:
        """Return the means of lines of these norms and sums; None: there are none."""
        lengths = cuts.lengths
        rms = np.sqrt(squares / max(float(lengths.sum()), 1))
        limits = (least * lengths) * rms
        size = np.abs(sums)
        if not (size >= limits).any():
            return None
        unit = np.ldexp(1.0, np.frexp(rms)[1] - 1 - _BITS)
        limits *= np.maximum(cuts.least / least, 1)
        whole = np.empty((len(cuts.spans), len(squares)))
        beside: np.ndarray | None = None
        explained = np.zeros(len(squares))
        for at, span in enumerate(cuts.spans):
            length, total = lengths[span], sums[span].sum(axis=0)
            n = float(length.sum())
            mean = np.rint(total / (n * unit)) * unit
            whole[at] = mean = np.where(np.abs(total) >= (n * least) * rms, mean, 0)
            explained += mean * (2 * total - n * mean)
            if len(length) == 1:
                continue
            off = np.subtract(sums[span], length * mean, out=size[span])
            own = np.abs(off) >= limits[span]
            if own.any():
                beside = np.zeros(sums.shape) if beside is None else beside
                means = np.rint(off / (np.maximum(length, 1) * unit)) * unit
                beside[span] = means = np.where(own, means, 0)
                explained += (means * (2 * off - length * means)).sum(axis=0)
        if beside is None and not whole.any():
            return None
        share = np.divide(explained, squares, out=np.zeros_like(rms), where=squares > 0)
        return cls(whole, beside, cuts, np.clip(1 - share, _LEAST_LEFT, 1))

    def of_segments(self) -> np.ndarray:
        """Return the means of each segment; one line if all have the same."""
        spans = self.cuts.spans
        if self.beside is None and len(spans) == 1:
            return self.whole
        means = np.repeat(self.whole, [x.stop - x.start for x in spans], axis=0)
        return means if self.beside is None else means + self.beside

    def terms(self, sums: np.ndarray, kind: np.dtype) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """Return pairs of means and of these sums of the other operand, for each pass.

        The last sums are those of the whole, as two numbers: one of `kind`, and before it what that
        lacks.
        """
        found = []
        for at, span in enumerate(self.cuts.spans):
            some, pairs = range(span.start, span.stop), []
            for s in some if self.beside is not None else ():
                if self.beside is not None and self.beside[s].any():
                    pairs.append((self.beside[s], sums[0, s]))
            total, low = sums[0, span.start].copy(), np.zeros(sums.shape[2])
            if kind.itemsize < 8:
                total = sums[0, span].sum(axis=0)
            else:
                low = sums[1, span].sum(axis=0)
                for s in some[1:]:
                    add_exactly(total, low, sums[0, s])
            high = total.astype(kind)
            pairs += [(self.whole[at], total - high + low), (self.whole[at], high)]
            found.append(pairs)
        return found
