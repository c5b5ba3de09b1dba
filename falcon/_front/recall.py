"""Calls whose plan is known without planning: seen before, or NumPy's own call is the plan."""

from __future__ import annotations

from contextvars import Context
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.options import Options, settings
from falcon._core.plan import Plan
from falcon._core.symmetric import is_transpose
from falcon._core.threads import limit_here
from falcon._numpy.threads import exceeds
from falcon.decision.upkeep import is_over

from .execute import counted
from .families.numpy import NUMPY
from .planner import plan_for, planning_state
from .small import OWNDATA
from .validate import overlap

# Ready plans by what the call looked like; a program that uses more shapes than this starts anew.
_MOST_READY = 1024
# What was in force (settings, CPUs, `planning_state`), the plan, whether it is np.matmul.
_ready: dict[tuple, tuple[Options, int, tuple, Plan, bool]] = {}


if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    # A context of its own, in which NumPy is silent; to enter it anew takes half a microsecond less
    # than ``with np.errstate(all="ignore")``.
    _quiet = Context()
    _quiet.run(np.seterr, all="ignore")

    def quiet_matmul(a: Any, b: Any, out: np.ndarray | None) -> np.ndarray:
        """Call np.matmul; overflow and invalid operations show in the result alone, as in BLAS."""
        if out is None:  # allocated as the caller's context says
            out = np.empty((a.shape[0], b.shape[1]), a.dtype)
        product: np.ndarray = _quiet.copy().run(np.matmul, a, b, out)
        return product

else:  # contexts know nothing of it: `seterr` would silence the caller's thread

    def quiet_matmul(a: Any, b: Any, out: np.ndarray | None) -> np.ndarray:
        """Call np.matmul in silence."""
        with np.errstate(all="ignore"):
            product: np.ndarray = np.matmul(a, b, out)
            return product


def recall(a: Any, b: Any, out: Any, arguments: tuple) -> np.ndarray | None:
    """Run a call like one that was seen before; None where it was not, or may differ.

    Shapes, strides, dtypes, alignment, arguments, settings, CPUs and what plans depend on are
    compared; overlap is looked at. Validation and the look-up of a plan cost about 20
    microseconds, this costs 3.

    Parameters
    ----------
    a, b, out
        As the caller gave them; `out` None asks for a new array.
    arguments : tuple
        The options of the call, by keyword.
    """
    if type(a) is not np.ndarray or type(b) is not np.ndarray:
        return None
    if out is not None and type(out) is not np.ndarray:
        return None
    key = _look(a, b, out, arguments)
    try:
        found = _ready.get(key)
    except TypeError:  # an argument that cannot be hashed: validation will name it
        return None
    if found is None:
        return None
    used, cpus, state, plan, plain = found
    if used is not settings() or cpus != limit_here() or state != planning_state():
        return None
    if out is None:
        problem = plan.problem
        kind = problem.result.numpy if problem.is_wide else a.dtype
        out = np.empty((problem.M, problem.N), kind)
    # Arrays that own their memory share none.
    elif (not key[0] & OWNDATA or out is a or out is b) and (overlap(out, a) or overlap(out, b)):
        return None
    if plan.seconds and not is_over(plan.problem):
        with counted(plan.problem):
            plan.execute(a, b, None, out)
        return out
    if plain:
        return quiet_matmul(a, b, out)
    plan.execute(a, b, None, out)
    return out


def _look(a: np.ndarray, b: np.ndarray, out: np.ndarray | None, arguments: tuple) -> tuple:
    """Return what must be equal in calls of one plan, the flags that all arrays have first."""
    x, y = a.flags.num, b.flags.num
    twin = _are_twins(a, b)
    # Flags tell the strides of arrays that are contiguous in one order, not in both.
    if out is None:
        key: tuple = (x & y, a.shape, x, a.dtype, b.shape, y, b.dtype, arguments, twin)
        return key if (x + 1) & (y + 1) & 2 else (*key, a.strides, b.strides)
    z, like = out.flags.num, out.dtype
    shapes = a.shape, b.shape, out.shape
    key = (x & y & z, shapes, x, a.dtype, y, b.dtype, arguments, z, like, twin)
    if (x + 1) & (y + 1) & (z + 1) & 2:
        return key
    return (*key, a.strides, b.strides, out.strides)


def _are_twins(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether b is seen to be the transpose of a in the same memory, which is another Problem."""
    x, y = a.base, b.base
    return (x is b or y is a or (x is not None and x is y)) and is_transpose(a, b)


def remember(
    a: Any,
    b: Any,
    out: np.ndarray | None,
    arguments: tuple,
    types: tuple[DType, DType],
    options: Options,
    result: Any,
) -> None:
    """Keep the plan of a call ``a @ b`` that went well for `recall`, if it is one to be kept.

    `types` are those of `Product`; operands that are cast are not worth it.
    """
    if type(a) is not np.ndarray or type(b) is not np.ndarray:
        return
    if type(result) is not np.ndarray:
        return
    if not (a.dtype == b.dtype == types[0].numpy and result.dtype == types[1].numpy):
        return
    if 0 in a.shape or 0 in result.shape or not a.dtype.isnative or not b.dtype.isnative:
        return
    if not (a.flags.aligned and b.flags.aligned and result.flags.aligned):
        return
    if out is not None and (overlap(out, a) or overlap(out, b)):
        return
    if options.check == "verify":
        return
    problem = NUMPY.problem(a, b, None, None if out is None else result, *types, options)
    plan = plan_for(problem, options)
    if problem.symmetric and not _are_twins(a, b):
        return
    if len(_ready) >= _MOST_READY:
        _ready.clear()
    plain = (
        *(plan.backend.name == "numpy", plan.scheme is None, not problem.buffered),
        *(problem.a_direct, problem.b_direct, not exceeds(problem.threads)),
    )
    # Threads by argument or by settings are compared as such; otherwise CPUs decide.
    in_force = settings(), limit_here(), planning_state()
    _ready[_look(a, b, out, arguments)] = (*in_force, plan, all(plain))
