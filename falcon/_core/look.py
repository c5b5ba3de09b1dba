r"""Measure the norms of operands before an LCMA chosen by "auto" runs, and decide on scaling.

A *line* is a row of A or a column of B::

    execute: look ---- Scaling (often empty) ---------> the scheme, and C is scaled back
                  \--- None: norms not measurable ----> the classical algorithm
    pack:    of_packed, column_norms
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import sqrt

import numpy as np

from .packed import PackedOperand
from .plan import Plan
from .spread import SCALED_FROM, Scaling, evened, spread

_log = logging.getLogger("falcon")

# Lines that are measured again: this many lines and elements of each at a time.
_LINES, _STEPS = 96, 512

Measure = Callable[[np.ndarray, int, np.ndarray], None]


def has_room(plan: Plan, scaling: Scaling) -> bool:
    """Whether scaled copies of the operands fit the workspace limit."""
    limit, p = plan.options.workspace_limit, plan.problem
    rows = 0 if scaling.rows is None else p.M * p.K
    columns = 0 if scaling.columns is None or p.packed else p.K * p.N
    needed = (rows + columns) * p.operand.itemsize
    fits = limit is None or not needed or plan.workspace + needed <= limit
    if not fits:
        _log.debug("falcon: %s is multiplied classically: a scaled copy does not fit", p)
    return fits


def look(
    plan: Plan,
    a: np.ndarray,
    b: np.ndarray | PackedOperand,
    measure: Measure,
    room: np.ndarray | None,
    blocks: tuple[int | None, int | None] = (None, None),
) -> Scaling | None:
    """Return how the operands of a plan are scaled; None: the product must be classical.

    Parameters
    ----------
    measure : callable
        ``measure(x, axis, found)`` writes the squared 2-norms of rows (axis 0) or columns of x to
        `found`; 0, Inf or NaN where it cannot measure them.
    room : ndarray of float64, or None
        Buffer for the norms; if it is too small, they cannot be measured.
    blocks : (int or None, int or None)
        Rows and columns of a block; None: equal parts of a chunk.
    """
    p, scheme = plan.problem, plan.scheme
    given = None if isinstance(b, np.ndarray) else b
    packed = None if given is None else given.column_powers
    if scheme is None or not plan.guarded:
        return Scaling(columns=packed)
    if room is None or room.size < p.M + (p.N if given is None else 0):
        return None
    rows, columns = room[: p.M], room[p.M : p.M + p.N]
    _measured(a, 0, rows, measure)
    if given is None:
        _measured(b, 1, columns, measure)  # type: ignore[arg-type]
    else:
        columns = given.scales
    if not (np.isfinite(rows).all() and np.isfinite(columns).all()):
        _log.debug("falcon: %s is multiplied classically: some norms cannot be measured", p)
        return None
    of_a = rows, scheme.m, plan.option.chunks[0], blocks[0]
    of_b = columns, scheme.n, plan.option.chunks[1], blocks[1]
    spreads = spread(*of_a), spread(*of_b)
    if given is None:
        powers = evened((of_a, of_b), spreads, SCALED_FROM)
    else:
        powers = evened((of_a,), spreads[:1], SCALED_FROM / spreads[1])
    if any(x is not None and ((x != 0) & (x != 1)).any() for x in powers):
        _log.debug(
            "falcon: %s is scaled: %s would add rows of A whose norms differ by a factor of %.3g "
            "and columns of B by %.3g (root mean square over least)",
            *(p, scheme.name, *spreads),
        )
    found = Scaling(powers[0], packed if given is not None else powers[1])
    if not found.fits(p.operand):
        _log.debug("falcon: %s is multiplied classically: its norms differ by too much", p)
        return None
    return found


def of_packed(columns: np.ndarray, plan: Plan, chunk: int) -> Scaling | None:
    """Return how columns with these squared norms are scaled when they are packed for a plan.

    The spread of the columns may be up to sqrt(`SCALED_FROM`), so that as much is left for the rows
    of A. None: B is packed for the classical algorithm, because some norms cannot be measured.
    """
    assert plan.scheme is not None  # for type checkers
    found: Scaling | None = None
    if np.isfinite(columns).all():
        about = columns, plan.scheme.n, chunk, None
        (powers,) = evened((about,), (spread(*about),), sqrt(SCALED_FROM))
        found = Scaling(columns=powers)
    if found is None or not found.fits(plan.problem.operand):
        _log.debug("falcon: b is packed for the classical algorithm: its norms cannot be measured")
        return None
    if found:
        _log.debug("falcon: columns of b are scaled as they are packed: their norms differ")
    return found


def column_norms(b: np.ndarray, measure: Measure) -> np.ndarray:
    """Return the squared 2-norms of the columns of b; Inf or NaN where they cannot be measured."""
    return _measured(b, 1, np.empty(b.shape[1]), measure)


def _measured(x: np.ndarray, axis: int, found: np.ndarray, measure: Measure) -> np.ndarray:
    """Measure, then again in float64 where that failed; 0 then means that the line is all zeros."""
    measure(x, axis, found)
    lines = x if axis == 0 else x.T
    doubtful = np.flatnonzero(~((found > 0) & (found < np.inf)))
    for start in range(0, len(doubtful), _LINES):
        some = doubtful[start : start + _LINES]
        squares, nonzero = np.zeros(len(some)), np.zeros(len(some), bool)
        for step in range(0, lines.shape[1], _STEPS):
            part = np.abs(lines[some, step : step + _STEPS])
            present = part != 0
            if present.any():
                nonzero |= present.any(axis=1)
                with np.errstate(all="ignore"):
                    squares += np.square(part, dtype=np.float64).sum(axis=1)
        squares[nonzero & (squares < np.finfo(np.float64).tiny * 2.0**60)] = np.nan
        found[some] = squares
    return found
