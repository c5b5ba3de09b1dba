"""Calls that need no validation and planning: small ones, and calls like one seen before.

::

    gemm, matmul --> recall --> small ones: by the engine's `small_product`
                            --> the `Call` that `remember` kept: its runner
                                              (on a GPU: steps in which addresses are filled in)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from falcon._backends import host_engine
from falcon._core import observe
from falcon._core.dtypes import DType
from falcon._core.options import Options, are_default, settings, threads_of
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.symmetric import is_transpose
from falcon._core.threads import limit_here
from falcon._numpy.original import quiet_matmul
from falcon._numpy.threads import exceeds

from .adapters.host import NUMPY, viewed
from .planner import is_kept, planning_state

_ARRAY = np.ndarray
_overlap = np.may_share_memory  # by bounds: a false alarm costs only a buffer
_OWNDATA = 0x4  # of the bits of `numpy.ndarray.flags.num`
# Calls that are kept; all are dropped when there are this many.
_MOST = 1024


class Call(NamedTuple):
    """How a call was multiplied, and what that depends on besides the call's key."""

    run: Callable[..., Any]  # of a, b and out; returns None where the call must be planned
    result: tuple[Any, ...] | None  # shape and dtype of a new result; None: `run` makes it
    # Threads given by argument or settings are in the key; otherwise they follow from the CPUs.
    options: Options
    cpus: int
    state: tuple  # `planning_state`


Calls = dict[Any, Call]
_calls: Calls = {}  # by `_key`, or `_device_key`
# How einsum and tensordot call `matmul`, by `key_of_form`: that depends on no settings.
forms: Calls = {}
# Libraries by the types of their arrays that were multiplied on a GPU.
_libraries: dict[type, Any] = {}


def recall(a: Any, b: Any, out: Any, arguments: tuple, c: Any = None) -> Any:
    """Run a small call, or one like a call seen before; None if it must be planned.

    Shapes, strides, dtypes, alignment, arguments, settings, CPUs and `planning_state` are compared,
    and overlap is tested. This takes 3 microseconds; validation and the look-up of a plan take 20.

    `a`, `b`, `out`: as the caller gave them; `out` None asks for a new array.
    `arguments`: the options of the call, by keyword.
    `c`: the matrix that is added, if beta is not 0.
    """
    if observe.observers:
        return None
    if type(a) is not _ARRAY or type(b) is not _ARRAY or not (out is None or type(out) is _ARRAY):
        return _recall_others(a, b, out, arguments, c)
    if not arguments and are_default():
        known = _small_product(a, b, out)
        if known is not None or not a.dtype.num:  # booleans: their values matter
            return known
    key = _key(a, b, out, arguments)
    if c is not None:
        if type(c) is not _ARRAY or not (out is None or c is out or not _overlap(c, out)):
            return None
        key = (*key, *_facts_of_added(c, out))
    call = look_up(_calls, key)
    if call is None:
        return None
    if out is None:
        out = np.empty(*call.result)  # type: ignore[misc]
    # Arrays that own their memory do not overlap, unless they are the same.
    elif (not key[0] & _OWNDATA or out is a or out is b) and (_overlap(out, a) or _overlap(out, b)):
        return None
    return call.run(a, b, out) if c is None else call.run(a, b, out, c)


def key_of_form(form: tuple, arrays: Sequence[Any]) -> tuple | None:
    """Return what is equal in calls that are reduced to products alike; None: they are not kept."""
    for x in arrays:
        if type(x) is not _ARRAY:
            return None
        form += x.shape, x.strides, x.dtype
    return form


def _facts_of_added(c: np.ndarray, out: np.ndarray | None) -> tuple:
    return c.shape, c.strides, c.flags.num, c.dtype, c.dtype.num, c is out


