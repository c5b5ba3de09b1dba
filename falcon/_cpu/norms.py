"""Norms of operands by the engine, and how they are scaled before a scheme of "auto" runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.look import judged, mended
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.spread import Scaling

from . import _core
from .extension import isa
from .rounding import largest_sums

# Squared norms of lines below it, and some of their elements, have parts that tiles take for 0.
_LEAST_SPLIT = 2.0**-180


def scaling_of(
    plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand, workspace: Any, nbytes: int
) -> Scaling | None:
    """Return how the operands are scaled; None: the product must be classical.

    Norms are formed in the workspace, which nothing else needs yet. Only `nbytes` of it are used,
    even if the pool had a larger one, so that results do not depend on earlier calls.
    """
    packed = b if isinstance(b, PackedOperand) else None
    guarded, split = plan.scheme is not None and plan.guarded, plan.problem.operand.arithmetic
    if plan.problem.is_exact or (not guarded and split is None):
        return Scaling(columns=None if packed is None else packed.column_powers)
    M, N = plan.problem.M, plan.problem.N
    needed = M if packed is not None else M + N
    if 8 * needed > nbytes and guarded:
        return None
    own = 8 * needed > nbytes  # a small product's
    room = np.empty(needed) if own else np.frombuffer(workspace, np.float64, needed)
    rows = squared_norms(a, plan, 0, room[:M])
    if packed is None:
        columns = squared_norms(b, plan, 1, room[M:])
    else:
        columns = np.ones(1) if packed.scales is None else packed.scales
    if split is not None and any(((x > 0) & (x < _LEAST_SPLIT)).any() for x in (rows, columns)):
        return None
    if not guarded:
        return Scaling(columns=None if packed is None else packed.column_powers)
    return judged(plan, rows, columns, packed)


def fits_float64(
    plan: Plan, a: np.ndarray, b: Any, c: np.ndarray | None, scalars: tuple[int, int]
) -> bool:
    """Whether all numbers that the plan forms are integers of 53 bits.

    By Cauchy-Schwarz, no sum of products exceeds the product of the norms of its row and column.
    """
    M, N = plan.problem.M, plan.problem.N
    found = np.empty(M + N)
    for x, axis, norms in ((a, 0, found[:M]), (b, 1, found[M:])):
        _core.norms(x, norms, axis, plan.threads, isa(), plan.problem.operand.engine)
    # The squares were rounded.
    left, right = (1.000001 * float(x.max()) ** 0.5 for x in (found[:M], found[M:]))
    of_a, of_b, of_c = largest_sums(plan.scheme)
    alpha, beta = scalars
    most = max(1, abs(alpha)) * of_c * left * right
    if c is not None:
        most += abs(beta) * max(abs(int(c.max())), abs(int(c.min())))
    return max(most, of_a * left, of_b * right, abs(alpha), abs(beta)) < 2**53


def squared_norms(x: Any, plan: Plan, axis: int, found: np.ndarray) -> np.ndarray:
    """Write the squared norms of the rows (axis 0) or columns of an array of the engine's."""
    _core.norms(x, found, axis, plan.threads, isa())
    return mended(_named(x, plan.problem.operand.left), axis, found)


def _named(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an array of the engine's with its own dtype: the inverse of `seen`."""
    return x if dtype.engine_view is None else x.view(dtype.numpy)
