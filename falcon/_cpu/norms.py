"""Norms of operands by the engine, which say how they are scaled and multiplied."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np

from falcon._core.arithmetic import INT64_BY_FLOAT64
from falcon._core.centring import LEAST, NOISE, Passes, Totals, all_ends, may_centre, sample
from falcon._core.dtypes import DType
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.scaling import (
    SCALED_FROM,
    UNSEEN,
    Scaling,
    remeasure,
)
from falcon._core.settle import LEAST_COMPONENT, choose_scaling, settled, units_of
from falcon._core.units import LOST, NONE, Units, may_even

from . import _core
from .extension import isa
from .operands import is_aligned, readable
from .rounding import largest_sums

_log = logging.getLogger("falcon")

# Where a sample of some lines has a mean of this share (squared, of its mean square; 16 elements
# without one come to 1/16), or rows that differ so, operands are measured before their panels are
# formed: that would have to be done again.
_SAMPLED_MEAN, _SAMPLED_SPREAD = 0.2, 16.0
# Powers of two even out no squared norms that differ by less than half an octave's square; less
# what logarithms are rounded by.
_EVEN = 1.9
# Lines are as parallel as others if their cosines differ by less than this.
_ALIKE = 1e-3


def scaling_of(
    plan: Plan,
    a: np.ndarray,
    b: np.ndarray | PackedOperand,
    workspace: Any,
    nbytes: int,
    spare: float,
    others: tuple[np.ndarray | None, Any, Any],
    units: Units,
) -> Scaling | None:
    """Return how the operands are scaled; None: the product must be classical.

    `workspace`, `nbytes`, `spare`: as for `choose_scaling`. `units`: those of
    `sampled_units`.
    `others`: c, alpha and beta, which count only where integers are multiplied by float64.
    """
    if plan.method.arithmetic is INT64_BY_FLOAT64:
        return Scaling() if _fits_float64(plan, a, b, *others) else None
    passes = plan.method.layout.segments if may_centre(plan) else ()

    def scaled(units: Units) -> Scaling | None:
        how = (partial(_measure, plan, units), workspace, nbytes, spare, passes)
        return choose_scaling(plan, a, b, *how, units=units)

    return settled(plan, a, b, partial(_measure, plan, NONE), scaled, units)


def sampled_units(plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand) -> Units:
    """Return the units of operands."""
    return units_of(plan, a, b, partial(_measure, plan, NONE))


def plain_limits(plan: Plan) -> tuple[float, ...] | None:
    """Return what makes operands plain, as the engine measures them while it forms their panels.

    It stops where they are not: where `scaling_of`, or units, may have something to do. None: they
    are measured before.
    """
    guards, centres, method = may_even(plan), may_centre(plan), plan.method
    if not (guards or centres) or method.splits > 1:
        return None
    if plan.options.workspace_limit is not None or not method.layout.plain_nbytes:
        return None
    return (
        LOST if guards else inf,
        _SAMPLED_MEAN if centres else inf,
        _SAMPLED_SPREAD if guards else inf,
        *((LEAST, NOISE) if centres else (inf, inf)),
        *((UNSEEN**2, _EVEN, SCALED_FROM**2) if guards else (inf, inf, inf)),
    )


def multiplied(
    plan: Plan, a: np.ndarray, b: np.ndarray, limits: tuple[float, ...], call: Callable[..., Any]
) -> tuple[bool | None, Units]:
    """Call the engine for operands that may be plain, and for their units if it finds any.

    Returns what it does: None if they are not plain; and their units.
    """
    found, units = call(plain=limits), NONE
    if found is None and may_even(plan):
        units = sampled_units(plan, a, b)
        if units:
            found = call(plain=(inf, *limits[1:]), units=of_engine(plan, units))
    return found, units


def of_engine(plan: Plan, units: Units | None, own: DType | None = None) -> tuple[Any, Any] | None:
    """Return units as the engine takes them for products, or for elements of their own type."""
    if not units:
        return None
    row = plan.operand.summed if own is None else own.accumulator
    kind = (row.part or row).numpy
    return units.of_a.astype(kind), None if units.of_b is None else units.of_b.astype(kind)


def norms_to_pack(b: np.ndarray, plan: Plan, passes: Passes) -> tuple[np.ndarray, Totals | None]:
    """Return what is known of the columns; norms of NaN: pack b for four real products."""
    squares, sums = np.empty(b.shape[1]), None
    ends = all_ends(passes)
    if len(ends) and may_centre(plan):
        sums = np.empty((2, len(ends), b.shape[1]))
    if _measure(plan, NONE, b, 1, squares, ends, sums) < LEAST_COMPONENT:
        _log.debug("falcon: b is packed for four real products: components differ by too much")
        squares[...] = np.nan
    return squares, None if sums is None else Totals(sums, sample(b).copy())


def _fits_float64(
    plan: Plan, a: np.ndarray, b: Any, c: np.ndarray | None, alpha: int, beta: int
) -> bool:
    """Whether all numbers that the plan forms are integers of 53 bits.

    By Cauchy-Schwarz, no sum of products exceeds the product of the norms of its row and column.
    """
    kind, norms = plan.operand.engine, []
    for x, axis in ((a, 0), (b, 1)):
        squares = np.empty(x.shape[axis])
        _core.norms(x, squares, axis, plan.threads, isa(), kind)
        norms.append(1.000001 * float(squares.max()) ** 0.5)  # the squares were rounded
    of_a, of_b, of_c = largest_sums(plan.scheme)
    most = max(1, abs(alpha)) * of_c * norms[0] * norms[1]
    if c is not None:
        most += abs(beta) * max(abs(int(c.max())), abs(int(c.min())))
    return max(most, of_a * norms[0], of_b * norms[1], abs(alpha), abs(beta)) < 2**53


def _measure(
    plan: Plan,
    units: Units,
    x: Any,
    axis: int,
    squares: np.ndarray,
    ends: np.ndarray,
    sums: np.ndarray | None,
) -> float:
    """Measure squared norms: `falcon._core.scaling.Measure`."""
    share, kind, powers = 1.0, plan.problem.operand.left, units.of_b if axis else units.of_a
    is_finer = plan.operand.summed.unit_roundoff < kind.accumulator.unit_roundoff
    is_finer = is_finer and not kind.is_complex  # of which means are not subtracted
    given = (of_engine(plan, units, None if is_finer else kind) or (None, None))[axis]
    if kind.is_complex:
        components = _of_components(x, plan, axis, given)
        np.add(components[0], components[1], out=squares)
        share = _smaller_component(components)
    else:
        how = (axis, plan.threads, isa(), plan.operand.engine if is_finer else None)
        _core.norms(x, squares, *how, cuts=np.concatenate(([0], ends)), totals=sums, units=given)
    remeasure(x, axis, squares, powers)
    return share


def roundings(x: np.ndarray, axis: int, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return how many roundings sums of rows (axis 0) or columns (1) have, and their squared norms.

    NaN of lines that cannot be measured.
    """
    row, steps = plan.operand, plan.method.slice or max(plan.problem.K, 1)
    x = readable(x, row.right if axis else row.left)
    x, parts = x.T if axis else x, 1
    if row.is_complex:
        real = np.dtype(x.real.dtype)
        if x.strides[0] == x.itemsize:  # twice as many lines, real and imaginary ones in turn
            x = x.T.view(real).T
        else:
            x, parts = np.ascontiguousarray(x).view(real), 2
    found = np.empty((4, len(x)))
    _core.roundings(x, found, steps, 0, plan.threads, isa(), row.engine, parts)
    squares, counts = found[:2]
    if not row.is_complex or parts == 2:
        return counts, squares
    # The sum of two squares is at most twice that of their squares.
    both = squares.reshape(-1, 2).sum(axis=1)
    with np.errstate(all="ignore"):
        share = np.nan_to_num(squares.reshape(-1, 2) / both[:, None], nan=0.0)
    return 2 * (counts.reshape(-1, 2) * share**2).sum(axis=1), both