def _find_small_product(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> Any:
    """Multiply by the function that takes the place of this one."""
    global _small_product
    of_engine = getattr(host_engine(), "small_product", lambda _: None)(quiet_matmul)
    _small_product = of_engine or (lambda *_: None)
    return _small_product(a, b, out)


# Multiplies small arrays; returns None for others, and without falcon's kernels.
_small_product: Callable[..., Any] = _find_small_product


def look_up(calls: Calls, key: Any) -> Call | None:
    """Return the call of a key, if it would be multiplied in that way again."""
    try:
        call = calls.get(key)
    except TypeError:  # an argument cannot be hashed: validation will report it
        return None
    if call is None:
        return None
    _, _, options, cpus, state = call
    is_valid = options is settings() and cpus == limit_here() and state == planning_state()
    return call if is_valid else None


def keep(calls: Calls, key: Any, run: Callable[..., Any], result: tuple | None = None) -> None:
    """Keep how a call was multiplied."""
    if len(calls) >= _MOST:
        calls.clear()
    calls[key] = Call(run, result, settings(), limit_here(), planning_state())


def _key(a: np.ndarray, b: np.ndarray, out: np.ndarray | None, arguments: tuple) -> tuple:
    """Return what is equal in calls with the same plan, the flags common to all arrays first."""
    x, y, p, q = a.flags.num, b.flags.num, a.dtype, b.dtype
    twin = _are_twins(a, b)
    if arguments:  # with their types: True is no number of threads, although it equals 1
        arguments = (*arguments, *(type(x) for _, x in arguments))
    # For arrays that are contiguous in one order, but not in both, flags determine the strides.
    if out is None:
        # With the numbers of dtypes: "l" and "q" are equal, but give results of their own.
        key: tuple = (x & y, a.shape, x, p, p.num, b.shape, y, q, q.num, arguments, twin)
        return key if (x + 1) & (y + 1) & 2 else (*key, a.strides, b.strides)
    z, like = out.flags.num, out.dtype
    shapes = a.shape, b.shape, out.shape
    key = (x & y & z, shapes, x, p, y, q, arguments, z, like, twin)
    if (x + 1) & (y + 1) & (z + 1) & 2:
        return key
    return (*key, a.strides, b.strides, out.strides)


def _are_twins(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether b is a view of a's memory as its transpose, which is a symmetric Problem."""
    x, y = a.base, b.base
    return (x is b or y is a or (x is not None and x is y)) and is_transpose(a, b)


def _is_plain_sum(c: Any, out: np.ndarray | None, result: np.ndarray) -> bool:
    """Whether c is a plain array of the result's dtype, in memory of its own or of `out`."""
    able = type(c) is _ARRAY and c.dtype == result.dtype and c.dtype.isnative and c.flags.aligned
    return able and (out is None or c is out or not _overlap(c, out))


def _is_simple(a: Any, b: Any, out: np.ndarray | None, result: Any) -> bool:
    """Whether a call multiplies NumPy's arrays, and writes to memory of its own."""
    if not type(a) is type(b) is type(result) is np.ndarray or 0 in (*a.shape, *result.shape):
        return False
    return out is None or (out.shape == result.shape and not (_overlap(out, a) or _overlap(out, b)))


def _is_as_numpy(
    a: np.ndarray, b: np.ndarray, result: np.ndarray, types: tuple[DType, DType]
) -> bool:
    """Whether arrays have the dtypes of the arithmetic, or np.matmul converts them as falcon."""
    operand, written = types
    wanted = operand.left.numpy, operand.right.numpy, written.numpy
    if (a.dtype, b.dtype, result.dtype) == wanted:
        return True
    own = all(x.dtype.kind in "iufc" for x in (a, b, result))
    common = np.result_type(a.dtype, b.dtype) if own else None
    return common == written.numpy == result.dtype.newbyteorder("=")


def remember(
    a: Any,
    b: Any,
    out: np.ndarray | None,
    arguments: tuple,
    types: tuple[DType, DType],
    options: Options,
    result: Any,
    way: Plan | str | None,
    is_folded: bool = False,
    c: Any = None,
    factors: tuple[Any, Any] = (1, 0),
) -> None:
    """Keep how a successful call ``a @ b`` was multiplied, for `recall`, if it is simple enough.

    `a`, `b`, `out`, `arguments`, `c`: as for `recall`.
    `types`: those of `Product`.
    `result`: `out`, or the new result.
    `way`: the plan that was run, for a batch in one call; "np.matmul" if that multiplied vectors or
    a batch as they stand. Calls multiplied in any other way are not kept.
    `is_folded`: it multiplied all rows of a batch as one matrix.
    `factors`: alpha and beta, in the type of the arithmetic.
    """
    if not (isinstance(way, Plan) or way == "np.matmul") or options.check == "verify":
        return
    if isinstance(way, Plan) and way.problem.device is not None:
        _remember_on_device(a, b, out, arguments, result, way, c)
        return
    run: Callable[..., Any]
    if type(b) is PackedOperand and isinstance(way, Plan) and c is None:
        run = partial(_run_plan, way, *factors)
        _remember_packed(a, b, out, arguments, types, result, run)
        return
    is_added = (c is None) == (factors[1] == 0) and (c is None or _is_plain_sum(c, out, result))
    if not (is_added and _is_simple(a, b, out, result)):
        return
    run = quiet_matmul if result.ndim or out is not None else _inner
    if isinstance(way, Plan):
        if min(a.ndim, b.ndim) < 2 or (way.problem.symmetric and not _are_twins(a, b)):
            return
        if result.ndim == 2 or is_folded:
            direct: Any = getattr(way.backend, "direct_product", lambda _: None)
            alone = factors == (1, 0) and _is_as_numpy(a, b, result, types)
            found = direct(way) if alone else None
            run = found or partial(_run_plan, way, *factors)
        else:
            direct = getattr(way.backend, "direct_batch", lambda *_: None)
            of_batch = direct(way, a, b, result)
            if of_batch is None:
                return
            run = of_batch
    elif exceeds(threads_of(options)):
        return
    if is_folded:
        run = partial(_run_folded, run)
    key = _key(a, b, out, arguments)
    if c is not None:
        key = (*key, *_facts_of_added(c, out))
    keep(_calls, key, run, (result.shape, result.dtype))


def _run_plan(plan: Plan, alpha: Any, beta: Any, a: Any, b: Any, out: Any, c: Any = None) -> Any:
    plan.execute(a, b, c, out, alpha=alpha, beta=beta)
    return out


def _inner(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Any:
    return quiet_matmul(a, b, out)[()]


def _run_folded(run: Callable[..., Any], a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Any:
    """Multiply all rows of a batch at once, which are views for strides that are in the key."""
    run(a.reshape(-1, a.shape[-1]), b, out.reshape(-1, out.shape[-1]))
    return out


def _recall_others(a: Any, b: Any, out: Any, arguments: tuple, c: Any) -> Any:
    """Recall a call on arrays of other libraries: on NumPy's views of them, or on a GPU."""
    if type(a) in _libraries:
        key, addresses, calls = _device_key(a, b, out, arguments, c)
        if key is not None:
            call = look_up(calls, key)
            if call is None:
                return None
            return call.run(addresses, out, b.payload if type(b) is PackedOperand else None)
    if c is not None:
        return None
    if type(b) is PackedOperand and type(a) is _ARRAY and (out is None or type(out) is _ARRAY):
        call = look_up(b.calls, _packed_key(a, out, arguments))
        if call is None or not _is_apart(out, a, b):
            return None
        return call.run(a, b, np.empty(*call.result) if out is None else out)  # type: ignore[misc]
    adapter, x, y, target = viewed({"a": a, "b": b, "out": out})
    if adapter is NUMPY or not _ARRAY is type(x) is type(y):
        return None
    result = recall(x, y, target, arguments)
    if result is None:
        return None
    return adapter.wrap(result) if out is None else out


def _packed_key(a: np.ndarray, out: np.ndarray | None, arguments: tuple) -> tuple:
    """Return what is equal in calls with the same plan by one packed operand."""
    known = (*arguments, *(type(x) for _, x in arguments))
    facts = a.shape, a.strides, a.flags.num, a.dtype, a.dtype.num, known
    return facts if out is None else (*facts, out.shape, out.strides, out.flags.num, out.dtype)


def _is_apart(out: np.ndarray | None, a: np.ndarray, b: PackedOperand) -> bool:
    """Whether `out` overlaps neither a nor B, which a product that is redone reads."""
    apart = out is None or not _overlap(out, a)
    return apart and (out is None or b.source is None or not _overlap(out, b.source))


def _remember_packed(
    a: Any,
    b: PackedOperand,
    out: np.ndarray | None,
    arguments: tuple,
    types: tuple[DType, DType],
    result: Any,
    run: Callable[..., Any],
) -> None:
    if not (type(a) is _ARRAY is type(result) and _is_apart(out, a, b)):
        return
    as_is = a.dtype == types[0].left.numpy and result.dtype == types[1].numpy
    if as_is and all(x.dtype.isnative and x.flags.aligned for x in (a, result)):
        keep(b.calls, _packed_key(a, out, arguments), run, (result.shape, result.dtype))


def _remember_on_device(
    a: Any, b: Any, out: Any, arguments: tuple, result: Any, plan: Plan, c: Any
) -> None:
    from falcon._gpu.arrays import library_of  # imported when first needed: 30 ms

    packed = isinstance(b, PackedOperand)
    if len(a.shape) != 2 or len(b.shape) != 2 or not (packed or is_kept(plan)):
        return
    for x in (a, result, None if packed else b, c):
        if x is not None:
            _libraries.setdefault(type(x), library_of(x))
    key, _, calls = _device_key(a, b, out, arguments, c)
    if key is None:
        return
    backend: Any = plan.backend  # a GPU backend takes arrays of other libraries
    record = backend.prepared(plan, a, b, result, c)
    if record is not None:
        keep(calls, key, record.run)


def _device_key(
    a: Any, b: Any, out: Any, arguments: tuple, c: Any
) -> tuple[tuple | None, list[int], Calls]:
    """Return what is equal in calls with the same steps, the addresses, and where to look.

    The key is None where calls are not kept. Calls of a packed operand are kept with it.
    """
    calls, factors = _calls, [a, out, b]
    if type(b) is PackedOperand:
        calls, factors = getattr(b.payload, "repeated", {}), [a, out]
    factors += [] if c is None else [c]
    library = _libraries[type(a)]
    addresses: list[int] = []
    facts: list[Any] = [arguments, *(type(x) for _, x in arguments)]
    for x in factors:
        if x is None:
            addresses.append(0)
            facts.append(None)
            continue
        is_alike = _libraries.get(type(x)) is library
        known = library.facts(x) if is_alike else None
        if known is None:
            return None, [], calls
        address, *more = known
        addresses.append(address)
        facts += more
    return tuple(facts), addresses, calls
