"""Measure the rates of NumPy's BLAS and loops for the cost model; name that BLAS."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.rates import Rates
from falcon._tools.locks import importing
from falcon.codegen import combine_a
from falcon.codegen.numpy_exec import run, strip_rows
from falcon.schemes import get

from . import original
from .threads import numpy_blas

# OpenBLAS's kernels for the newest x86 CPUs, which nothing holds back.
_NEWEST = ("skylakex", "cooperlake", "sapphirerapids")
# Sizes of the product, and of the matrix whose sums are formed: of a BLAS, of NumPy's loops.
_PRODUCT, _COMBINED = (1152, 192), (2048, 512)


def measure(operand: DType, budget: float) -> Rates:
    """Time np.matmul, additions in cache, and Strassen's Combine A, in about `budget` seconds."""
    with importing():
        from falcon._core.fit import fastest, fit_classical, rate, timed_in_turn

    dtype, loops = operand.numpy, not operand.has_blas
    size, combined = _PRODUCT[loops], _COMBINED[loops]
    ones, strip = np.ones((size, size), dtype), np.ones((3, 8192), dtype)
    add = fastest(lambda: np.add(strip[0], strip[1], out=strip[2]), 50) / strip.shape[1]
    calls = lambda: original.matmul(ones, ones), _combine_call(dtype, combined)
    product, combine = timed_in_turn(calls, budget)
    moved = combined * combined * (1 + 7 / 4)
    costs: tuple[float, ...] = ()
    if not loops and not operand.is_complex:
        some = np.ones(3_800 * 1_633, dtype)
        costs = fit_classical(partial(_classical_call, some), (1, 1), budget / 2)
    return Rates(2 * size**3 / product, rate(add), moved / combine, classical=costs)


def _classical_call(some: np.ndarray, M: int, N: int, K: int) -> Callable[[], Any]:
    a, b = some[: M * K].reshape(M, K), some[: K * N].reshape(K, N)
    return partial(original.matmul, a, b, np.empty((M, N), some.dtype))


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
