"""Least squares for measured times: few terms, no negative coefficients, relative errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np


def fit_times(terms: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Find the cost of each term so that the sums of costs fit the measured times best.

    `terms`: n rows of p numbers; the amount of each term in a measurement.
    `seconds`: n numbers.
    Returns list of p float, none negative: seconds per unit of each term, with the least sum of
    squared relative errors. Every subset of the terms is tried: for a few terms this is the
    simplest exact method.
    """
    relative = np.asarray(terms, float) / np.asarray(seconds, float)[:, None]
    ones, count = np.ones(len(relative)), relative.shape[1]
    best, least = np.zeros(count), np.inf
    for size in range(1, count + 1):
        for subset in combinations(range(count), size):
            part = relative[:, subset]
            found = np.linalg.lstsq(part, ones, rcond=None)[0]
            error = float(((part @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < least * (1 - 1e-9):
                least, best = error, np.zeros(count)
                best[list(subset)] = found
    return best.tolist()


def fastest(call: Callable[[], Any], repeats: int, budget: float = np.inf) -> float:
    """Seconds of the fastest of `repeats` calls after a warm-up; fewer calls past `budget` s."""
    call()
    times: list[float] = []
    while not times or (len(times) < repeats and sum(times) < budget):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return max(min(times), 1e-9)  # never 0, even with a coarse clock


def typical(times: Sequence[float]) -> float:
    """Lower quartile of some timings of one call: the time of a call with little disturbance.

    The minimum of many is a speed that the next call rarely reaches.
    """
    return max(sorted(times)[(len(times) - 1) // 4], 1e-9)


def rate(cost: float, most: float = 1e15) -> float:
    """Turn seconds per unit into units per second; `most` if the cost is too small to measure."""
    return 1 / cost if cost > 1 / most else most
