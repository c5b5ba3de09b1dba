"""Squared norms of rows and columns by NumPy, with little memory beyond the result."""

from __future__ import annotations

import numpy as np

from falcon._core.dtypes import find
from falcon._core.look import mended

from .classical import CONVERTED_BLOCK

_SUBSCRIPTS = ("ij,ij->i", "ij,ij->j")


def squared_norms(x: np.ndarray, axis: int, found: np.ndarray) -> np.ndarray:
    """Write the squared 2-norm of each row (axis 0) or column (axis 1) of x to `found`, float64."""
    row = find(x.dtype)
    if row is None or row.is_exact or row.accumulator is not row:
        _converted(x, axis, found)
        return mended(x, axis, found)
    parts = (x.real, x.imag) if row.is_complex else (x,)
    found[...] = 0
    with np.errstate(all="ignore"):
        for part in parts:
            found += np.einsum(_SUBSCRIPTS[axis], part, part)
    # For smaller sums, single squares may have underflowed: 0 says that nothing was measured.
    found[found < float(row.finfo.tiny) * 2.0**20] = 0
    return mended(x, axis, found)


def _converted(x: np.ndarray, axis: int, found: np.ndarray) -> None:
    """Write the squared norms of operands of other types, converted a block at a time."""
    found[...] = 0
    step = CONVERTED_BLOCK
    for i, j in np.ndindex(*(-(-size // step) for size in x.shape)):
        where = slice(i * step, (i + 1) * step), slice(j * step, (j + 1) * step)
        found[where[axis]] += np.square(x[where], dtype=np.float64).sum(axis=1 - axis)