def most_parallel(
    c: np.ndarray, squares: tuple[np.ndarray, np.ndarray], count: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of entries that are largest over the norms: `CpuBackend`."""
    nothing = np.zeros(0, int)
    if c.strides[1] != c.itemsize and c.strides[0] == c.itemsize:
        columns, rows = most_parallel(c.T, squares[::-1], count, threads)
        return rows, columns
    if c.strides[1] != c.itemsize or not is_aligned(c) or not c.dtype.isnative:
        return nothing, nothing
    real, is_complex = c.real.dtype, c.dtype.kind == "c"
    if real not in (np.float32, np.float64):
        return nothing, nothing
    found = np.empty(len(c))
    with np.errstate(all="ignore"):
        inverse = [np.nan_to_num(1 / np.sqrt(x), nan=0.0, posinf=0.0, neginf=0.0) for x in squares]
        by = inverse[1].astype(real)
        view, factors = (c.view(real), by.repeat(2)) if is_complex else (c, by)
        _core.peaks(view, factors, found, threads, isa())
        found *= inverse[0]
        order = np.argsort(-found)
        # Of many that are as parallel some of all sizes: of those roundings took from some.
        least = (1 - _ALIKE) * found[order[:count][-1]]
        alike = int(np.searchsorted(-found[order], -least, "right"))
        rows = order[np.unique(np.linspace(0, max(alike, 1) - 1, count).astype(int))]
        return rows, (np.abs(c[rows]) * by).argmax(axis=1)


def _of_components(x: np.ndarray, plan: Plan, axis: int, units: np.ndarray | None) -> np.ndarray:
    """Return the squared norms of the real and of the imaginary components of complex lines."""
    real, x = np.dtype(x.real.dtype), x.T if axis else x
    squares = np.empty((2, len(x)))
    if x.strides[1] == x.itemsize:  # lines of real numbers, twice as long
        twice = None if units is None else units.repeat(2)
        _core.norms(x.view(real), squares, 0, plan.threads, isa(), units=twice)
    elif x.strides[0] == x.itemsize:  # twice as many lines, real and imaginary ones in turn
        in_turn = np.empty((len(x), 2))
        view = x.T.view(real)
        _core.norms(view, in_turn.reshape(-1), 1, plan.threads, isa(), units=units)
        squares[...] = in_turn.T
    else:
        for y, sums in zip((x.real, x.imag), squares, strict=True):
            _core.norms(y, sums, 0, plan.threads, isa(), units=units)
    return squares


def _smaller_component(squares: np.ndarray) -> float:
    """Return the median ratio of the smaller to the larger component's norm."""
    low, high = squares.min(axis=0), squares.max(axis=0)
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.median((low / high)[high > 0]))) if high.any() else 1.0
