"""The type of a product and the type in which its operands are multiplied: `dtype=`.

As in NumPy, the result for ``dtype=D`` is that of operands cast to D first. The CPU kernels compute
some such products from the uncast operands, exactly or with as little error: int8 to int32,
bfloat16 to float32 (`DType.wide`). In other cases the backends cast the operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from falcon._backends import available_backends, get_backend
from falcon._core.dtypes import DType
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .families import Family


def result_type(family: Family, operands: Mapping[str, Any], dtype: Any, out: Any = None) -> DType:
    """Return the type of the result.

    Parameters
    ----------
    operands : mapping of str to array or PackedOperand
        All that are read, including c.
    dtype : dtype or None
        The caller's argument.
    out : array or None

    Raises
    ------
    TypeError
        falcon does not multiply `dtype`, or an operand does not cast to it by "same_kind".
    """
    if dtype is None:
        found = family.dtype(list(operands.values()))
        held = None if out is None else family.held(out)
        # An out of the accumulators' type gets unrounded sums; integers wrap first, as in NumPy.
        return held if held in found.wide and not found.is_exact and held is not None else found
    wanted = family.named(dtype)
    for name, x in operands.items():
        held = family.held(x)
        if held is None or not np.can_cast(held.numpy, wanted.numpy, "same_kind"):
            raise TypeError(
                f"{name} has dtype {x.dtype}, which does not cast to dtype={wanted} (same_kind)"
            )
    return wanted


def operand_type(family: Family, operands: list[Any], result: DType, options: Options) -> DType:
    """Return the type of the operands for the backends: their own if a backend can write `result`.

    Parameters
    ----------
    operands : list of array or PackedOperand
        a and b, as far as they are known.
    result : DType
    options : Options
        The scheme matters: its sums may not fit the kernels of the operands' type.
    """
    rows = {family.held(x) for x in operands}
    if rows == {result} or not operands:
        return result
    if len(rows) > 1 and not all(x is not None and x.is_exact for x in rows):
        return result
    common = family.dtype(operands)
    if common is result or result not in common.wide:
        return result
    name, scheme = options.backend, options.scheme
    problem = Problem(1, 1, 1, common, result=result)
    for backend in available_backends() if name == "auto" else [get_backend(name)]:
        if backend.why_not(problem) is not None:
            continue
        if not isinstance(scheme, Scheme) or backend.why_classical_only(problem, scheme) is None:
            return common
    return result
