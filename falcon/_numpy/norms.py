"""Squared norms of rows and columns by NumPy alone, without memory beyond the result."""

from __future__ import annotations

import logging

import numpy as np

from falcon._core.dtypes import find
from falcon._core.plan import Plan
from falcon._core.spread import uneven

_log = logging.getLogger("falcon")

# Operands of another kind are converted so many rows and columns at a time.
_CONVERTED_BLOCK = 96
_SUBSCRIPTS = ("ij,ij->i", "ij,ij->j")


def is_refused(
    plan: Plan,
    a: np.ndarray,
    b: np.ndarray,
    columns: np.ndarray | None,
    blocks: tuple[int, int],
    room: np.ndarray,
) -> bool:
    """Whether the operands are too uneven for a scheme that was not asked for by name.

    Parameters
    ----------
    columns : ndarray or None
        Squared norms of the columns of a B that comes packed.
    blocks : (int, int)
        Rows of a block of A, columns of one of B.
    room : ndarray
        Where the other norms are formed; where it is too small, nothing can be known, and the
        scheme is refused.
    """
    scheme = plan.scheme
    if not plan.guarded or scheme is None:
        return False
    (M, N), taken = (plan.problem.M, plan.problem.N), room.view(np.uint8)[: room.nbytes // 8 * 8]
    norms = taken.view(np.float64)
    if norms.size < M + (N if columns is None else 0):
        return True
    squares(a, 0, norms[:M])
    if columns is None:
        columns = norms[M : M + N]
        squares(b, 1, columns)
    why = uneven(scheme, plan.growth, plan.option.chunks, norms[:M], columns, blocks)
    if why is not None:
        _log.debug("falcon: %s is multiplied classically: %s", plan.problem, why)
    return why is not None


def squares(x: np.ndarray, axis: int, found: np.ndarray) -> None:
    """Write the squared 2-norm of each row (axis 0) or column (axis 1) of x to `found`, float64."""
    row = find(x.dtype)
    if row is None or row.is_exact or row.accumulator is not row:
        _converted(x, axis, found)
        return
    parts = (x.real, x.imag) if row.is_complex else (x,)
    found[...] = 0
    with np.errstate(all="ignore"):
        for part in parts:
            found += np.einsum(_SUBSCRIPTS[axis], part, part)
    # Below that, single squares may have been lost: as if there was nothing to measure.
    found[found < float(row.finfo.tiny) * 2.0**20] = 0


def _converted(x: np.ndarray, axis: int, found: np.ndarray) -> None:
    found[...] = 0
    step = _CONVERTED_BLOCK
    for i, j in np.ndindex(*(-(-size // step) for size in x.shape)):
        where = slice(i * step, (i + 1) * step), slice(j * step, (j + 1) * step)
        found[where[axis]] += np.square(x[where], dtype=np.float64).sum(axis=1 - axis)
