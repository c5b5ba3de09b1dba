"""`plan`: what `gemm` would do, without doing it."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from falcon._backends import DEVICE
from falcon._core.dtypes import FLOAT64
from falcon._core.options import PLANNING, CallOptions, takes_options
from falcon._core.plan import Plan

from .families import Family, family_of
from .planner import plan_for, requested


@takes_options(*PLANNING)
def plan(
    a: Any, b: Any, dtype: npt.DTypeLike | None = None, **options: Unpack[CallOptions]
) -> Plan:
    """Decide how ``a @ b`` would be multiplied, without multiplying.

    Parameters
    ----------
    a, b : array_like or tuple of int
        Matrices, or their shapes (M, K) and (K, N).
    dtype : dtype, optional
        Of the arithmetic. Default: ``np.result_type`` of the arrays; float64 for shapes.
    {options}

    Returns
    -------
    Plan
        Printable, callable on operands of these shapes, with `Plan.explain`.

    Raises
    ------
    ValueError, TypeError
        As `gemm`.

    Examples
    --------
    >>> import falcon
    >>> p = falcon.plan((60, 70), (70, 80), "float32", scheme="strassen")
    >>> p.growth
    2.0
    """
    arrays = {name: x for name, x in (("a", a), ("b", b)) if not _is_shape(x)}
    family = family_of(**arrays)
    if not arrays and options.get("backend") == DEVICE:
        from .families.device import current_device  # at first need: 30 ms

        family = current_device()
    left, right = (_operand(family, name, x) for name, x in (("a", a), ("b", b)))
    shapes = [x if isinstance(x, tuple) else tuple(x.shape) for x in (left, right)]
    if shapes[0][1] != shapes[1][0]:
        raise ValueError(
            f"a has shape {shapes[0]} and b {shapes[1]}: a's columns must equal b's rows"
        )
    if dtype is not None:
        native = family.named(dtype)
    elif arrays:
        native = family.dtype([x for x in (left, right) if not isinstance(x, tuple)])
    else:
        native = FLOAT64
    asked = requested("plan", PLANNING, options, family)
    with family.current():
        return plan_for(family.problem(left, right, None, None, native, asked), asked)


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(isinstance(size, int | np.integer) for size in x)


def _operand(family: Family, name: str, x: Any) -> Any:
    """Return a matrix, or its shape."""
    if _is_shape(x):
        if len(x) != 2 or min(x) < 0:
            raise ValueError(f"{name} is the shape {x}; expected two sizes >= 0")
        return int(x[0]), int(x[1])
    array = family.array(name, x)
    if len(array.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(array.shape)}; expected a matrix")
    return array
