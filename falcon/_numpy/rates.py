"""Measure the rates of NumPy's BLAS and loops for the cost model; name that BLAS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.fit import fastest, fit_times, rate, typical
from falcon._core.probe import RUN_SECONDS, probed, size_of, wait_for_threads
from falcon._core.rates import Rates
from falcon._core.timing import timed
from falcon.codegen import combine_a
from falcon.codegen.numpy_exec import run, strip_rows
from falcon.schemes import get

from .threads import limited, numpy_blas

_FLAT = (0.0, 0.0, 0.0)
# Up to this size, glibc's malloc reuses memory that it holds; above, it asks the system for more.
_MALLOC_KEEPS = 32 * 2**20
# Starting rates: OpenBLAS 0.3.31 on one core of a Zen 5, float32.
_STARTING = Rates(
    multiply=2.57e11,
    add=7.2e9,
    bandwidth=2.9e9,
    combine=(5.4e9, 2.9e9, 5.4e9, 2.9e9),
    cache=_MALLOC_KEEPS,
    surface=(3.0e-10, 3.9e-10, 1.7e-10),
    overhead=1e-6,
    measured=False,
)
# What the probe takes there over what those rates predict: its operands stay in caches.
_PROBED = 0.93
# Least and largest size of the probe.
_SIZES = 384, 768


def measure(operand: DType, *, thorough: bool) -> Rates:
    """Time np.matmul, additions in cache, and Strassen's Combine A (about a second)."""
    repeats, dtype = 12 if thorough else 4, operand.numpy
    if operand.has_blas:
        multiply, surface = _blas_rates(dtype, *((24, 8.0) if thorough else (8, 0.8)))
    else:
        multiply, surface = _loop_rate(dtype), _FLAT
    strip = np.ones((3, 8192), dtype)
    add = fastest(lambda: np.add(strip[0], strip[1], out=strip[2]), 50) / strip.shape[1]
    near, far = (
        size * size * (1 + 7 / 4) / fastest(_combine_call(dtype, size), repeats, 0.3)
        for size in ((512, 2048) if operand.has_blas else (256, 512))
    )
    return Rates(
        multiply=multiply,
        add=rate(add),
        bandwidth=far,
        combine=(near, far, near, far),
        cache=_MALLOC_KEEPS,
        surface=surface,
        overhead=fastest(lambda: np.matmul(strip[:1, :1], strip[:1, :1]), 50),
    )


def starting(operand: DType, threads: int, *, probe: bool) -> Rates:
    """Return the starting rates, with `probe` scaled by np.matmul and np.add here (some 15 ms)."""
    if not probe:
        return _STARTING
    dtype = operand.numpy
    surface, size = (_STARTING.surface, _SIZES[0]) if operand.has_blas else (_FLAT, 96)
    wait_for_threads()
    with limited(threads):
        if operand.has_blas:
            run = _timed_call(dtype, size)
            least = min(run() for _ in range(4))  # the first one starts the threads
            size = size_of(RUN_SECONDS, 2 * size**3 / least, *_SIZES)
        found = probed(_timed_call(dtype, size))
    told = _PROBED * (2 * size**3 / _STARTING.multiply + sum(surface) * size**2)
    slower = found.seconds / told
    strip = np.ones((3, 8192), dtype)
    addition = fastest(lambda: np.add(strip[0], strip[1], out=strip[2]), 20) / strip.shape[1]
    adding = 1 / (addition * _STARTING.add)
    near, far = (x * adding for x in _STARTING.combine[:2])
    return replace(
        _STARTING,
        multiply=_STARTING.multiply / slower,
        surface=(surface[0] * slower, surface[1] * slower, surface[2] * slower),
        add=_STARTING.add * adding,
        bandwidth=far,
        combine=(near, far, near, far),
    )


def _timed_call(dtype: np.dtype, size: int) -> Callable[[], float]:
    """Return a function that multiplies squares and returns the seconds."""
    a, b, c = np.ones((3, size, size), dtype)
    return partial(timed, partial(np.matmul, a, b, out=c))


def blas_name() -> str:
    """Return name, version and kernel architecture of NumPy's BLAS."""
    build: Any = np.show_config(mode="dicts")
    name = build.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown")
    blas = numpy_blas()
    if blas is None:
        return f"{name}, whose threads cannot be set"
    x = blas.about
    return f"{x['internal_api']} {x['version']}, {x.get('architecture', '?')} kernels"


def _blas_rates(
    dtype: np.dtype, rounds: int, budget: float
) -> tuple[float, tuple[float, float, float]]:
    """Return F* and sigma of the BLAS, from products with equal sizes and with one small size."""
    long = 1536
    some = np.resize(np.random.default_rng(0).standard_normal(2**16), 3 * long**2).astype(dtype)
    sizes = [(size, size, size) for size in (512, 768, 1152)]
    for short in (128, 384):
        sizes += [(short, long, long), (long, short, long), (long, long, short)]
    calls = [_product_call(some, *x) for x in sizes]
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:  # first touch of the memory
        call()
    end = perf_counter() + budget
    for number in range(rounds):
        if number > 2 and perf_counter() > end:
            break
        for call, found in zip(calls, times, strict=True):
            start = perf_counter()
            call()
            found.append(perf_counter() - start)
    terms = [(2.0 * M * N * K, M * K, K * N, M * N) for M, N, K in sizes]
    flop, *surface = fit_times(terms, [typical(x) for x in times])
    return rate(flop), (surface[0], surface[1], surface[2])


def _product_call(some: np.ndarray, M: int, N: int, K: int) -> Callable[[], Any]:
    third = len(some) // 3
    a, b, c = (
        some[i * third : i * third + rows * columns].reshape(rows, columns)
        for i, (rows, columns) in enumerate(((M, K), (K, N), (M, N)))
    )
    return lambda: np.matmul(a, b, out=c)


def _loop_rate(dtype: np.dtype) -> float:
    """Return F* for a dtype that NumPy multiplies without BLAS."""
    ones = np.ones((192, 192), dtype)
    return 2 * 192**3 / fastest(lambda: np.matmul(ones, ones), 3)


def _combine_call(dtype: np.dtype, size: int) -> Callable[[], None]:
    """Return a call of Strassen's Combine A of a square matrix, into new memory each time."""
    program = combine_a(get("strassen"))
    half, ones = size // 2, np.ones((size, size), dtype)
    blocks = [ones[i : i + half, j : j + half] for i in (0, half) for j in (0, half)]
    rows = strip_rows(4, half, half, dtype.itemsize)
    scratch = np.empty((program.n_temporaries, rows, half), dtype)

    def combine() -> None:
        run(program, blocks, list(np.empty((7, half, half), dtype)), scratch)

    return combine
