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
from falcon._core.model import read_again
from falcon._core.probe import RUN_SECONDS, probed, size_of, wait_for_threads
from falcon._core.rates import Rates
from falcon._core.timing import timed
from falcon.codegen import combine_a
from falcon.codegen.numpy_exec import run, strip_rows
from falcon.schemes import get

from .threads import limited, numpy_blas

# Up to this size, glibc's malloc reuses memory that it holds; above, it asks the system for more.
_MALLOC_KEEPS = 32 * 2**20
# Starting rates: OpenBLAS 0.3.31 on one core of a Zen 5, float32.
_STARTING = Rates(
    multiply=2.59e11,
    add=7.2e9,
    bandwidth=2.9e9,
    combine=(5.4e9, 2.9e9, 5.4e9, 2.9e9),
    cache=_MALLOC_KEEPS,
    surface=(1.4e-10, 1.8e-10, 1.0e-10),
    surface_far=(2.5e-10, 3.1e-10, 1.0e-10),
    surface_cache=4e6,
    ragged=(4.1e-11, 7.8e-11),
    overhead=1e-6,
    measured=False,
)
# What the probe takes there over what those rates predict: its operands stay in caches.
_PROBED = 0.96
# Those of the rates that are seconds of a BLAS's products.
_COSTS = "surface", "surface_far", "ragged"
# Least and largest size of the probe.
_SIZES = 384, 768
# The calls that show a BLAS's rates: cubes, and operands in and beyond caches with one small size,
# which fills the BLAS's kernels or leaves rows or columns over.
_LONG = 1536
# Bytes of operands at which they may leave the near caches: the number that fits best is taken.
_CACHES = (1e6, 2e6, 4e6, 8e6)
_BLAS_CALLS = (
    *((x, x, x) for x in (256, 512, 768, 1152)),
    *((35, 600, 600), (48, 900, 512), (99, 500, 700), (128, _LONG, _LONG), (387, _LONG, _LONG)),
    *((600, 16, 600), (900, 29, 512), (500, 48, 900), (700, 71, 500), (1000, 21, 300)),
    *((_LONG, 29, _LONG), (_LONG, 128, _LONG), (_LONG, 143, _LONG), (_LONG, 384, _LONG)),
    *((500, 600, 72), (_LONG, _LONG, 128), (_LONG, _LONG, 384)),
    *((387, 75, _LONG), (200, 300, 200)),
)


def measure(operand: DType, *, thorough: bool) -> Rates:
    """Time np.matmul, additions in cache, and Strassen's Combine A (about a second)."""
    repeats, dtype = 12 if thorough else 4, operand.numpy
    if operand.has_blas:
        found = _blas_rates(dtype, *((24, 8.0) if thorough else (8, 0.8)))
    else:
        found = {"multiply": _loop_rate(dtype)}
    strip = np.ones((3, 8192), dtype)
    add = fastest(lambda: np.add(strip[0], strip[1], out=strip[2]), 50) / strip.shape[1]
    near, far = (
        size * size * (1 + 7 / 4) / fastest(_combine_call(dtype, size), repeats, 0.3)
        for size in ((512, 2048) if operand.has_blas else (256, 512))
    )
    return Rates(
        **{"overhead": fastest(lambda: np.matmul(strip[:1, :1], strip[:1, :1]), 50), **found},
        add=rate(add),
        bandwidth=far,
        combine=(near, far, near, far),
        cache=_MALLOC_KEEPS,
    )


def starting(operand: DType, threads: int, *, probe: bool) -> Rates:
    """Return the starting rates, with `probe` scaled by np.matmul and np.add here (some 15 ms)."""
    if not probe:
        return _STARTING
    dtype, of_blas = operand.numpy, operand.has_blas
    size = _SIZES[0] if of_blas else 96
    wait_for_threads()
    with limited(threads):
        if of_blas:
            run = _timed_call(dtype, size)
            least = min(run() for _ in range(4))  # the first one starts the threads
            size = size_of(RUN_SECONDS, 2 * size**3 / least, *_SIZES)
        found = probed(_timed_call(dtype, size))
    told = 2 * size**3 / _STARTING.multiply + (sum(_STARTING.surface) * size**2 if of_blas else 0.0)
    slower = found.seconds / (_PROBED * told)
    strip = np.ones((3, 8192), dtype)
    addition = fastest(lambda: np.add(strip[0], strip[1], out=strip[2]), 20) / strip.shape[1]
    adding = 1 / (addition * _STARTING.add)
    near, far = (x * adding for x in _STARTING.combine[:2])
    return replace(
        _STARTING,
        multiply=_STARTING.multiply / slower,
        **{name: _times(getattr(_STARTING, name), slower * of_blas) for name in _COSTS},
        add=_STARTING.add * adding,
        bandwidth=far,
        combine=(near, far, near, far),
    )


def _times(values: tuple[float, ...], factor: float) -> Any:
    return tuple(x * factor for x in values)


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


def _blas_rates(dtype: np.dtype, rounds: int, budget: float) -> dict[str, Any]:
    """Return the rates of the BLAS's products: F*, sigma, epsilon and tau."""
    some = np.resize(np.random.default_rng(0).standard_normal(2**16), 3 * _LONG**2).astype(dtype)
    calls = [_product_call(some, *x) for x in _BLAS_CALLS]
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:  # first touch of the memory
        call()
    end = perf_counter() + budget
    for number in range(rounds):
        if number > 2 and perf_counter() > end:
            break
        for call, found in zip(calls, times, strict=True):
            call()  # brings the operands to where a program's last step leaves them
            found.append(timed(call))
    seconds, itemsize = [typical(x) for x in times], dtype.itemsize
    fits = [(cache, _fitted(cache, itemsize, seconds)) for cache in _CACHES]
    cache, (costs, _) = min(fits, key=lambda x: x[1][1])
    flop, near_a, far_a, near_b, far_b, of_c, *ragged, start = costs
    return {
        "multiply": rate(flop),
        "surface": (near_a, near_b, of_c),
        "surface_far": (far_a, far_b, of_c),
        "surface_cache": cache,
        "ragged": tuple(ragged),
        "overhead": start,
    }


def _fitted(cache: float, itemsize: int, seconds: list[float]) -> tuple[list[float], float]:
    """Return the costs of `_terms` if operands up to `cache` bytes are near; and squared errors."""
    terms = [_terms(*x, (x[0] + x[1]) * x[2] * itemsize > cache) for x in _BLAS_CALLS]
    costs = fit_times(terms, seconds)
    errors = np.asarray(terms) @ costs / np.asarray(seconds) - 1
    return costs, float((errors**2).sum())


def _terms(M: int, N: int, K: int, far: bool) -> tuple[float, ...]:
    """Flop; elements of A near and far, of B near and far, of C; read again; one start."""
    of_a, of_b = ((0, M * K), (0, K * N)) if far else ((M * K, 0), (K * N, 0))
    return 2.0 * M * N * K, *of_a, *of_b, M * N, *read_again(M, N, K), 1.0


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
