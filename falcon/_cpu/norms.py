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


def scaling_of(
    plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand, workspace: Any, nbytes: int
) -> Scaling | None:
    """Return how the operands are scaled; None: the product must be classical.

    Norms are formed in the workspace, which nothing else needs yet. Only `nbytes` of it are used,
    even if the pool had a larger one, so that results do not depend on earlier calls.
    """
    packed = b if isinstance(b, PackedOperand) else None
    if plan.scheme is None or not plan.guarded:
        return Scaling(columns=None if packed is None else packed.column_powers)
    M, N = plan.problem.M, plan.problem.N
    needed = M if packed is not None else M + N
    if 8 * needed > nbytes:
        return None
    room = np.frombuffer(workspace, np.float64, needed)
    rows = squared_norms(a, plan, 0, room[:M])
    columns = packed.scales if packed is not None else squared_norms(b, plan, 1, room[M:])
    return judged(plan, rows, columns, packed)


def squared_norms(x: Any, plan: Plan, axis: int, found: np.ndarray) -> np.ndarray:
    """Write the squared norms of the rows (axis 0) or columns of an array of the engine's."""
    if plan.problem.operand.is_complex:
        _complex_norms(x, plan, axis, found)
    else:
        _core.norms(x, found, axis, plan.threads, isa())
    return mended(_named(x, plan.problem.operand), axis, found)


def _complex_norms(x: np.ndarray, plan: Plan, axis: int, found: np.ndarray) -> None:
    """Write squared norms of complex rows or columns: those of both parts together."""
    part = plan.problem.operand.part
    assert part is not None  # for type checkers
    if axis == 1:
        x = x.T
    if x.strides[1] == x.itemsize:  # lines of real numbers, twice as long
        _core.norms(x.view(part.numpy), found, 0, plan.threads, isa())
        return
    parts = np.empty((2, len(x)))
    if x.strides[0] == x.itemsize:  # twice as many lines, real and imaginary parts in turn
        in_turn = parts.reshape(-1)
        _core.norms(x.T.view(part.numpy), in_turn, 1, plan.threads, isa())
        parts = in_turn.reshape(-1, 2).T
    else:
        for y, sums in zip((x.real, x.imag), parts, strict=True):
            _core.norms(y, sums, 0, plan.threads, isa())
    np.add(*parts, out=found)


def _named(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an array of the engine's with its own dtype: the inverse of `seen`."""
    return x if dtype.engine_view is None else x.view(dtype.numpy)
