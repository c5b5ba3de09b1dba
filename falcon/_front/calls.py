"""Calls that need no validation and planning: small ones, and calls like one seen before.

::

    gemm, matmul --> recall --> small ones: by the engine, without plans
                            --> the `Call` that `remember` kept: what the first one ran
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from falcon._backends import ENGINE
from falcon._core import observe
from falcon._core.dtypes import DType
from falcon._core.options import Options, are_default, settings
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.runner import BoundRun
from falcon._numpy.original import quiet_matmul
from falcon._tools.threads import limit_here

from .adapters import Adapter
from .adapters.host import NUMPY, library_of, viewed
from .planner import is_kept, planning_state

_ARRAY = np.ndarray
_overlap = np.may_share_memory  # by bounds: a false alarm costs only a buffer
_OWNDATA = 0x4  # of the bits of `numpy.ndarray.flags.num`
# Calls that are kept; all are dropped when there are this many.
_MOST = 1024


class State(NamedTuple):
    """What plans depend on besides the call's key: read before a call is planned, kept with it."""

    # Threads given by argument or settings are in the key; otherwise they follow from the CPUs.
    options: Options
    cpus: int
    epoch: tuple  # of schemes and profile

    @classmethod
    def now(cls) -> State:
        """Return the state at this moment."""
        return cls(settings(), limit_here(), planning_state())


class Call(NamedTuple):
    """How a call was multiplied."""

    run: BoundRun  # of a, b, c and out
    result: Callable[[], Any]  # makes a new one
    state: State


Calls = dict[Any, Any]
_calls: Calls = {}  # by `key_of`; those of a packed operand are kept with it
# How einsum and tensordot call `matmul`, by `key_of_form`: that depends on no settings.
forms: Calls = {}
# Libraries by the types of their arrays that were multiplied on a GPU.
_libraries: dict[type, Any] = {}


def recall(
    a: Any, b: Any, out: Any, arguments: tuple, c: Any = None, ndim: int | None = None
) -> Any:
    """Run a small call, or one like a call seen before; None if it must be planned.

    Shapes, strides, dtypes, alignment, arguments, settings, CPUs and `planning_state` are compared,
    and overlap is tested. This takes 3 microseconds; validation and the look-up of a plan take 20.

    `a`, `b`, `out`: as the caller gave them; `out` None asks for a new array.
    `arguments`: the options of the call, by keyword.
    `c`: the matrix that is added, if beta is not 0.
    `ndim`: axes of a and b; None: any (`matmul` leaves calls of vectors and batches).
    """
    if observe.observers:
        return None
    on_host = type(a) is _ARRAY and (out is None or type(out) is _ARRAY)
    if on_host and type(b) is _ARRAY and not arguments and are_default():
        small_product = _small(a, b, out)
        if small_product is not None or not a.dtype.num:  # booleans: their values matter
            return small_product
    key = key_of(a, b, c, out, arguments)
    if key is None:
        return None if on_host or c is not None else _recall_views(a, b, out, arguments, ndim)
    if ndim is not None and not a.ndim == b.ndim == ndim:
        return None
    call = look_up(_calls if type(b) is not PackedOperand else b.calls, key)
    if call is None or (on_host and not _is_apart(key[0], a, b, c, out)):
        return None
    result = call.result() if out is None else out
    if not on_host and out is not None:
        _libraries[type(a)].note_write(out)
    call.run(a, b, c, result)
    return result if out is not None or result.ndim or not on_host else result[()]


def _recall_views(a: Any, b: Any, out: Any, arguments: tuple, ndim: int | None) -> Any:
    """Recall a call on arrays of other libraries in host memory, on NumPy's views of them."""
    adapter, x, y, target = viewed({"a": a, "b": b, "out": out})
    if adapter is NUMPY or not _ARRAY is type(x) is type(y):
        return None
    result = recall(x, y, target, arguments, ndim=ndim)
    if result is None:
        return None
    library_of(out).note_write(out)
    return adapter.wrap(result) if out is None else out


def stated(options: Mapping[str, Any], dtype: Any) -> tuple:
    """Return the options of a call, and its dtype, as calls are told apart by them."""
    arguments = tuple(options.items()) if options else ()
    if options and isinstance(moduli := options.get("modulus"), list | tuple):  # lists have no hash
        known = tuple((p, type(p)) for p in moduli)
        arguments = tuple((k, known if k == "modulus" else x) for k, x in arguments)
    return arguments if dtype is None else (*arguments, ("dtype", dtype))


