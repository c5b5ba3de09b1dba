r"""Even out units along K: multiply columns of A and rows of B by powers of two, which is exact.

::

    A B = (A D^-1) (D B)     D diagonal

Columns of a table have units (years, cents, counts), which the rows of B fold back. An LCMA adds
columns of A that have the same position in different blocks, and rows of B likewise: where small
columns meet large rows, its errors are those of norms that no entry of C reaches. Let A_k be the
mean square of column k of A, its rows being brought to norm 1, and B_k that of row k of B. Then the
squares of errors are, over those of data without units, about ::

    loss = (sum_k A_k) (sum_k B_k) / (K sum_k A_k B_k)

and D that makes the rows of B equally large brings it to 1 (inside scaling: Ballard, Benson,
Druinsky, Lipshitz, Schwartz, arXiv:1507.00687). So A is needed only to see whether D is. Any D near
it will do: norms along K come from a sample of rows and columns. docs/accuracy.md has what is
promised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

_log = logging.getLogger("falcon")

# Writes the squared 2-norms of rows (axis 0) or columns (axis 1) of a matrix to a float64 array; 0
# is a line of zeros, Inf or NaN a norm that cannot be measured; and the sums of segments of lines,
# which end at steps that ascend, to another, as in `Totals`, if that is not None. Returns how
# large the smaller component of complex numbers is, relative to the larger one; 1 where that makes
# no difference.
Measure = Callable[[Any, int, np.ndarray, np.ndarray, np.ndarray | None], float]

# Rows of A, and columns of B, that are looked at; more of them where those seem to need it, and to
# pack B. So many neighbours at a time share cache lines.
_SAMPLE, _MORE, _TOGETHER = 8, 64, 4
# From this loss on D is used, which costs 4.5 % of the time at 1500^3 (float32, Zen 3). Without
# units, 8 lines of 1500 normal entries come to 0.98 to 1.02, lognormal ones (sigma 1) to 1.2.
LOST = 1.25
# What "auto" may err by over np.matmul, in units of max_growth.
_ALLOWED = 1.125
# Larger powers of two are not used: a factor of C, the product of two, must be a float64.
LARGEST_EXPONENT = 500


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Powers of two of the columns of A and of the rows of B, float64; None: all are 1.

    0 where the other operand has nothing but zeros.
    """

    of_a: Any = None
    of_b: Any = None

    def __bool__(self) -> bool:
        return self.of_a is not None

    def times(self, x: np.ndarray, axis: int, dtype: Any = None) -> np.ndarray:
        """Return A (axis 0) or B times its powers, of a dtype; itself where these are 1."""
        powers = self.of_b if axis else self.of_a
        if powers is None:
            return x
        x = x if dtype is None else x.astype(dtype, copy=False)
        with np.errstate(all="ignore"):
            return x * (powers[:, None] if axis else powers).astype(x.real.dtype)


NONE = Units()


