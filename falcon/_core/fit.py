"""Rates from measured times: least squares over the cost model's own terms.

The model's seconds are sums of three costs, each times an amount. The amounts of a call are what
the model says if one cost is 1 and the others are 0, so that measuring and predicting cannot count
differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from time import perf_counter, process_time
from typing import Any

import numpy as np

from falcon._tools.timing import disturbance, timed

from .method import Method
from .model import seconds
from .problem import Problem
from .rates import UNMEASURED, DisturbedError, Rates, classical_terms

# The rates that are fitted; at a speed of _FAST nothing takes time.
_TERMS = "multiply", "add", "bandwidth"
_FAST = 1e30
# Rounds of which the times count, at least.
_LEAST_ROUNDS = 3


def fit_rates(
    calls: Sequence[tuple[Problem, Method]],
    times: Sequence[float],
    tile: tuple[int, int],
    *,
    guarded: bool = False,
) -> tuple[Rates, float]:
    """Return the rates that fit the times of some calls best, and the RMS relative error.

    `calls`: of one type and number of threads, in which the terms of the model differ.
    `guarded`: norms were measured in them, as "auto" does. What that took is fitted, and left out.
    """
    terms = [_amounts(*call, tile, guarded) for call in calls]
    costs = fit_times(terms, times)
    errors = np.asarray(terms) @ costs / np.asarray(times) - 1
    speeds: Any = {name: rate(x) for name, x in zip(_TERMS, costs, strict=False)}
    return Rates(**speeds, overlap=0.0, tile=tile), float((errors**2).mean() ** 0.5)


# Products of 5 Mflop to 1 Gflop, of all forms, in which the costs of `Rates.classical` differ.
CLASSICAL = [
    *((x, x, x) for x in (160, 256, 400, 640, 768)),
    *((11, 437, 1633), (16, 1000, 1000), (28, 3800, 900), (48, 2000, 500)),
    *((1500, 17, 777), (3200, 20, 160), (3000, 40, 60), (1400, 100, 250), (1500, 90, 3400)),
    *((190, 3000, 20), (1000, 200, 24), (200, 2000, 40), (700, 1500, 150)),
    *((50, 100, 2800), (320, 40, 1500), (190, 190, 880), (1024, 512, 512)),
]


def fit_classical(
    call_of: Callable[[int, int, int], Callable[[], Any]], tile: tuple[int, int], budget: float
) -> tuple[float, ...]:
    """Measure `Rates.classical`, in about `budget` seconds; `call_of` returns a product's call."""
    times = timed_in_turn([call_of(*x) for x in CLASSICAL], budget)
    return tuple(fit_times([classical_terms(*x, tile) for x in CLASSICAL], times))


def _amounts(problem: Problem, method: Method, tile: tuple[int, int], guarded: bool) -> list[float]:
    """Return how much of each term a call has; then norms, and calls that measure them."""
    found, measured = [], 0.0
    for name in _TERMS:
        speeds: Any = {**dict.fromkeys(_TERMS, _FAST), name: 1.0}
        times = dict(seconds(problem, method, Rates(**speeds, overlap=0.0, tile=tile)))
        if name == "bandwidth":  # products that wait for memory are not what is fitted
            del times["multiply"]
        measured = times.pop("norms", 0.0)
        found.append(sum(times.values()))
    return [*found, measured, float(measured > 0)] if guarded else found


def fit_times(terms: Sequence[Sequence[float]], times: Sequence[float]) -> list[float]:
    """Return the cost of each term, none negative, with the least sum of squared relative errors.

    `terms`: a row per measurement, the amount of each term. Every subset of the terms is tried: for
    a few this is the simplest exact method.
    """
    relative = np.asarray(terms, float) / np.asarray(times, float)[:, None]
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


def timed_in_turn(calls: Sequence[Callable[[], Any]], budget: float) -> list[float]:
    """Return the typical seconds of calls that are timed in turn, as often as `budget` allows.

    A disturbance then affects a round of each call, not all rounds of one.
    Raises DisturbedError: see `disturbance`.
    """
    rounds: list[list[float]] = []
    for call in calls:  # touches the memory
        call()
    began, used = perf_counter(), process_time()
    end = began + budget
    while len(rounds) < _LEAST_ROUNDS or perf_counter() < end:
        rounds.append([timed(call) for call in calls])
    share = (process_time() - used) / max(perf_counter() - began, 1e-9)
    times = [*zip(*rounds, strict=True)]
    if why := disturbance(times, share):
        raise DisturbedError(why)
    return [float(x) for x in np.percentile(times, 25, axis=1)]


def fastest(call: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest of `repeats` calls after a warm-up."""
    call()
    return min(timed(call) for _ in range(repeats))


def rate(cost: float) -> float:
    """Turn seconds per unit into units per second; `UNMEASURED` if they are too few to measure."""
    return 1 / cost if cost > 1 / UNMEASURED else UNMEASURED
