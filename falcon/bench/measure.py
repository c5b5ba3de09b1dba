"""Measure two sides of a comparison in interleaved pairs, and the error of each.

The machine's speed drifts, so a ratio is only meaningful between neighbours in time: side 1 and
side 2 take turns, and the median of the pairwise ratios is reported, with its quartiles.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT64, LONGDOUBLE, DType, of

# Threads of OpenBLAS and OpenMP spin for tens of milliseconds after a call and would steal the
# cores from the other side: without a rest the same code ran at 0.4 to 0.9 of its speed.
REST_SECONDS = 0.15
# A call below this is repeated within its turn and the fastest repetition counts.
_SHORT_SECONDS = 0.1
_MOST_REPEATS = 5
# How well the median of the ratios must be known, and how near to 1 a side must come to itself.
TOLERANCE = 0.02
LEAST_PAIRS = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of some measurements."""

    median: float
    q1: float
    q3: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Summarise at least one value."""
        ordered = list(values)
        q1, middle, q3 = np.quantile(ordered, (0.25, 0.5, 0.75))
        return cls(float(middle), float(q1), float(q3), len(ordered))

    @property
    def uncertainty(self) -> float:
        """Half width of an interval of confidence of the median, relative to it.

        The notch of a box plot, 1.57 IQR/sqrt(n): McGill, Tukey and Larsen, The American
        Statistician 32 (1978). Two medians whose notches do not meet differ, at about 95 %.
        """
        return 1.57 * (self.q3 - self.q1) / sqrt(self.count) / self.median

    @property
    def stable(self) -> bool:
        """Whether there are pairs enough for the median to be known to `TOLERANCE`."""
        return self.count >= LEAST_PAIRS and self.uncertainty <= TOLERANCE


def repeats_for(seconds: float) -> int:
    """How often in a row a call of that many seconds is made in its turn: the best counts."""
    return min(_MOST_REPEATS, int(_SHORT_SECONDS / seconds) + 1)


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
    rest: float = REST_SECONDS,
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
        repeats.append(repeats_for(_timed(call)))
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


def sampled_rows(shape: tuple[int, ...], dtype: np.dtype, rows: int = 32) -> np.ndarray:
    """Return the indices of the rows that `sampled_error` compares, spread over C."""
    row = of(dtype)
    rows = 4 if not row.is_exact and _checked_in(row) is LONGDOUBLE else rows
    return np.unique(np.linspace(0, shape[0] - 1, rows).astype(int))


def exact_rows(a: np.ndarray, b: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Multiply some rows of A by B in higher precision.

    float16 and float32 (complex64) go to float64 (complex128), all wider ones to long double,
    which has no BLAS; integers are multiplied as NumPy does.
    """
    row = of(a.dtype)
    if row.is_exact:
        return a[index] @ b
    wider = _checked_in(row)
    kind = np.result_type(wider.numpy, a.dtype)  # complex where the operands are
    if wider.has_blas:
        return a[index].astype(kind) @ b.astype(kind)
    exact = np.zeros((len(index), b.shape[1]), kind)
    step = max(1, 2**22 // max(b.shape[1], 1))  # a slice of B at a time is widened
    for k in range(0, b.shape[0], step):
        exact += a[index, k : k + step].astype(kind) @ b[k : k + step].astype(kind)
    return exact


def relative_error(c: np.ndarray, exact: np.ndarray) -> float:
    """RMS of ``c - exact`` relative to the RMS of ``exact``; integers are right (0) or wrong."""
    if of(c.dtype).is_exact:
        return 0.0 if np.array_equal(c, exact) else float("inf")
    error = np.linalg.norm((c.astype(exact.dtype) - exact).astype(np.complex128))
    return float(error) / max(float(np.linalg.norm(exact.astype(np.complex128))), 1e-300)


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
    index = sampled_rows(c.shape, c.dtype, rows)
    return relative_error(c[index], exact_rows(a, b, index))


def _checked_in(row: DType) -> DType:
    """Return the real type in whose precision products of rounding types are checked."""
    return FLOAT64 if row.unit_roundoff > FLOAT64.unit_roundoff else LONGDOUBLE
