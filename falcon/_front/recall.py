"""Repeat calls seen before: look up their plan without validation and planning."""

from __future__ import annotations

from contextvars import Context
from typing import Any

import numpy as np

from falcon._core import observe
from falcon._core.dtypes import DType
from falcon._core.options import Options, settings, threads_of
from falcon._core.plan import Plan
from falcon._core.symmetric import is_transpose
from falcon._core.threads import limit_here
from falcon._numpy import original
from falcon._numpy.threads import exceeds

from .planner import planning_state
from .small import OWNDATA
from .validate import overlap

# Plans by the properties of a call (`_key`); all are dropped when there are this many.
_MOST_READY = 1024
# The settings, CPUs and `planning_state` of the plan; the plan (None: a batch, which np.matmul
# multiplies; of a batch: that of one of its products); whether it is just np.matmul; shape and
# dtype of the result.
_Ready = tuple[Options, int, tuple, Plan | None, bool, tuple[int, ...], np.dtype]
_ready: dict[tuple, _Ready] = {}
# `repeat`, once a product was multiplied on a GPU.
on_device: Any = None


if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    # A context in which NumPy is silent; running in a copy of it takes half a microsecond less than
    # ``with np.errstate(all="ignore")``.
    _quiet = Context()
    _quiet.run(np.seterr, all="ignore")

    def quiet_matmul(a: Any, b: Any, out: np.ndarray | None) -> np.ndarray:
        """Call np.matmul; overflow and invalid operations show in the result alone, as in BLAS."""
        if out is None:  # allocate in the caller's context
            out = np.empty((a.shape[0], b.shape[1]), a.dtype)
        product: np.ndarray = _quiet.copy().run(original.matmul, a, b, out)
        return product

else:  # NumPy 1 stores the state per thread: `seterr` would silence the caller's thread

    def quiet_matmul(a: Any, b: Any, out: np.ndarray | None) -> np.ndarray:
        """Call np.matmul; overflow and invalid operations show in the result alone, as in BLAS."""
        with np.errstate(all="ignore"):
            product: np.ndarray = original.matmul(a, b, out)
            return product


def recall(a: Any, b: Any, out: Any, arguments: tuple) -> np.ndarray | None:
    """Run a call like one seen before; None if there was none, or the plan may differ.

    Shapes, strides, dtypes, alignment, arguments, settings, CPUs and `planning_state` are compared,
    and overlap is tested. This takes 3 microseconds; validation and the look-up of a plan take 20.

    `a`, `b`, `out`: as the caller gave them; `out` None asks for a new array.
    `arguments`: the options of the call, by keyword.
    """
    if type(a) is not np.ndarray:
        return None if on_device is None else on_device.repeat(a, b, out, arguments)
    if type(b) is not np.ndarray:
        return None
    if out is not None and type(out) is not np.ndarray:
        return None
    key = _key(a, b, out, arguments)
    try:
        found = _ready.get(key)
    except TypeError:  # an argument cannot be hashed: validation will report it
        return None
    if found is None or observe.observers:
        return None
    used, cpus, state, plan, plain, shape, dtype = found
    if used is not settings() or cpus != limit_here() or state != planning_state():
        return None
    if out is None:
        out = np.empty(shape, dtype)
    # Arrays that own their memory do not overlap, unless they are the same.
    elif (not key[0] & OWNDATA or out is a or out is b) and (overlap(out, a) or overlap(out, b)):
        return None
    if len(shape) > 2 and plan is not None:
        return out if _run_batch(plan, a, b, out) else None
    if plain:
        quiet_matmul(a, b, out)
    else:
        plan.execute(a, b, None, out)  # type: ignore[union-attr]
    return out


def _run_batch(plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    batch = out.shape[:-2]
    a, b = (
        x if x.shape[:-2] == batch else np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b)
    )
    return plan.backend.execute_batch(plan, a, b, out)


def _key(a: np.ndarray, b: np.ndarray, out: np.ndarray | None, arguments: tuple) -> tuple:
    """Return what is equal in calls with the same plan, the flags common to all arrays first."""
    x, y = a.flags.num, b.flags.num
    twin = _are_twins(a, b)
    if arguments:  # with their types: True is no number of threads, although it equals 1
        arguments = (*arguments, *(type(x) for _, x in arguments))
    # For arrays that are contiguous in one order, but not in both, flags determine the strides.
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
    """Whether b is a view of a's memory as its transpose, which is a symmetric Problem."""
    x, y = a.base, b.base
    return (x is b or y is a or (x is not None and x is y)) and is_transpose(a, b)


def _is_simple(
    a: Any, b: Any, out: np.ndarray | None, types: tuple[DType, DType], result: Any
) -> bool:
    """Whether the arrays of a call are plain, and of the dtypes of the arithmetic."""
    if not type(a) is type(b) is type(result) is np.ndarray:
        return False
    operand, written = types
    return (
        a.dtype == operand.left.numpy
        and b.dtype == operand.right.numpy
        and result.dtype == written.numpy
        and 0 not in (*a.shape, *result.shape)
        and result.ndim > 0
        and (out is None or out.shape == result.shape)
        and all(x.dtype.isnative and x.flags.aligned for x in (a, b, result))
        and (out is None or not (overlap(out, a) or overlap(out, b)))
    )


def remember(
    a: Any,
    b: Any,
    out: np.ndarray | None,
    arguments: tuple,
    types: tuple[DType, DType],
    options: Options,
    result: Any,
    way: Plan | str | None,
) -> None:
    """Keep how a successful call ``a @ b`` was multiplied, for `recall`, if it is simple enough.

    `a`, `b`, `out`, `arguments`: as for `recall`.
    `types`: those of `Product`; calls that cast operands are not kept.
    `result`: `out`, or the new result.
    `way`: the plan that was run, for a batch in one call; "np.matmul" if that multiplied vectors or
    a batch as they stand. Calls multiplied in any other way are not kept.
    """
    if not (isinstance(way, Plan) or way == "np.matmul") or options.check == "verify":
        return
    if isinstance(way, Plan) and way.problem.device is not None:
        global on_device
        from . import repeat as on_device  # imports the GPU backend

        on_device.keep(a, b, out, arguments, result, way)
        return
    if not _is_simple(a, b, out, types, result):
        return
    if isinstance(way, Plan):
        plan, problem = way, way.problem
        if min(a.ndim, b.ndim) < 2:
            return
        if problem.symmetric and not _are_twins(a, b):
            return
        direct = problem.a_direct and problem.b_direct and not problem.buffered
        plain = plan.backend.is_library and plan.scheme is None and direct
        plain = plain and not exceeds(problem.threads)
    elif exceeds(threads_of(options)):
        return
    else:
        plan, plain = None, True
    if len(_ready) >= _MOST_READY:
        _ready.clear()
    # Threads given by argument or settings are in the key; otherwise they follow from the CPUs.
    in_force = settings(), limit_here(), planning_state()
    key = _key(a, b, out, arguments)
    _ready[key] = *in_force, plan, plain, result.shape, result.dtype
