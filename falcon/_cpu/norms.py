"""Norms of operands by the engine, and how they are scaled before a scheme of "auto" runs."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from falcon._core.arithmetic import WHOLE
from falcon._core.look import judged, mended
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.spread import Scaling

from . import _core
from .extension import isa
from .rounding import largest_sums

_log = logging.getLogger("falcon")

# Tiles take subnormal parts, products and sums for 0. That is less than a rounding where a line's
# squared norm, and the product of a row's and a column's, are larger.
_LEAST_LINE, _LEAST_PRODUCT = 2.0**-180, 2.0**-200
# Three real products keep the error of a complex number small, four that of each of its parts.
# These run where the smaller part of most lines of A, and of most lines of B, is a small share of
# the larger one: where both shares together are less than this, real or imaginary parts of C are
# so much smaller than C.
_LEAST_EVEN = 0.125
_UNEVEN = "real and imaginary parts differ by too much"


def scaling_of(
    plan: Plan,
    a: np.ndarray,
    b: np.ndarray | PackedOperand,
    workspace: Any,
    nbytes: int,
    others: tuple[np.ndarray | None, Any, Any],
) -> Scaling | None:
    """Return how the operands are scaled; None: the product must be classical.

    `others` are c, alpha and beta, which count only where integers are multiplied by float64.

    Norms are formed in the workspace, which nothing else needs yet. Only `nbytes` of it are used,
    even if the pool had a larger one, so that results do not depend on earlier calls.
    """
    packed = b if isinstance(b, PackedOperand) else None
    guarded, split = plan.scheme is not None and plan.guarded, plan.problem.operand.arithmetic
    if split is WHOLE:
        return Scaling() if _fits_float64(plan, a, b, *others) else None
    if not guarded and split is None:
        return Scaling(columns=None if packed is None else packed.column_powers)
    M, N = plan.problem.M, plan.problem.N
    needed = M if packed is not None else M + N
    if 8 * needed > nbytes and guarded:
        return None
    is_short = 8 * needed > nbytes  # a small product's
    room = np.empty(needed) if is_short else np.frombuffer(workspace, np.float64, needed)
    rows, even = _measured(a, plan, 0, room[:M])
    if packed is None:
        columns, of_b = _measured(b, plan, 1, room[M:])
        if even + of_b < _LEAST_EVEN:
            _log.debug("falcon: %s takes four real products: %s", plan.problem, _UNEVEN)
            return None
    else:
        columns = np.ones(1) if packed.column_norms is None else packed.column_norms
    if split is not None:
        least = [x[x > 0].min(initial=1.0) for x in (rows, columns)]
        if min(least) < _LEAST_LINE or least[0] * least[1] < _LEAST_PRODUCT:
            return None
    if not guarded:
        return Scaling(columns=None if packed is None else packed.column_powers)
    return judged(plan, rows, columns, packed)


def _fits_float64(
    plan: Plan, a: np.ndarray, b: Any, c: np.ndarray | None, alpha: int, beta: int
) -> bool:
    """Whether all numbers that the plan forms are integers of 53 bits.

    By Cauchy-Schwarz, no sum of products exceeds the product of the norms of its row and column.
    """
    kind, norms = plan.problem.operand.engine, []
    for x, axis in ((a, 0), (b, 1)):
        squares = np.empty(x.shape[axis])
        _core.norms(x, squares, axis, plan.threads, isa(), kind)
        norms.append(1.000001 * float(squares.max()) ** 0.5)  # the squares were rounded
    of_a, of_b, of_c = largest_sums(plan.scheme)
    most = max(1, abs(alpha)) * of_c * norms[0] * norms[1]
    if c is not None:
        most += abs(beta) * max(abs(int(c.max())), abs(int(c.min())))
    return max(most, of_a * norms[0], of_b * norms[1], abs(alpha), abs(beta)) < 2**53


def norms_to_pack(b: np.ndarray, plan: Plan) -> np.ndarray:
    """Return the squared norms of the columns; NaN: b must be packed for four real products."""
    found, even = _measured(b, plan, 1, np.empty(b.shape[1]))
    if even < _LEAST_EVEN:
        _log.debug("falcon: b is packed for four real products: %s", _UNEVEN)
        found[...] = np.nan
    return found


def _measured(x: Any, plan: Plan, axis: int, found: np.ndarray) -> tuple[np.ndarray, float]:
    """Write squared norms of rows (axis 0) or columns; return them and how even parts are."""
    even = 1.0
    if plan.problem.operand.is_complex:
        parts = _parts(x, plan, axis)
        even = _evenness(parts)
        np.add(parts[0], parts[1], out=found)
    else:
        _core.norms(x, found, axis, plan.threads, isa())
    return mended(x, axis, found), even


def _parts(x: np.ndarray, plan: Plan, axis: int) -> np.ndarray:
    """Return the squared norms of the real and of the imaginary parts of complex lines."""
    part, x = np.dtype(x.real.dtype), x.T if axis else x
    found = np.empty((2, len(x)))
    if x.strides[1] == x.itemsize:  # lines of real numbers, twice as long
        _core.norms(x.view(part), found, 0, plan.threads, isa())
    elif x.strides[0] == x.itemsize:  # twice as many lines, real and imaginary parts in turn
        in_turn = np.empty((len(x), 2))
        _core.norms(x.T.view(part), in_turn.reshape(-1), 1, plan.threads, isa())
        found[...] = in_turn.T
    else:
        for y, sums in zip((x.real, x.imag), found, strict=True):
            _core.norms(y, sums, 0, plan.threads, isa())
    return found


def _evenness(parts: np.ndarray) -> float:
    """Return the median ratio of the smaller to the larger part's norm."""
    low, high = parts.min(axis=0), parts.max(axis=0)
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.median((low / high)[high > 0]))) if high.any() else 1.0
