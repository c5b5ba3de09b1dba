"""How far the scales differ of lines that an LCMA adds up: what "auto" looks at before it runs one.

An LCMA adds rows of A (columns of B) that stand at the same place of different blocks. Rounding
errors of the larger row then reach the rows of C that belong to the smaller one, where the
classical algorithm leaves none. Let ``s`` be the root mean square over the least of the norms that
are added up: relative to ``norm(a_i) norm(b_j)``, errors of c_ij grow to about
``growth * s_A * s_B`` times those of the classical algorithm, on entries of mean zero. Lines of K
may differ: their scales are in both norms.

What is not looked at: entries of one sign. The sums of a scheme then add up coherently, and errors
are 2 to 20 times those of the classical algorithm whatever the norms (docs/decision.md).
"""

from __future__ import annotations

import numpy as np

from falcon.schemes import Scheme

# What growth * s_A * s_B may come to. The classical algorithm errs by 0.3 to 0.6 eps norm(a_i)
# norm(b_j) on normal data, so that 20 keeps what scales add below 8 eps. Five schemes, as
# examples/scales.py prints them: one row ten times as large 15 to 35, errors of 4.3 to 7.7 eps; one
# row and one column 90 to 127, 4.7 to 10 eps; normal and uniform data 2.1 to 8.9; six channels a
# thousand times as large 6 to 15 for growth up to 4.
_MOST = 20.0
# Plans whose growth the caller allowed to be larger run where lines are as alike as random ones.
_LEAST_ROOM = 2.0


def spread(squares: np.ndarray, parts: int, chunk: int, block: int | None = None) -> float:
    """Return the largest ratio of root mean square to least norm among lines that are added up.

    Parameters
    ----------
    squares : ndarray of float64
        Squared 2-norms of the rows of A, or the columns of B.
    parts : int
        Blocks that the scheme cuts them into.
    chunk : int
        Lines that are multiplied at a time; each chunk is cut into blocks of its own.
    block : int, optional
        Lines of a block; by default an equal part of the chunk, rounded up.

    Returns
    -------
    float
        At least 1; Inf or NaN where a norm is 0, not finite, or could not be measured.
    """
    worst = 1.0
    for start in range(0, len(squares) if parts > 1 else 0, max(chunk, 1)):
        lines = squares[start : start + chunk]
        length = block or -(-len(lines) // parts)
        # The last block may be shorter: fewer lines meet at its missing places.
        count, total, least = np.zeros(length), np.zeros(length), np.full(length, np.inf)
        for first in range(0, len(lines), length):
            some = lines[first : first + length]
            count[: len(some)] += 1
            total[: len(some)] += some
            np.minimum(least[: len(some)], some, out=least[: len(some)])
        with np.errstate(all="ignore"):
            ratio = float(np.max(total / (count * least)))
        worst = np.maximum(worst, ratio)  # which hands a NaN on
    return float(np.sqrt(worst))


def most_uneven(growth: float) -> float:
    """Return the largest product of both spreads that an LCMA of that growth may run with."""
    return max(_MOST / growth, _LEAST_ROOM)


def is_uneven(growth: float, rows: float, columns: float) -> bool:
    """Whether scales could make an LCMA of that growth err by 8 eps ``norm(a_i) norm(b_j)``.

    Parameters
    ----------
    growth : float
        Of the plan.
    rows, columns : float
        What `spread` found for A and B.
    """
    with np.errstate(all="ignore"):
        return not rows * columns <= most_uneven(growth)


def uneven(
    scheme: Scheme,
    growth: float,
    chunks: tuple[int, int, int],
    rows: np.ndarray,
    columns: np.ndarray,
    blocks: tuple[int | None, int | None] = (None, None),
) -> str | None:
    """Say why the classical algorithm is to multiply instead of `scheme`, if it is.

    Parameters
    ----------
    chunks : (int, int, int)
        `falcon._core.plan.Option.chunks`.
    rows, columns : ndarray of float64
        Squared norms of A's rows and B's columns.
    blocks : (int or None, int or None)
        Rows and columns of a block, where they are not equal parts of a chunk.
    """
    of_rows = spread(rows, scheme.m, chunks[0], blocks[0])
    of_columns = spread(columns, scheme.n, chunks[1], blocks[1])
    if not is_uneven(growth, of_rows, of_columns):
        return None
    return (
        f"{scheme.name} would add rows of A whose norms differ by a factor of {of_rows:.3g} and "
        f"columns of B by {of_columns:.3g} (root mean square over least)"
    )
