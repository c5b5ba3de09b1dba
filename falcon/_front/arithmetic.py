"""The type of a product and the type in which its operands are multiplied: `dtype=`.

As in NumPy, the result for ``dtype=D`` is that of operands cast to D first. The CPU kernels compute
some such products from the uncast operands, exactly or with as little error: int8 to int32, uint8
by int8 to int32, bfloat16 to float32 (`DType.wide`). In other cases the backends cast the operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from falcon._backends import available_backends, get_backend
from falcon._core.backend import Backend
from falcon._core.dtypes import DType, both
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .families import Family
from .validate import check_numeric


def result_type(family: Family, operands: Mapping[str, Any], dtype: Any, out: Any = None) -> DType:
    """Return the type of the result.

    `operands`: all that are read, including c.
    `dtype`: the caller's argument.
    Raises TypeError: falcon does not multiply `dtype`, or an operand does not cast to it by
    "same_kind".
    """
    if dtype is None:
        found = family.dtype(list(operands.values()))
        of_out = None if out is None else family.element_type(out)
        # An out of the accumulators' type gets unrounded sums; integers wrap first, as in NumPy.
        if of_out is not None and of_out in found.wide and not found.is_exact:
            return of_out
        return found
    wanted = family.type_named(dtype)
    for name, x in operands.items():
        row = family.element_type(x)
        if row is None:
            check_numeric(name, x.dtype)
        elif not np.can_cast(row.numpy, wanted.numpy, "same_kind"):
            raise TypeError(
                f"{name} has dtype {x.dtype}, which does not cast to dtype={wanted} (same_kind)"
            )
    return wanted


def operand_type(family: Family, operands: list[Any], result: DType, options: Options) -> DType:
    """Return the type of the operands for the backends: their own if a backend can write `result`.

    For operands of two types that is a pair, or else their common type.

    `operands`: a and b, as far as they are known.
    `options`: the scheme matters: its sums may not fit the kernels of the operands' type.
    """
    rows = [row for x in operands if (row := family.element_type(x)) is not None]
    if len(rows) < len(operands) or set(rows) <= {result}:
        return result
    if rows[0] is not rows[-1] and not all(x.is_exact for x in rows):
        return result
    for operand in (both(rows[0], rows[-1]), family.dtype(operands)):
        if operand is not None and _has_kernels(operand, result, options):
            return operand
    return result


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