def sampled(lines: np.ndarray, most: int = _SAMPLE) -> np.ndarray:
    """Return some lines of a matrix, over all of K, in an array that lies as the matrix does."""
    if len(lines) <= most:
        return lines
    starts = np.linspace(0, len(lines) - _TOGETHER, most // _TOGETHER).astype(int)
    if abs(lines.strides[0]) < abs(lines.strides[1]):
        return np.concatenate([lines.T[:, i : i + _TOGETHER] for i in starts], axis=1).T
    return np.concatenate([lines[i : i + _TOGETHER] for i in starts])


def may_even(plan: Any) -> bool:
    """Whether a plan's products even units, if operands have any."""
    p = plan.problem
    return bool(plan.guarded and plan.scheme is not None and not p.is_exact and p.device is None)


def evens_on_device(plan: Any) -> bool:
    """Whether a plan's products on a GPU even units by B alone, whatever A is: see units.cu."""
    p, guarded = plan.problem, plan.guarded or plan.operand.splits > 1
    return bool(p.device is not None and guarded and p.may_have_units)


def of_rows(plan: Any, b: np.ndarray) -> Units:
    """Return the powers that make all rows of B equally large."""
    sizes, has_any = _sizes(_shares(b.T), b, measured_here, 0)
    return _units(plan, _exponents(sizes), has_any)


def of_packed(powers: np.ndarray | None) -> Units:
    """Return by what the columns of A are multiplied where the rows of a packed B were."""
    if powers is None:
        return NONE
    return Units(np.divide(1, powers, out=np.zeros_like(powers), where=powers > 0))


def to_pack(plan: Any, b: np.ndarray) -> Units:
    """Return the powers for a B to be packed: its rows become even, whatever A will be."""
    if not may_even(plan):
        return NONE
    shares = _shares(sampled(b.T, _MORE))
    sizes, has_any = _sizes(shares, b, measured_here, 0)
    known = sizes > 0
    # What is lost if the columns of A are the inverse of the rows of B.
    inverse = np.divide(1, sizes, out=np.zeros_like(sizes), where=known)
    is_even = _added(plan, inverse, sizes) <= LOST * known.sum()
    return NONE if is_even else _units(plan, _exponents(sizes), has_any)


def _are_even(plan: Any, samples: tuple[Any, Any]) -> bool:
    """Whether units are even for lines without zeros or extremes: for most data.

    False: `chosen` has to look.
    """
    sizes = []
    with np.errstate(all="ignore"):
        for lines in samples:
            own = lines.dtype.char in "fdFD"
            squares = _squares(lines if own else lines.astype(np.float64))
            norms = squares.sum(axis=1)
            sizes.append((1 / norms) @ squares)
            least = np.finfo(squares.dtype).tiny
            if not (least < norms.min() and norms.max() < np.inf and sizes[-1].min() > 0):
                return False
        return bool(_added(plan, *sizes) <= LOST * (sizes[0] @ sizes[1]))


def chosen(
    plan: Any, a: np.ndarray, b: np.ndarray, measure: Measure, *, always: bool = False
) -> Units:
    """Return the powers for two operands.

    `always`: even the rows of B although a sample does not ask for it.
    """
    if not always and _are_even(plan, (sampled(a), sampled(b.T))):
        return NONE
    limit = plan.options.workspace_limit
    for most, trust in ((_SAMPLE, 0), (_MORE, 2))[always:]:
        if limit is not None:  # of which shares take an eighth
            most = max(_TOGETHER, min(most, limit // (128 * plan.problem.K)))
        shares = _shares(sampled(a, most)), _shares(sampled(b.T, most))
        if not all(map(len, shares)):
            return NONE
        of_a, any_a = _sizes(shares[0], a, measure, 1)
        of_b, any_b = _sizes(shares[1], b, measure, 0)
        # Few lines say little where an operand consists of few large steps.
        doubt = trust * max(_doubt(shares[0] @ of_b), _doubt(shares[1] @ of_a))
        if not always and _added(plan, of_a, of_b) <= LOST * (1 + doubt) * (of_a @ of_b):
            return NONE
    return _units(plan, _exponents(of_b), any_a & any_b)


def _squares(lines: np.ndarray) -> np.ndarray:
    squares = np.square(lines.real)
    return squares + np.square(lines.imag) if lines.dtype.kind == "c" else squares


def _shares(lines: np.ndarray) -> np.ndarray:
    """Return the share that each step has of a line's squared norm; not of lines without one."""
    with np.errstate(all="ignore"):
        squares = _squares(lines.astype(np.result_type(lines.dtype, np.float64)))
        norms = squares.sum(axis=1)
        known = (norms > 0) & (norms < np.inf)
        return squares[known] / norms[known, None]


def _sizes(
    shares: np.ndarray, x: np.ndarray, measure: Measure, axis: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared norms along K, and where there is anything but zeros.

    Where the sample has zeros alone, they are measured in full.
    """
    sizes = shares.sum(axis=0)
    has_any = sizes > 0
    unseen = ~has_any
    if unseen.any():
        every = measured(measure, x, axis)
        with np.errstate(all="ignore"):
            sizes[unseen] = every[unseen] * (sizes.sum() / every[has_any].sum())
        has_any = has_any | (every != 0)
    return np.nan_to_num(sizes), has_any


def measured(measure: Measure, x: np.ndarray, axis: int) -> np.ndarray:
    """Return squared norms of all columns of A (axis 1), or of all rows of B (0)."""
    squares = np.empty(x.shape[axis])
    measure(x, axis, squares, np.empty(0, np.intp), None)
    return squares


def measured_here(x: np.ndarray, axis: int, squares: np.ndarray, *_: Any) -> float:
    """Measure squared norms by NumPy, NaN where they underflow: a `Measure` without sums."""
    lines = x.T if axis else x
    kind = np.result_type(x.dtype, np.float64)
    with np.errstate(all="ignore"):
        for i in range(len(lines)):
            line = lines[i].astype(kind)
            squares[i] = np.vdot(line, line).real or (np.nan if line.any() else 0.0)
    return 1.0


def _added(plan: Any, a: np.ndarray, b: np.ndarray) -> float:
    """Return the terms that a scheme adds of steps of these sizes: the larger of two estimates.

    One adds a step to those at its position in other blocks. The other has all of K: so it is where
    rows are brought to one norm before they are added.
    """
    parts, chunk, found = plan.scheme.k, max(plan.method.chunks[2], 1), 0.0
    for start in range(0, len(a), chunk):
        length = len(a[start : start + chunk])
        groups = np.zeros((2, parts, -(-length // parts)))
        for x, y in zip(groups, (a, b), strict=True):
            x.reshape(-1)[:length] = y[start : start + chunk]
        found += float((groups[0].sum(axis=0) @ groups[1].sum(axis=0)) / parts)
    return max(found, float(a.sum() * b.sum() / len(a)))


def _doubt(x: np.ndarray) -> float:
    """Return the standard error of the mean of x, relative to it."""
    mean = float(x.mean())
    return float(x.std()) / (mean * sqrt(len(x))) if mean > 0 else 0.0


def fits(plan: Any, units: Units, sizes: list[np.ndarray]) -> bool:
    """Whether all terms together are as large as norms along K say, but for what is allowed."""
    of_a, of_b = map(np.nan_to_num, sizes)
    with np.errstate(all="ignore"):
        of_a = of_a if units.of_a is None else of_a * units.of_a**2
        of_b = of_b if units.of_b is None else of_b * units.of_b**2
        return bool(_added(plan, of_a, of_b) <= _allowed(plan) * (of_a @ of_b))


def _allowed(plan: Any) -> float:
    return max(LOST, (_ALLOWED * plan.options.max_growth / plan.growth) ** 2)


def _exponents(sizes: np.ndarray) -> np.ndarray:
    """Return by which powers of two norms of these squares exceed the median."""
    known = sizes > 0
    found = np.rint(np.log2(sizes, out=np.zeros_like(sizes), where=known) / 2)
    return np.where(known, found - np.rint(np.median(found[known])), 0) if known.any() else found


def _units(plan: Any, exponents: np.ndarray, has_any: np.ndarray) -> Units:
    most = min(LARGEST_EXPONENT, plan.problem.operand.finfo.maxexp - 2)
    powers = np.exp2(np.clip(exponents, -most, most))
    largest = float(np.exp2(np.abs(exponents).max()))
    _log.debug("falcon: %s: units along K are evened by up to %g", plan.problem, largest)
    return Units(np.where(has_any, powers, 0), np.where(has_any, 1 / powers, 0))
