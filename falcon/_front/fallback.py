"""What NumPy multiplies itself: booleans, objects, arrays of classes with rules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from falcon._backends import DEVICE, LIBRARY
from falcon._core.arrays import takes_over, to_array, to_target, why_not_dense
from falcon._core.dtypes import native
from falcon._core.observe import warn_caller
from falcon._core.options import Options, threads_of
from falcon._core.packed import refuse_packed
from falcon._numpy import original
from falcon._numpy.threads import limited

from .adapters import Adapter
from .arithmetic import common_type, named_type
from .validate import is_numeric, plain, type_named

# Seconds for two of Python's integers or floats (EPYC; fractions take 3e-6); and how many are told.
_OBJECT, _LONG = 2e-8, 10.0


def why_not_by_library(adapter: Adapter, options: Options) -> str | None:
    """Return the option that forbids the array library's own product; None: it may be called."""
    if options.modulus is not None:
        return f"modulus={options.modulus}"
    for name in ("arithmetic", "centre"):
        if name in options.given and (value := getattr(options, name)) not in ("native", False):
            return f"{name}={value!r}"
    allowed = ("auto", LIBRARY.name) if adapter.device is None else (DEVICE,)
    if options.backend not in allowed:
        return f"backend {options.backend!r}"
    return None if options.scheme in ("auto", "classical") else f"{options.scheme!r}"


def numpy_product(adapter: Adapter, a: Any, b: Any, out: Any, dtype: Any, options: Options) -> Any:
    """Return ``np.matmul(a, b, out, dtype)`` for operands that falcon cannot multiply.

    Returns NotImplemented for all others.
    Raises ValueError: a GPU array is a scalar.
    """
    if adapter.device is not None:
        if min(len(a.shape), len(b.shape)) == 0:
            raise ValueError("matmul: an operand is a scalar; expected at least one axis")
        return NotImplemented
    a, b = plain("a", a), plain("b", b)
    if not (out is None or type(out) is tuple or hasattr(type(out), "__array_ufunc__")):
        to_target(out)  # raises
    ordinary = all(type(x) is np.ndarray for x in (a, b)) and (
        out is None or type(out) in (np.ndarray, np.memmap)
    )
    if ordinary and min(a.ndim, b.ndim) and all(is_numeric(x.dtype) for x in (a, b)):
        return NotImplemented
    _check_not_by_name(adapter, {"a": a, "b": b, "out": out}, options)
    given = {} if out is None else {"out": out}
    if dtype is not None:
        given["dtype"] = any_type(dtype)
    if any(getattr(getattr(x, "dtype", None), "hasobject", False) for x in (a, b)):
        _warn_of_objects(a, b)
    with limited(threads_of(options)):
        return original.ufunc(a, b, **given)


def _warn_of_objects(a: Any, b: Any) -> None:
    seconds = _OBJECT * max(a.size * np.prod(b.shape[-1:]), b.size * np.prod(a.shape[-2:-1]))
    if seconds > _LONG:
        text = f"matmul: NumPy multiplies objects one by one, which takes {seconds:.0f} s or more"
        warn_caller(f"{text}; falcon multiplies numpy.asarray(a, float)")


def is_taken_over(adapter: Adapter, named: Mapping[str, Any], options: Options) -> bool:
    """Whether the class of an operand, or of out, runs NumPy's other functions in its own way.

    Raises TypeError: one does, but the options name a scheme or a backend.
    """
    taken = adapter.device is None and any(map(takes_over, named.values()))
    if taken:
        _check_not_by_name(adapter, named, options)
    return taken


def _check_not_by_name(adapter: Adapter, operands: Mapping[str, Any], options: Options) -> None:
    what = why_not_by_library(adapter, options)
    if what is None:
        return
    got = ", ".join(
        f"{name} {type(x).__name__} {getattr(x, 'shape', '')} {getattr(x, 'dtype', '')}"
        for name, x in operands.items()
        if x is not None
    )
    given = operands.items()
    reasons = (f"; {name} is {why}" for name, x in given if (why := why_not_dense(name, x)))
    why = next(reasons, "")
    raise TypeError(f"{what} needs plain numeric arrays of at least one axis; got {got}{why}")


def einsum_operands(
    adapter: Adapter,
    named: Mapping[str, Any],
    out: Any,
    dtype: Any,
    casting: Any,
    modulus: int | None = None,
    widens: bool = False,
) -> tuple[list[Any], Any]:
    """Return arrays, and the dtype of their sum of products; None: it is that of all of them.

    On the host, booleans and others that falcon does not multiply are cast here. In GPU memory all
    floating types cast to one another.

    Raises TypeError: one of them, or of `out`, cannot be cast by `casting`, or is no array.
    """
    if adapter.device is not None:
        arrays = [adapter.array(name, x) for name, x in named.items()]
        kind = common_type(adapter, arrays) if dtype is None else named_type(adapter, dtype)
        return arrays, None if all(adapter.dtype(x) is kind for x in arrays) else kind.name
    for name, x in named.items():
        refuse_packed(name, x)
    arrays = [to_array(name, x) for name, x in named.items()]
    known = [x.dtype for x in (*arrays, out) if x is not None]
    wanted = native(np.result_type(*known) if dtype is None else any_type(dtype))
    for name, x in zip(named, arrays, strict=True):
        if not np.can_cast(x.dtype, wanted, casting):
            raise TypeError(f"{name} has dtype {x.dtype}; no cast to {wanted} ({casting})")
    if out is not None and not np.can_cast(wanted, out.dtype, casting):
        raise TypeError(f"out has dtype {out.dtype}; no cast from {wanted} ({casting})")
    for i, x in enumerate(arrays):
        left = is_numeric(wanted) and is_numeric(x.dtype)
        reduced = modulus is not None and x.dtype.kind in "iu"  # not wrapped before
        left = left and (reduced or np.can_cast(x.dtype, wanted, "same_kind"))
        with np.errstate(all="ignore"):
            arrays[i] = x if left else x.astype(wanted, copy=False)
    kept = all(x.dtype == wanted and x.dtype.num == wanted.num for x in arrays)
    return arrays, None if kept or (widens and dtype is None and wanted.kind in "iu") else wanted


def any_type(dtype: Any) -> np.dtype:
    """Return a dtype of NumPy, ml_dtypes or torch."""
    of_torch = type(dtype).__module__ == "torch"
    try:
        return np.dtype(str(dtype).removeprefix("torch.") if of_torch else dtype)
    except TypeError:  # bfloat16
        return type_named(dtype).numpy
