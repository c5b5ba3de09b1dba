"""The type of a product and the type in which its operands are multiplied: `dtype=`.

As in NumPy, the result for ``dtype=D`` is that of operands cast to D first. The CPU kernels compute
some such products from the uncast operands, exactly or with as little error: int8 to int32, uint8
by int8 to int32, bfloat16 to float32 (`DType.wide`). In other cases the backends cast the operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from falcon._backends import available_backends, get_backend
from falcon._core.dtypes import INT32, INT64, ON_GPUS, TABLE, UINT64, DType, both, dtype_of
from falcon._core.options import Options
from falcon._core.plan import Backend
from falcon._core.problem import Problem
from falcon._core.where import unknown_type
from falcon.schemes import Scheme

from .adapters import Adapter
from .validate import check_numeric, check_shape, type_named

_COMPLEX = {row.part: row for row in reversed(ON_GPUS) if row.is_complex}


def common_type(adapter: Adapter, operands: Iterable[Any]) -> DType:
    """Return the type in which operands are multiplied; raise TypeError where there is none."""
    if adapter.device is None:
        return dtype_of(np.result_type(*(x.dtype for x in operands)))
    return _promoted([adapter.dtype(x) for x in operands])


def _promoted(rows: list[DType | None]) -> DType:
    """Return the type in which operands of these types are multiplied.

    Raises TypeError: one is no such type of a GPU, or one is float16 and another bfloat16.
    """
    given = [row for row in rows if row is not None]
    for row in given:
        if row not in ON_GPUS:
            raise unknown_type(row)
    known = [row.part or row for row in given]
    widest = max(known, key=lambda row: row.itemsize)
    for row in known:
        if row.itemsize == widest.itemsize and row is not widest:
            raise TypeError(f"{widest} and {row} have no common dtype; convert one of the operands")
    if any(row.is_complex for row in given):
        return _COMPLEX.get(widest, dtype_of("complex64"))
    return widest


def named_type(adapter: Adapter, dtype: Any) -> DType:
    """Return the row of a user's `dtype`; raise TypeError if it is not multiplied."""
    row = type_named(dtype)
    if adapter.device is not None and row not in ON_GPUS:
        known = ", ".join(x.name for x in ON_GPUS)
        raise TypeError(f"dtype is {row}; arrays in GPU memory are multiplied in {known}")
    return row


def alike(dtype: Any, arrays: Sequence[Any]) -> Sequence[Any]:
    """Return what tells `Adapter.empty` NumPy's own dtype of a result: of `dtype`, or of arrays."""
    if dtype is not None:
        try:
            arrays = (np.empty(0, dtype),)
        except TypeError:  # "bfloat16", a dtype of torch
            arrays = ()
    return arrays


def scalar_type(adapter: Adapter, dtype: DType) -> DType:
    """Return the type of alpha and beta."""
    return dtype if adapter.device is None else dtype.accumulator


def result_type(
    adapter: Adapter,
    operands: Mapping[str, Any],
    dtype: Any,
    out: Any = None,
    modulus: int | None = None,
    widened: int = 0,
) -> DType:
    """Return the type of the result.

    `operands`: all that are read, including c.
    `dtype`: the caller's argument.
    `widened`: if integers are, how many products a result is the sum of.
    Raises TypeError: falcon does not multiply `dtype`, or an operand does not cast to it by
    "same_kind".
    """
    if modulus is not None:
        return _residue_type(adapter, operands, dtype, out, modulus)
    if dtype is None:
        common = common_type(adapter, operands.values())
        of_out = None if out is None else adapter.dtype(out)
        if widened and common.is_exact:
            is_given = of_out is not None and of_out.is_exact
            is_given = is_given and np.can_cast(common.numpy, out.dtype, "same_kind")
            return of_out if of_out and is_given else wider(common, widened)
        # An out of the accumulators' type gets unrounded sums; integers wrap first, as in NumPy.
        if of_out is not None and of_out in common.wide and not common.is_exact:
            return of_out
        is_widened = of_out is not None and of_out.is_complex and not common.is_complex
        # No kernel writes real products to complex elements.
        return _promoted([common, of_out]) if is_widened and adapter.device is not None else common
    wanted = named_type(adapter, dtype)
    for name, x in operands.items():
        row = adapter.dtype(x)
        if row is None:
            check_numeric(name, x.dtype)
        elif not np.can_cast(row.numpy, wanted.numpy, "same_kind"):
            raise TypeError(
                f"{name} has dtype {x.dtype}, which does not cast to dtype={wanted} (same_kind)"
            )
    return wanted


def wider(kind: DType, terms: int) -> DType:
    """Return int32 or int64, if it holds sums of so many products of integers, else 64 bits."""
    limits = np.iinfo(kind.numpy)
    most = max(terms, 1) * max(-int(limits.min), int(limits.max)) ** 2
    holding = (row for row in (INT32, INT64) if most <= np.iinfo(row.numpy).max)
    return next(holding, UINT64 if kind.is_unsigned else INT64)


