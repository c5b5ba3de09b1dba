"""`settled`: what is done to the operands of one product before a scheme adds their blocks.

::

    units along K (units.py) --> means (centring.py) --> scales of rows and columns (scaling.py)

Units come from a sample. Where rows or columns turn out so uneven that it may have missed the large
ones, norms along K are measured in full.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .packed import PackedOperand
from .plan import Plan
from .scaling import Scaling, is_wide
from .units import NONE, Measure, Units, chosen, fits, may_even, measured, measured_here, of_packed

_log = logging.getLogger("falcon")


def units_of(plan: Plan, a: np.ndarray, b: Any, measure: Measure) -> Units:
    """Return the units that samples of operands ask for.

    This needs memory that counts within a limit, but before the workspace is taken.
    """
    if isinstance(b, PackedOperand):
        return of_packed(b.units)
    return chosen(plan, a, b, measure) if may_even(plan) else NONE


def settled(
    plan: Plan,
    a: np.ndarray,
    b: Any,
    measure: Measure,
    scaled: Callable[[Units], Scaling | None],
    units: Units,
) -> Scaling | None:
    """Return how operands are multiplied; None: the product must be classical.

    `scaled`: `choose_scaling` of operands whose units are even. `units`: what `units_of` returns.
    """
    found = scaled(units)
    if found is None:
        return None
    is_packed = isinstance(b, PackedOperand)
    if is_packed:
        of_b = b.row_norms if plan.guarded else None
    else:
        of_b = measured(measure, b, 0) if may_even(plan) and found.is_wide else None
    if of_b is None:
        return replace(found, units=units) if units else found
    sizes = [measured(measure, a, 1), of_b]
    is_open = not (units or is_packed or plan.options.workspace_limit)
    if is_open and not fits(plan, units, sizes):
        units = chosen(plan, a, b, measure, always=True)
        found = scaled(units)
    if found is not None and fits(plan, units, sizes):
        return replace(found, units=units)
    _log.debug("falcon: %s is multiplied classically: nothing evens its units", plan.problem)
    return None


def row_norms_to_pack(b: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """Return squared norms of the rows of a B to be packed, if those of columns ask for them."""
    return measured(measured_here, b, 0) if is_wide(columns) else None
