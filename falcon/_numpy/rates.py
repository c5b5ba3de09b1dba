"""Measure the rates of NumPy's BLAS and loops for the cost model; name that BLAS."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.fit import fastest, rate, timed_in_turn
from falcon._core.rates import Rates
from falcon.codegen import combine_a
from falcon.codegen.numpy_exec import run, strip_rows
from falcon.schemes import get

from . import original
from .threads import numpy_blas

# Up to this size, glibc's malloc reuses memory that it holds; above, it asks the system for more.
_MALLOC_KEEPS = 32 * 2**20
# OpenBLAS's kernels for the newest x86 CPUs, which nothing holds back.
_NEWEST = ("skylakex", "cooperlake", "sapphirerapids")
# Sizes of the products, and of the matrices whose combines fit caches and do not: of a BLAS, of
# NumPy's loops.
_PRODUCTS, _COMBINES = (1152, 192), ((512, 2048), (256, 512))


def measure(operand: DType, budget: float) -> Rates:
    """Time np.matmul, additions in cache, and Strassen's Combine A, in about `budget` seconds."""
    dtype, loops = operand.numpy, not operand.has_blas
    size = _PRODUCTS[loops]
    ones = np.ones((size, size), dtype)
    strip = np.ones((3, 8192), dtype)
    add = fastest(lambda: np.add(strip[0], strip[1], out=strip[2]), 50) / strip.shape[1]
    calls: list[Callable[[], Any]] = [_combine_call(dtype, x) for x in _COMBINES[loops]]
    product, *combines = timed_in_turn([lambda: original.matmul(ones, ones), *calls], budget)
    near, far = (x * x * (1 + 7 / 4) / y for x, y in zip(_COMBINES[loops], combines, strict=True))
    return Rates(
        multiply=2 * size**3 / product,
        add=rate(add),
        bandwidth=far,
        near=max(near, far),
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
