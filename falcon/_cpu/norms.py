"""Norms of operands by the engine, which say how they are scaled and multiplied."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np

from falcon._core.arithmetic import INT64_BY_FLOAT64
from falcon._core.centring import (
    Passes,
    Totals,
    all_ends,
    choose_centring,
    may_centre,
    sample,
)
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.scaling import (
    LEAST_COMPONENT,
    SCALED_FROM,
    Lines,
    Scaling,
    choose_scaling,
    equilibrated,
    is_wide,
    remeasure,
)
from falcon._core.settle import settled, units_of
from falcon._core.units import NONE, Units, chosen, norms_if_even, sampled

from . import _core
from .extension import isa
from .rounding import largest_sums

_log = logging.getLogger("falcon")

# Bytes of both operands from which they are measured while panels are formed: a pass over what the
# caches do not hold takes longer than a second call and these functions (1500^3 float32: 1.4 ms,
# 6 % of the product). Where a sample of some lines has a mean of this share (squared,
# of its mean square; 16 elements without one come to 1/16), or rows that differ so, they are
# measured before: the panels would have to be formed again.
_FUSED = 8 << 20
_SAMPLED_MEAN, _SAMPLED_SPREAD = 0.2, 16.0


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
    `sampled_units`, or of `forms`.
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


def may_fuse(plan: Plan) -> bool:
    """Whether the operands are worth measuring while their panels are formed."""
    p, method = plan.problem, plan.method
    size = (p.M + p.N) * p.K * p.operand.itemsize
    wanted = (plan.guarded and plan.scheme is not None) or may_centre(plan)
    plain = method.arithmetic is None and plan.options.workspace_limit is None
    return wanted and plain and size >= _FUSED and method.layout.slices is not None


def forms(
    plan: Plan, a: np.ndarray, b: np.ndarray, c: np.ndarray, workspace: Any
) -> tuple[bool, Units]:
    """Form the panels in the workspace and measure the operands meanwhile.

    Returns whether they are to be multiplied so, and their units: False where a sample, or then the
    norms and sums, say that lines are scaled or centred, or that the product must be classical.
    """
    samples, units = (sampled(a), sampled(b.T)), NONE
    norms = norms_if_even(plan, samples) if plan.guarded else None
    if norms is None and plan.guarded:
        units = chosen(plan, a, b, partial(_measure, plan, NONE))
        samples = units.times(samples[0], 0), units.times(samples[1].T, 1).T
    plain = map(_looks_plain, samples, norms or (None, None))
    return all(plain) and _forms(plan, a, b, c, workspace, units), units


def _forms(
    plan: Plan, a: np.ndarray, b: np.ndarray, c: np.ndarray, workspace: Any, units: Units
) -> bool:
    p, layout = plan.problem, plan.method.layout
    blocks, slices, together = layout.slices or (0, 0, 1)
    sums = [np.zeros((2, blocks * slices, lines)) for lines in (p.M, p.N)]
    if not _core.gemm(
        layout, a, b, c, workspace=workspace, sums=sums, units=of_engine(plan, units)
    ):
        return False
    firsts = [i + s for i in range(0, blocks * slices, slices) for s in range(0, slices, together)]
    least = float(np.finfo(p.operand.accumulator.numpy).tiny) * 2.0**20  # as in norms.c
    with np.errstate(all="ignore"):
        norms = [x[0].sum(axis=0) for x in sums]
    if not all(least <= x.min() and x.max() < np.inf for x in norms):
        return False
    if may_centre(plan):
        of_a, of_b = (np.add.reduceat([x[1], 0 * x[1]], firsts, axis=1) for x in sums)
        factors = (units.of_a, units.of_b[:, None]) if units else (None, None)
        seen = [sample(x, y) for x, y in zip((a, b), factors, strict=True)]
        known = Totals(of_a, seen[0]), Totals(of_b, seen[1])
        kind = p.operand.accumulator.numpy
        if choose_centring(kind, layout.segments, (norms[0], norms[1]), known) is not None:
            return False
    if not plan.guarded:
        return True
    if is_wide(*norms):
        return False
    cut = zip(norms, (plan.scheme.m, plan.scheme.n), layout.chunks[:2], strict=True)
    return not any(x is not None for x in equilibrated([Lines(*x) for x in cut], SCALED_FROM))


def _looks_plain(lines: np.ndarray, norms: np.ndarray | None = None) -> bool:
    """Whether lines of a sample, of these squared norms, have no mean, and like norms."""
    with np.errstate(all="ignore"):
        norms = np.square(lines).sum(axis=1) if norms is None else norms
        sums = lines.sum(axis=1)
        no_mean = np.square(sums).sum() < _SAMPLED_MEAN * lines.shape[1] * norms.sum()
        return bool(no_mean and norms.max() < _SAMPLED_SPREAD * norms.min())


def of_engine(plan: Plan, units: Units | None) -> tuple[Any, Any] | None:
    """Return units as the engine takes them."""
    if not units:
        return None
    row = plan.problem.operand.accumulator
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
    given = (of_engine(plan, units) or (None, None))[axis]
    if kind.is_complex:
        components = _of_components(x, plan, axis, given)
        np.add(components[0], components[1], out=squares)
        share = _smaller_component(components)
    else:
        how = (axis, plan.threads, isa())
        _core.norms(x, squares, *how, cuts=np.concatenate(([0], ends)), totals=sums, units=given)
    remeasure(x, axis, squares, powers)
    return share


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
