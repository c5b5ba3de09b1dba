"""What is checked of operands before a scheme of "auto" runs, with norms by the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.look import look
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.spread import Scaling

from . import _core
from .extension import isa, seen


def look_at(
    plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand, workspace: Any, nbytes: int
) -> Scaling | None:
    """Return how the operands are scaled; None: the product must be classical.

    Norms are formed in the workspace, which nothing else needs yet. Only `nbytes` of it are used,
    even if the pool had a larger one, so that results do not depend on earlier calls.
    """
    room = np.frombuffer(workspace, np.float64, nbytes // 8) if nbytes >= 8 else None
    operand = plan.problem.operand
    b = b if isinstance(b, PackedOperand) else named(b, operand)
    return look(plan, named(a, operand), b, measuring(plan), room)


def named(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an array of the engine's with its own dtype: the inverse of `seen`."""
    return x if dtype.engine_view is None else x.view(dtype.numpy)


def measuring(plan: Plan) -> Callable[[np.ndarray, int, np.ndarray], None]:
    operand = plan.problem.operand
    return lambda x, axis, found: _core.norms(seen(x, operand), found, axis, plan.threads, isa())
