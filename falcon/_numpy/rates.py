"""Measure the rates of NumPy's BLAS and loops for the cost model; name that BLAS."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.fit import fastest, fit_times, rate, typical
from falcon._core.model import read_again
from falcon._core.rates import Rates
from falcon._core.timing import timed
from falcon.codegen import combine_a
from falcon.codegen.numpy_exec import run, strip_rows
from falcon.schemes import get

from . import original
from .threads import numpy_blas

# Up to this size, glibc's malloc reuses memory that it holds; above, it asks the system for more.
_MALLOC_KEEPS = 32 * 2**20
# OpenBLAS's kernels for the newest x86 CPUs, which nothing holds back.
_NEWEST = ("skylakex", "cooperlake", "sapphirerapids")
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
        **{"overhead": fastest(lambda: original.matmul(strip[:1, :1], strip[:1, :1]), 50), **found},
        add=rate(add),
        bandwidth=far,
        combine=(near, far, near, far),
        cache=_MALLOC_KEEPS,
    )


def blas_name() -> str:
    """Return name, version and kernel architecture of NumPy's BLAS."""
    build: Any = np.show_config(mode="dicts")
    name = build.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown")
    blas = numpy_blas()
    if blas is None:
        return f"{name}, whose threads cannot be set"
    x = blas.about
    return f"{x['internal_api']} {x['version']}, {x.get('architecture', '?')} kernels"


def held() -> str:
    """Say if the environment holds NumPy's BLAS to kernels of older CPUs; "" if it does not."""
    blas, name = numpy_blas(), "OPENBLAS_CORETYPE"
    if blas is None or not os.environ.get(name) or blas.about.get("internal_api") != "openblas":
        return ""
    kernels = str(blas.about.get("architecture", "?"))
    if kernels.lower() in _NEWEST:
        return ""
    return (
        f"NumPy is held to {kernels} kernels by {name}; falcon's gain over NumPy at its best "
        "kernels may be smaller"
    )


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
    return lambda: original.matmul(a, b, out=c)


def _loop_rate(dtype: np.dtype) -> float:
    """Return F* for a dtype that NumPy multiplies without BLAS."""
    ones = np.ones((192, 192), dtype)
    return 2 * 192**3 / fastest(lambda: original.matmul(ones, ones), 3)


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
