"""Squared norms of rows and columns by NumPy, with little memory beyond the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.centring import add_exactly
from falcon._core.dtypes import find
from falcon._core.scaling import remeasure

_RUN = 32  # steps whose elements are added in one chain
_SUBSCRIPTS = ("ij,ij->i", "ij,ij->j")


def measure_norms(
    x: np.ndarray, axis: int, squares: np.ndarray, ends: np.ndarray, sums: np.ndarray | None
) -> float:
    """Measure squared norms, see `falcon._core.scaling.Measure`; complex numbers stay whole."""
    row = find(x.dtype)
    is_own = row is not None and not row.is_exact and row.accumulator is row
    # einsum converts what it reads a buffer at a time.
    how: Any = {} if is_own else {"dtype": np.float64, "casting": "unsafe"}
    squares[...] = 0
    with np.errstate(all="ignore"):
        for component in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
            squares += np.einsum(_SUBSCRIPTS[axis], component, component, **how)
    # For smaller sums, single squares may have underflowed: 0 says that nothing was measured.
    squares[squares < float(np.finfo(how.get("dtype", x.dtype)).tiny) * 2.0**20] = 0
    remeasure(x, axis, squares)
    if sums is not None:
        lines = x.T if axis else x
        with np.errstate(all="ignore"):
            sums[...] = 0
            for start, end, total, low in zip((0, *ends[:-1]), ends, *sums, strict=True):
                for at in range(start, end, _RUN):
                    some = lines[:, at : min(at + _RUN, end)].sum(axis=1, dtype=np.float64)
                    add_exactly(total, low, some)
    return 1.0
