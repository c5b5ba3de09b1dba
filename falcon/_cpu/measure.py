"""Measure the rates of falcon's kernels, from whole calls in which the model's terms differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.fit import fastest, fit_classical, fit_rates, timed_in_turn
from falcon._core.options import Options
from falcon._core.plan import Backend, Plan
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon.schemes import Scheme, get

from . import _core, blocking
from .extension import isa

Call = tuple[int, int, int, Scheme | None]

# Seconds of the largest cube, and the least and the largest size that it may have.
_LARGEST_SECONDS = 0.02
_SIZES = 768, 1536


def measure(backend: Backend, operand: DType, threads: int, budget: float) -> Rates:
    """Measure the rates of one dtype and number of threads, in about `budget` seconds.

    Raises DisturbedError: other programs made it worthless.
    """
    kernel = _core.kernel_info(operand.engine, isa())
    bench = _Bench(backend, operand, threads)
    first = fastest(bench.call(480, 480, 480, None), 3)
    bench.plans.clear()
    size = _size(first, _core.cache_sizes()["l3"] / 2, operand.itemsize)
    runs = [bench.call(*call) for call in _calls(size)]
    times = timed_in_turn(runs, budget)
    tile, guarded = (kernel["mr"], kernel["vlen"]), operand.arithmetic is not None
    found = fit_rates(bench.plans, times, tile, guarded=guarded)[0]
    if not operand.has_blas:  # nothing competes
        return found
    costs = fit_classical(lambda M, N, K: bench.call(M, N, K, None), found.tile, budget / 2)
    return replace(found, classical=costs)


def _calls(size: int) -> list[Call]:
    """Calls in which the costs differ: cubes, short and long K, few rows and columns, schemes."""
    strassen, twice = get("strassen"), get("strassen@strassen")
    wide, half, low, thin = 3 * size // 2, size // 2, 288, 96
    return [
        *((x, x, x, scheme) for x in (half, size) for scheme in (None, strassen, twice)),
        *((wide, wide, k * thin, scheme) for k, scheme in ((1, None), (2, strassen), (4, twice))),
        # Many blocks of C, short ones of K.
        *((wide, wide, 3 * thin, get(name)) for name in ("3x2x3:15", "3x3x4:29", "6x3x4:54")),
        *((wide, low, size, scheme) for scheme in (None, strassen)),
        *((low, wide, size, scheme) for scheme in (None, strassen)),
        (size, size, size, get("3x4x4:38")),
        # Operands and sums far beyond the caches.
        *((wide, wide, wide, scheme) for scheme in (None, strassen, get("3x6x4:54"))),
    ]


def _size(seconds: float, cache: float, itemsize: int) -> int:
    """Choose the size of the largest cube, a multiple of 96; a cube of 480 took `seconds`.

    Large enough that Strassen's sums of A and B leave the cache, if that does not take too long.
    """
    affordable = (_LARGEST_SECONDS / seconds) ** (1 / 3) * 480
    beyond = (cache / (7 / 4 * 2 * itemsize)) ** 0.5 + 96
    least, most = _SIZES
    return int(min(max(affordable, beyond, least), most)) // 96 * 96


class _Bench:
    """Runs calls of one dtype on shared memory."""

    def __init__(self, backend: Backend, operand: DType, threads: int) -> None:
        largest = (3 * _SIZES[1] // 2) ** 2
        some = 50 * np.random.default_rng(0).standard_normal(2**16)
        self._backend, self._operand, self._threads = backend, operand, threads
        self._a, self._b = np.resize(some.astype(operand.left.numpy), (2, largest))
        self._c = np.empty(largest, operand.result.numpy)
        self.plans: list[tuple[Problem, Any]] = []

    def call(self, M: int, N: int, K: int, scheme: Scheme | None) -> Callable[[], Any]:
        """Return the function that runs a call, and add it to `plans`."""
        row, how = self._operand, None
        if row.arithmetic is not None:
            row, how = row.left, row
        problem = Problem.of_sizes((M, N, K), row, Options(threads=self._threads))
        plan = Plan(problem, self._backend, blocking.method(problem, scheme, None, how), "")
        a, b, c = (
            x[: rows * columns].reshape(rows, columns)
            for x, rows, columns in ((self._a, M, K), (self._b, K, N), (self._c, M, N))
        )
        self.plans.append((problem, plan.method))
        run = plan.runner.bind(a, b, None, c)
        return lambda: run(a, b, None, c)
