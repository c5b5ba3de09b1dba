"""`settled`: what is done to the operands of one product before a scheme adds their blocks.

::

    units along K (units.py) --> means (centring.py) --> scales of rows and columns (scaling.py)

Units come from a sample. Where rows or columns turn out so uneven that it may have missed the large
ones, norms along K are measured in full.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .centring import Centring, Passes, Totals, all_ends, choose_centring, sample
from .ladder import is_bound
from .packed import PackedOperand
from .plan import Plan
from .problem import Problem
from .scaling import SCALED_FROM, UNSCALED, Lines, Scaling, equilibrated, is_wide
from .units import NONE, Measure, Units, chosen, fits, may_even, measured, measured_here, of_packed

_log = logging.getLogger("falcon")

# Kernels for splits take subnormal splits, products and sums for 0. That is less than a rounding
# where a line's squared norm, and the product of a row's and a column's, are larger.
# (Kernels for float64 as float32 lose bits there, those for float32 as float64 nothing.)
_LEAST_LINE, _LEAST_PRODUCT, _DOUBLE = 2.0**-180, 2.0**-200, 2.0**-53
# Three real products keep the error of a complex number small, four that of each of its components.
# These run where the smaller component of most lines of A, and of most lines of B, is a small share
# of the larger one: where both shares together are less than this, real or imaginary parts of C are
# so much smaller than C.
LEAST_COMPONENT = 0.125


def units_of(plan: Plan, a: np.ndarray, b: Any, measure: Measure) -> Units:
    """Return the units that samples of operands ask for.

    This needs memory that counts within a limit, but before the workspace is taken.
    """
    if isinstance(b, PackedOperand):
        return of_packed(b.units)
    return chosen(plan, a, b, measure) if may_even(plan) else NONE


def settled(
    plan: Plan,
    a: np.ndarray,
    b: Any,
    measure: Measure,
    scaled: Callable[[Units], Scaling | None],
    units: Units,
) -> Scaling | None:
    """Return how operands are multiplied; None: the product must be classical.

    `scaled`: `choose_scaling` of operands whose units are even. `units`: what `units_of` returns.
    """
    found = scaled(units)
    if found is None:
        return None
    is_packed = isinstance(b, PackedOperand)
    if is_packed:
        of_b = b.row_norms if plan.guarded else None
    else:
        of_b = measured(measure, b, 0) if may_even(plan) and found.is_wide else None
    if of_b is None:
        return replace(found, units=units) if units else found
    sizes = [measured(measure, a, 1), of_b]
    is_open = not (units or is_packed or plan.options.workspace_limit)
    if is_open and not fits(plan, units, sizes):
        units = chosen(plan, a, b, measure, always=True)
        found = scaled(units)
    if found is not None and fits(plan, units, sizes):
        return replace(found, units=units)
    _log.debug("falcon: %s is multiplied classically: nothing evens its units", plan.problem)
    return None


def row_norms_to_pack(b: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """Return squared norms of the rows of a B to be packed, if those of columns ask for them."""
    return measured(measured_here, b, 0) if is_wide(columns) else None


def choose_scaling(
    plan: Plan,
    a: Any,
    b: Any,
    measure: Measure,
    workspace: Any,
    nbytes: int,
    spare: float,
    passes: Passes,
    blocks: tuple[int | None, int | None] = (None, None),
    units: Units = NONE,
) -> Scaling | None:
    """Return how operands of a plan are centred and scaled; None: the product must be classical.

    `a`, `b`: what `measure` takes, or a `PackedOperand` whose columns are scaled already.
    `workspace`: memory that nothing else needs yet. Only `nbytes` of it are used, even if it is
    larger, so that results do not depend on earlier calls, nor on threads.
    `spare`: bytes that a limit leaves beside the workspace for means.
    `passes`: the segments of K whose lines may have a mean each, as in `Centring`; empty: none.
    `blocks`: rows and columns of a block, as in `Lines`.
    `units`: by which `measure` multiplies operands first.
    """
    packed, p = b if isinstance(b, PackedOperand) else None, plan.problem
    unscaled = UNSCALED if packed is None else Scaling(columns=packed.column_powers)
    guard = Guard.of(plan, packed, passes)
    if not any(guard):
        return unscaled
    lines = p.M if packed is not None else p.M + p.N
    passes = _affordable(passes, lines, packed, nbytes) if guard.centres else ()
    ends = all_ends(passes)
    if 8 * lines <= nbytes:
        memory = np.frombuffer(workspace, np.float64, lines * (1 + 2 * len(ends)))
    elif guard.scales:
        return None
    else:  # a small product's
        memory = np.empty(lines)
    found = _measured(p, a, b, measure, memory, ends)
    if found is None or (guard.splits and not _holds_splits(*found.squares)):
        return None
    centring = None
    if passes and found.is_finite:
        known = _totals(found, a, b, units)
        centring = _centring(plan, passes, found.squares, known, packed is not None, spare)
    rows, columns = found.squares
    # An error that is named is that over the norms with means: what is left of constant lines would
    # count as much as others, and the roundings of their products have one sign.
    if centring is not None and not is_bound(p, plan.options):
        rows *= centring.residues[0]
        columns = columns * centring.residues[1]
    scaling = _by_norms(plan, rows, columns, packed, blocks) if guard.scales else unscaled
    if scaling is None or (centring is None and not is_wide(rows, columns)):
        return scaling
    return replace(scaling, centring=centring, is_wide=is_wide(rows, columns))


class Guard(NamedTuple):
    """What is asked of operands before a scheme adds their lines."""

    scales: bool  # norms that differ by too much are evened
    splits: bool  # norms are such that kernels for splits lose nothing
    centres: bool  # means are subtracted

    @classmethod
    def of(cls, plan: Plan, packed: PackedOperand | None, passes: Passes) -> Guard:
        scales = plan.guarded and plan.scheme is not None
        centres = bool(passes) and (packed is None or packed.column_totals is not None)
        splits = plan.method.arithmetic is not None and plan.operand.rounded.unit_roundoff > _DOUBLE
        return cls(scales, splits, centres)


class Measured(NamedTuple):
    """What passes over operands found: squared norms and sums (None: none) of A's and B's lines."""

    squares: tuple[np.ndarray, np.ndarray]
    sums: list[Any]
    is_finite: bool  # all norms that were measured now


def _affordable(passes: Passes, lines: int, packed: Any, nbytes: int) -> Passes:
    """Return the segments whose sums these bytes hold beside norms: all, the last ones, or none."""
    if 8 * lines * (1 + 2 * sum(map(len, passes))) <= nbytes:
        return passes
    # Of a packed operand's segments, the sums are known.
    fits = packed is None and 8 * lines * (1 + 2 * len(passes)) <= nbytes
    return [x[-1:] for x in passes] if fits else ()


def _measured(
    p: Problem, a: Any, b: Any, measure: Measure, memory: np.ndarray, ends: np.ndarray
) -> Measured | None:
    """Measure operands; None: complex ones take four real products."""
    count, lines = len(ends), len(memory) // (1 + 2 * len(ends))
    (rows, columns), of_lines = np.split(memory[:lines], [p.M]), memory[lines:]
    parts = np.split(of_lines, [2 * count * p.M])
    sums = [x.reshape(2, count, -1) if count else None for x in parts]
    component = measure(a, 0, rows, ends, sums[0])
    if isinstance(b, PackedOperand):
        columns = np.ones(1) if b.column_norms is None else b.column_norms
        sums[1] = b.column_totals
    elif component + measure(b, 1, columns, ends, sums[1]) < LEAST_COMPONENT:
        _log.debug("falcon: %s takes four real products: components differ by too much", p)
        return None
    return Measured((rows, columns), sums, bool(np.isfinite(memory[:lines]).all()))


def _holds_splits(*squares: np.ndarray) -> bool:
    """Whether what kernels for splits take for 0 is less than a rounding; NaN is not known."""
    if any(np.isnan(x).any() for x in squares):
        return False
    least = [x[x > 0].min(initial=1.0) for x in squares]
    return bool(min(least) >= _LEAST_LINE and least[0] * least[1] >= _LEAST_PRODUCT)


def _totals(found: Measured, a: Any, b: Any, units: Units) -> tuple[Totals, Totals]:
    """Return what is known of operands beside their norms."""
    if isinstance(b, PackedOperand):
        return Totals(found.sums[0], sample(a)), found.sums[1]
    of_units = (units.of_a, units.of_b[:, None]) if units else (None, None)
    pairs = zip(found.sums, (a, b), of_units, strict=True)
    of_a, of_b = (Totals(sums, sample(x, factors)) for sums, x, factors in pairs)
    return of_a, of_b


def _centring(
    plan: Plan,
    passes: Passes,
    squares: Any,
    totals: tuple[Totals, Totals],
    only_a: bool,
    spare: float,
) -> Centring | None:
    """Return what is subtracted, if that takes no more than the spare bytes."""
    kind = plan.operand.summed.numpy
    with np.errstate(all="ignore"):
        found = choose_centring(kind, passes, squares, totals, only_a=only_a)
    if found is None or found.nbytes > spare:
        return None
    left = [float(np.sqrt(np.mean(x))) for x in found.residues]
    text = "falcon: %s is centred: %.2f and %.2f of the norms of A and B are left"
    _log.debug(text, plan.problem, *left)
    return found


def _by_norms(
    plan: Plan,
    rows: np.ndarray,
    columns: np.ndarray,
    packed: PackedOperand | None,
    blocks: tuple[int | None, int | None],
) -> Scaling | None:
    """Return how operands of these squared norms are scaled; `choose_scaling` has the rest."""
    p, scheme, chunks = plan.problem, plan.scheme, plan.method.chunks
    if not (np.isfinite(rows).all() and np.isfinite(columns).all()):
        _log.debug("falcon: %s is multiplied classically: some norms cannot be measured", p)
        return None
    of_a = Lines(rows, scheme.m, chunks[0], blocks[0])
    of_b = Lines(columns, scheme.n, chunks[1], blocks[1])
    if packed is None:
        powers = equilibrated((of_a, of_b), SCALED_FROM)
    else:
        powers = equilibrated((of_a,), SCALED_FROM / of_b.spread)
    if any(x is not None and ((x != 0) & (x != 1)).any() for x in powers):
        _log.debug(
            "falcon: %s is scaled: %s would add rows of A whose norms differ by a factor of %.3g "
            "and columns of B by %.3g (root mean square over least)",
            *(p, scheme.name, of_a.spread, of_b.spread),
        )
    scaling = Scaling(powers[0], powers[1] if packed is None else packed.column_powers)
    if not scaling.fits(plan.operand.rounded):
        _log.debug("falcon: %s is multiplied classically: its norms differ by too much", p)
        return None
    return scaling