def _find_small(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> Any:
    """Multiply by the function that takes the place of this one."""
    global _small
    _small = ENGINE.without_plans(quiet_matmul) or (lambda *_: None)
    return _small(a, b, out)


# Multiplies small arrays; returns None for others, and without falcon's kernels.
_small: Callable[..., Any] = _find_small


def look_up(calls: Calls, key: Any) -> Any:
    """Return the `Call` of a key, or what else has a `state`, if it would be the same again."""
    try:
        call = calls.get(key)
    except TypeError:  # an argument cannot be hashed: validation will report it
        return None
    if call is None:
        return None
    options, cpus, epoch = call.state
    is_valid = options is settings() and cpus == limit_here() and epoch == planning_state()
    return call if is_valid else None


def keep(calls: Calls, key: Any, call: Any) -> None:
    """Keep how a call was multiplied."""
    if len(calls) >= _MOST:
        calls.clear()
    calls[key] = call


class Fact(NamedTuple):
    """What is known of a plan."""

    value: Any
    state: State


def about_plan(
    facts: Calls, key: Any, fact: Callable[[Plan], Any], make: Callable[[], Plan]
) -> Any:
    """Return a fact about the plan that `make` makes, kept as long as calls are like it."""
    known = look_up(facts, key)
    if known is not None:
        return known.value
    state, plan = State.now(), make()
    value = fact(plan)
    if is_kept(plan):
        keep(facts, key, Fact(value, state))
    return value


def key_of(a: Any, b: Any, c: Any, out: Any, arguments: tuple) -> tuple | None:
    """Return what is equal in calls with the same plan; None: they are not kept.

    First the flags common to all arrays in host memory.
    """
    if arguments:  # with their types: True is no number of threads, although it equals 1
        arguments = (*arguments, *[type(x) for _, x in arguments])
    if type(a) is not _ARRAY:
        return _device_key(a, b, c, out, arguments) if type(a) in _libraries else None
    if out is not None and type(out) is not _ARRAY:
        return None
    a_flags, a_dtype = a.flags.num, a.dtype
    out_flags, out_dtype = (a_flags, None) if out is None else (out.flags.num, out.dtype)
    if type(b) is PackedOperand:  # products that are redone read its source
        key: tuple = (0, a.shape, a.strides, a_flags, a_dtype, a_dtype.num, arguments)
        key = key if out is None else (*key, out.shape, out.strides, out_flags, out_dtype)
    elif type(b) is not _ARRAY:
        return None
    else:
        b_flags, b_dtype = b.flags.num, b.dtype
        # With the numbers of dtypes: "l" and "q" are equal, but give results of their own.
        key = (a_flags & b_flags & out_flags, a.shape, a_flags, a_dtype, a_dtype.num,
               b.shape, b_flags, b_dtype, b_dtype.num, arguments)  # fmt: skip
        if out is not None:
            key = (*key, out.shape, out_flags, out_dtype)
        # Of matrices that are contiguous in one order, but not in both, flags determine the
        # strides; and b is not a's transpose in the same memory if its order is a's.
        is_one = a_flags & b_flags & 3 and (a_flags + 1) & (b_flags + 1) & (out_flags + 1) & 2
        if not (is_one and a.ndim == b.ndim == 2):
            twin = _overlap(a, b) and _begin(a) == _begin(b)
            key = (*key, a.strides, b.strides, None if out is None else out.strides, twin)
    if c is None:
        return key
    if type(c) is not _ARRAY:
        return None
    return (*key, c.shape, c.strides, c.flags.num, c.dtype, c.dtype.num, c is out)


def key_of_form(form: tuple, arrays: Sequence[Any]) -> tuple | None:
    """Return what is equal in calls that are reduced to products alike; None: they are not kept."""
    for x in arrays:
        if type(x) is not _ARRAY:
            return None
        form += x.shape, x.strides, x.dtype, x.dtype.num  # "l" and "q" are equal
    return form


def _device_key(a: Any, b: Any, c: Any, out: Any, arguments: tuple) -> tuple | None:
    facts: list[Any] = [arguments, c is out]
    library: Any = _libraries[type(a)]
    packed = type(b) is PackedOperand
    x: Any
    for x in (a, out, None if packed else b, c):
        if x is None:
            facts.append(None)
            continue
        is_alike = _libraries.get(type(x)) is library
        known = library.facts(x) if is_alike else None
        if known is None:
            return None
        facts += known
    # Of a twin in the same memory, one triangle is computed.
    return (*facts, not packed and library.address(a) == library.address(b))


def _begin(x: np.ndarray) -> int:
    """Return the address of the first element."""
    return int(x.__array_interface__["data"][0])


def _is_apart(flags: int, a: Any, b: Any, c: Any, out: Any) -> bool:
    """Whether `out` overlaps neither a nor b, nor c unless it is c."""
    if out is None:
        return True
    if c is not None and c is not out and _overlap(c, out):
        return False
    if type(b) is PackedOperand:
        b = b.source
    # Arrays that own their memory do not overlap, unless they are the same.
    if flags & _OWNDATA and not (out is a or out is b):
        return True
    return not (_overlap(out, a) or (b is not None and _overlap(out, b)))


def remember(
    operands: tuple[Any, Any, Any, Any],
    arguments: tuple,
    state: State,
    done: tuple[Plan, BoundRun] | None,
    result: Any,
    adapter: Adapter,
) -> None:
    """Keep how a successful call was multiplied, for `recall`, if it is simple enough.

    `operands`: a, b, c and `out` as for `recall`.
    `done`: the plan, and what multiplied; None: calls are not kept.
    `result`: `out`, or the new result.
    """
    if done is None:
        return
    (a, b, c, out), (plan, run) = operands, done
    packed, on_host = type(b) is PackedOperand, plan.problem.device is None
    if on_host:
        make: Callable[[], Any] = partial(np.empty, result.shape, result.dtype)
        is_simple = _ARRAY is type(a) is type(result) and (out is None or out.shape == result.shape)
    else:
        from falcon._gpu.arrays import library_of as of_device  # imported when first needed: 30 ms

        make = partial(_made, adapter, tuple(result.shape), plan.problem.result)
        is_simple = packed or is_kept(plan)
        for x in (a, result, None if packed else b, c):
            if x is not None:
                _libraries.setdefault(type(x), of_device(x))
    if plan.problem.out_overlaps_c and c is not out:
        return
    key = key_of(a, b, c, out, arguments) if is_simple else None
    if key is None:
        return
    if on_host:
        is_apart = _is_apart(key[0], a, b, c, out)
    else:
        read = [adapter.matrix(x) for x in (a, b.source if packed else b)]
        is_apart = out is None or not any(map(adapter.matrix(out).overlaps, read))
    if is_apart:
        keep(b.calls if packed else _calls, key, Call(run, make, state))


def _made(adapter: Adapter, shape: tuple[int, ...], dtype: DType) -> Any:
    with adapter.current():
        return adapter.empty(shape, dtype)
