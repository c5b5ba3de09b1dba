"""Measure two sides of a comparison in interleaved pairs, and the error of each.

The machine's speed drifts, so a ratio is only meaningful between neighbours in time: side 1 and
side 2 take turns, and the median of the pairwise ratios is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

# Threads of OpenBLAS and OpenMP spin for tens of milliseconds after a call and would steal the
# cores from the other side.
_REST_SECONDS = 0.1
# A call below this is repeated within its turn and the fastest repetition counts.
_SHORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pairs:
    """Interleaved timings of several sides; `seconds[i][j]` is side i in round j."""

    seconds: tuple[tuple[float, ...], ...]

    def median_seconds(self, side: int) -> float:
        """Median time of a side."""
        return median(self.seconds[side])

    def ratio(self, side: int, to: int) -> float:
        """Median over the rounds of ``time of to / time of side``: above 1, `side` is faster."""
        return median(y / x for x, y in zip(self.seconds[side], self.seconds[to], strict=True))


def interleave(
    sides: list[Callable[[], Any]],
    rounds: int,
    tick: Callable[[], None] | None = None,
    rest: float = _REST_SECONDS,
) -> Pairs:
    """Time every side once per round, in turn, after one untimed call each.

    Parameters
    ----------
    sides : list of callables
    rounds : int
        Number of timings per side.
    tick : callable, optional
        Called after every timing (progress).
    rest : float
        Seconds of sleep before each timing.
    """
    repeats = []
    for call in sides:
        repeats.append(min(5, int(_SHORT_SECONDS / _timed(call)) + 1))
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, call in enumerate(sides):
            time.sleep(rest)
            seconds[side].append(min(_timed(call) for _ in range(repeats[side])))
            if tick is not None:
                tick()
    return Pairs(tuple(tuple(x) for x in seconds))


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)  # never 0, even by a coarse clock


def sampled_error(a: np.ndarray, b: np.ndarray, c: np.ndarray, rows: int = 32) -> float:
    """RMS error of some rows of ``c`` relative to the RMS of the product, in higher precision.

    Parameters
    ----------
    a, b, c : ndarray, shapes (M, K), (K, N), (M, N)
    rows : int
        Rows compared, spread over C. float64 operands are compared in long double, which has no
        BLAS, so only four rows are then taken.

    Returns
    -------
    float
        0.0 or infinity for integers, which are right or wrong. For long double the difference
        from NumPy's product, because there is no higher precision.
    """
    wide = {"e": "d", "f": "d", "d": "g", "g": "g", "F": "D", "D": "G", "G": "G"}
    kind = wide.get(c.dtype.char)
    rows = 4 if kind in ("g", "G") else rows
    index = np.unique(np.linspace(0, c.shape[0] - 1, rows).astype(int))
    if kind is None:
        return 0.0 if np.array_equal(c[index], a[index] @ b) else float("inf")
    exact = a[index].astype(kind) @ b.astype(kind)
    error = np.linalg.norm((c[index].astype(kind) - exact).astype(np.complex128))
    return float(error) / max(float(np.linalg.norm(exact.astype(np.complex128))), 1e-300)
