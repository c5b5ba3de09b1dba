"""Norms of operands by the engine, which say how they are scaled and multiplied."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np

from falcon._core.arithmetic import INT64_BY_FLOAT64
from falcon._core.centring import Passes, Totals, all_ends, may_centre, sample
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.scaling import LEAST_COMPONENT, Scaling, choose_scaling, remeasure

from . import _core
from .extension import isa
from .rounding import largest_sums

_log = logging.getLogger("falcon")


def scaling_of(
    plan: Plan,
    a: np.ndarray,
    b: np.ndarray | PackedOperand,
    workspace: Any,
    nbytes: int,
    others: tuple[np.ndarray | None, Any, Any],
) -> Scaling | None:
    """Return how the operands are scaled; None: the product must be classical.

    `workspace`, `nbytes`: as for `choose_scaling`.
    `others`: c, alpha and beta, which count only where integers are multiplied by float64.
    """
    if plan.method.arithmetic is INT64_BY_FLOAT64:
        return Scaling() if _fits_float64(plan, a, b, *others) else None
    passes = plan.method.layout.segments if may_centre(plan) else ()
    return choose_scaling(plan, a, b, partial(_measure, plan), workspace, nbytes, passes)


def norms_to_pack(b: np.ndarray, plan: Plan, passes: Passes) -> tuple[np.ndarray, Totals | None]:
    """Return what is known of the columns; norms of NaN: pack b for four real products."""
    squares, sums = np.empty(b.shape[1]), None
    ends = all_ends(passes)
    if len(ends) and may_centre(plan):
        sums = np.empty((2, len(ends), b.shape[1]))
    if _measure(plan, b, 1, squares, ends, sums) < LEAST_COMPONENT:
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
    plan: Plan, x: Any, axis: int, squares: np.ndarray, ends: np.ndarray, sums: np.ndarray | None
) -> float:
    """Measure squared norms: `falcon._core.scaling.Measure`."""
    share, kind = 1.0, plan.problem.operand.left
    if kind.is_complex:
        components = _of_components(x, plan, axis)
        np.add(components[0], components[1], out=squares)
        share = _smaller_component(components)
    else:
        how = (axis, plan.threads, isa())
        _core.norms(x, squares, *how, cuts=np.concatenate(([0], ends)), totals=sums)
    remeasure(x, axis, squares)
    return share


def _of_components(x: np.ndarray, plan: Plan, axis: int) -> np.ndarray:
    """Return the squared norms of the real and of the imaginary components of complex lines."""
    real, x = np.dtype(x.real.dtype), x.T if axis else x
    squares = np.empty((2, len(x)))
    if x.strides[1] == x.itemsize:  # lines of real numbers, twice as long
        _core.norms(x.view(real), squares, 0, plan.threads, isa())
    elif x.strides[0] == x.itemsize:  # twice as many lines, real and imaginary ones in turn
        in_turn = np.empty((len(x), 2))
        _core.norms(x.T.view(real), in_turn.reshape(-1), 1, plan.threads, isa())
        squares[...] = in_turn.T
    else:
        for y, sums in zip((x.real, x.imag), squares, strict=True):
            _core.norms(y, sums, 0, plan.threads, isa())
    return squares


def _smaller_component(squares: np.ndarray) -> float:
    """Return the median ratio of the smaller to the larger component's norm."""
    low, high = squares.min(axis=0), squares.max(axis=0)
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.median((low / high)[high > 0]))) if high.any() else 1.0
