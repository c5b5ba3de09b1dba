"""Squared norms of rows and columns by NumPy, with little memory beyond the result."""

from __future__ import annotations

import numpy as np

from falcon._core.dtypes import find
from falcon._core.scaling import remeasure

from .classical import CONVERTED_BLOCK

_SUBSCRIPTS = ("ij,ij->i", "ij,ij->j")


def measure_norms(x: np.ndarray, axis: int, squares: np.ndarray) -> float:
    """Measure squared norms, see `falcon._core.scaling.Measure`; complex numbers stay whole."""
    row = find(x.dtype)
    squares[...] = 0
    if row is None or row.is_exact or row.accumulator is not row:
        _converted(x, axis, squares)
    else:
        with np.errstate(all="ignore"):
            for component in (x.real, x.imag) if row.is_complex else (x,):
                squares += np.einsum(_SUBSCRIPTS[axis], component, component)
        # For smaller sums, single squares may have underflowed: 0 says that nothing was measured.
        squares[squares < float(row.finfo.tiny) * 2.0**20] = 0
    remeasure(x, axis, squares)
    return 1.0


def _converted(x: np.ndarray, axis: int, squares: np.ndarray) -> None:
    """Add the squares of operands of other types, converted a block at a time."""
    step = CONVERTED_BLOCK
    for i, j in np.ndindex(*(-(-size // step) for size in x.shape)):
        where = slice(i * step, (i + 1) * step), slice(j * step, (j + 1) * step)
        squares[where[axis]] += np.square(x[where], dtype=np.float64).sum(axis=1 - axis)