def terms_of(x: Any, options: Options) -> int:
    """Return how many products a result is the sum of, if integers are widened; else 0."""
    return max(1, *x.shape[-1:]) if options.overflow == "widen" else 0


def _residue_type(
    adapter: Adapter, operands: Mapping[str, Any], dtype: Any, out: Any, modulus: int
) -> DType:
    """Return the type of a result modulo p: `dtype`, or that of `out`, or the operands' common one.

    Raises TypeError: it is no integer, or it or `out` does not hold ``modulus - 1``; an operand is
    no integer.
    Raises ValueError: the operands are in GPU memory.
    """
    if adapter.device is not None:
        raise ValueError("modulus= multiplies arrays in host memory; these are in GPU memory")
    for name, x in operands.items():
        row = adapter.dtype(x)
        if row is None or not row.is_exact:
            raise TypeError(f"{name} has dtype {x.dtype}; modulus= multiplies integers")
    of_out = None if out is None else adapter.dtype(out)
    if of_out is not None and not of_out.is_exact and modulus > 1 / of_out.unit_roundoff:
        raise TypeError(f"out has dtype {out.dtype}; it does not hold integers up to {modulus - 1}")
    if dtype is not None:
        given = named_type(adapter, dtype)  # operands are reduced, not cast
    else:
        common = common_type(adapter, operands.values())
        given = common if of_out is None or not of_out.is_exact else of_out
    able = [x for x in TABLE if x.is_exact and np.iinfo(x.numpy).max >= modulus - 1]
    if given not in able:
        least = min(able, key=lambda x: (x.itemsize, x.is_unsigned))
        raise TypeError(
            f"the result would be {given}, which is no type of integers up to {modulus - 1}; "
            f"ask for dtype={least.name!r}"
        )
    return given


def operand_type(adapter: Adapter, operands: list[Any], result: DType, options: Options) -> DType:
    """Return the type of the operands for the backends: their own if a backend can write `result`.

    For operands of two types that is a pair, or else their common type.

    `operands`: a and b, as far as they are known.
    `options`: the scheme matters: its sums may not fit the kernels of the operands' type.
    """
    rows = [row for x in operands if (row := adapter.dtype(x)) is not None]
    if options.modulus is not None:  # calls by arrays of one type are kept
        return rows[0] if len({*rows}) == 1 else result
    if len(rows) < len(operands) or set(rows) <= {result}:
        return result
    if rows[0] is not rows[-1] and not all(x.is_exact for x in rows):
        return result
    for operand in (both(rows[0], rows[-1]), common_type(adapter, operands)):
        if operand is not None and _has_kernels(operand, result, options):
            return operand
    return result


def typed(
    adapter: Adapter,
    read: Mapping[str, Any],
    dtype: Any,
    out: Any,
    options: Options,
    terms: int | None = None,
) -> tuple[DType, DType]:
    """Return the types of the operands, the first two of `read`, and of the result: see above.

    `terms`: of integers that are widened, how many products a result is the sum of.
    """
    terms = terms_of(next(iter(read.values())), options) if terms is None else terms
    result = result_type(adapter, read, dtype, out, options.one_modulus, terms)
    return operand_type(adapter, list(read.values())[:2], result, options), result


def _has_kernels(operand: DType, result: DType, options: Options) -> bool:
    """Whether a backend that may be used writes `result` for such operands, by the scheme asked."""
    if result not in operand.wide:
        return False
    name, scheme = options.backend, options.scheme
    for backend in available_backends() if name == "auto" else [get_backend(name)]:
        if why_not_wide(backend, operand, result, scheme) is None:
            return True
    return False


def why_not_wide(backend: Backend, operand: DType, result: DType, scheme: Any) -> str | None:
    """Return why a backend cannot write a `result` of wider type; None if it can.

    `scheme` matters if it is one: its sums may not fit the kernels of the operands' type.
    """
    problem = Problem(1, 1, 1, operand, result=result)
    if isinstance(scheme, Scheme):
        return backend.why_classical_only(problem, scheme)
    return backend.why_not(problem)


def check_cast(adapter: Adapter, out: Any, dtype: DType) -> None:
    """Raise TypeError unless `dtype` casts to the dtype of `out`."""
    if adapter.device is not None:
        is_cast = _promoted([adapter.dtype(out)]).is_complex or not dtype.is_complex
    else:
        is_cast = np.can_cast(dtype.numpy, out.dtype, "same_kind")
    if not is_cast:
        raise TypeError(
            f"out has dtype {out.dtype}, to which the result's {dtype} does not cast (same_kind)"
        )


def check_out(adapter: Adapter, out: Any, shape: tuple[int, ...], dtype: DType) -> None:
    """Raise unless a result of this shape and dtype can be written to `out`."""
    check_cast(adapter, out, dtype)
    check_shape("out", out, shape)
    if adapter.device is None and not out.flags.writeable:
        raise ValueError("out is read-only")
