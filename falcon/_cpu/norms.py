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
    if not guarded and split is None:
        return Scaling(columns=None if packed is None else packed.column_powers)
    M, N = plan.problem.M, plan.problem.N
    needed = M if packed is not None else M + N
    if 8 * needed > nbytes and guarded:
        return None
    is_separate = 8 * needed > nbytes  # a small product's
    room = np.empty(needed) if is_separate else np.frombuffer(workspace, np.float64, needed)
    rows = squared_norms(a, plan, 0, room[:M])
    if packed is None:
        columns = squared_norms(b, plan, 1, room[M:])
    else:
        columns = np.ones(1) if packed.column_norms is None else packed.column_norms
    if split is not None and any(((x > 0) & (x < _LEAST_SPLIT)).any() for x in (rows, columns)):
        return None
    if not guarded:
        return Scaling(columns=None if packed is None else packed.column_powers)
    return judged(plan, rows, columns, packed)


def squared_norms(x: Any, plan: Plan, axis: int, found: np.ndarray) -> np.ndarray:
    """Write the squared norms of the rows (axis 0) or columns of an array of the engine's."""
    _core.norms(x, found, axis, plan.threads, isa())
    return mended(_as_dtype(x, plan.problem.operand.left), axis, found)


def _as_dtype(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an array of the engine's with its own dtype: the inverse of `engine_view`."""
    return x if dtype.engine_view is None else x.view(dtype.numpy)
