r"""Judge the norms of operands before an LCMA chosen by "auto" runs: whether they are scaled.

A *line* is a row of A or a column of B. Backends measure the squared norms of lines::

    execute: mended, judged ---- Scaling (often empty) ---------> the scheme, and C is scaled back
                            \--- None: norms not measurable ----> the classical algorithm
    pack:    mended, of_packed
"""

from __future__ import annotations

import logging
from math import sqrt

import numpy as np

from .packed import PackedOperand
from .plan import Plan
from .spread import SCALED_FROM, Scaling, evened, spread

_log = logging.getLogger("falcon")

# Lines that are measured again: this many lines and elements of each at a time.
_LINES, _STEPS = 96, 512


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


def judged(
    plan: Plan,
    rows: np.ndarray,
    columns: np.ndarray,
    packed: PackedOperand | None = None,
    blocks: tuple[int | None, int | None] = (None, None),
) -> Scaling | None:
    """Return how the operands of a plan are scaled; None: the product must be classical.

    `rows`, `columns`: ndarray of float64; squared 2-norms of the rows of A and the columns of B, as
    `mended` returns them.
    `packed`: B, if it is packed: its columns are scaled already.
    `blocks`: rows and columns of a block; None: equal parts of a chunk.
    """
    p, scheme = plan.problem, plan.scheme
    assert scheme is not None  # for type checkers
    if not (np.isfinite(rows).all() and np.isfinite(columns).all()):
        _log.debug("falcon: %s is multiplied classically: some norms cannot be measured", p)
        return None
    of_a = rows, scheme.m, plan.option.chunks[0], blocks[0]
    of_b = columns, scheme.n, plan.option.chunks[1], blocks[1]
    spreads = spread(*of_a), spread(*of_b)
    if packed is None:
        powers = evened((of_a, of_b), spreads, SCALED_FROM)
    else:
        powers = evened((of_a,), spreads[:1], SCALED_FROM / spreads[1])
    if any(x is not None and ((x != 0) & (x != 1)).any() for x in powers):
        _log.debug(
            "falcon: %s is scaled: %s would add rows of A whose norms differ by a factor of %.3g "
            "and columns of B by %.3g (root mean square over least)",
            *(p, scheme.name, *spreads),
        )
    found = Scaling(powers[0], powers[1] if packed is None else packed.column_powers)
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


def mended(x: np.ndarray, axis: int, found: np.ndarray) -> np.ndarray:
    """Return squared norms, in float64 where measuring them failed: 0 then is a line of zeros.

    `axis`: {0, 1}; norms of rows, or of columns.
    `found`: ndarray of float64; what was measured; 0, Inf or NaN where that failed, replaced in
    place.
    """
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
