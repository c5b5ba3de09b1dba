"""A short comparison with NumPy, and how far predictions were from what was measured."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT32, FLOAT64, DType
from falcon._core.timing import LEAST_PAIRS, REST_SECONDS, Side, interleave
from falcon._front.gemm import gemm
from falcon._front.plan import by_numpy, plan
from falcon._front.planner import predicted

from .cases import room
from .result import CheckResult, Speed

# Lengths of the cubes, the largest of which NumPy is predicted to multiply in `_LONGEST` seconds.
_SIZES = 4096, 3072, 2048, 1536, 1024, 512
_LONGEST = 0.25
# Seconds after which no rounds are added, and after which there are fewer than `LEAST_PAIRS`.
_SECONDS, _LIMIT = 5.0, 8.0


def compared() -> list[tuple[DType, tuple[int, int, int]]]:
    """Return what is compared: a cube in float32 and float64, and few rows by a large matrix."""
    for n in _SIZES:  # the first that takes neither too long nor too much memory
        chosen = plan((n, n), (n, n), "float64", scheme="classical")
        seconds = (by_numpy(chosen) or predicted(chosen)).total
        if seconds <= _LONGEST and 4 * 8 * n * n <= room():
            break
    return [(FLOAT32, (n, n, n)), (FLOAT32, (n // 4, 2 * n, 2 * n)), (FLOAT64, (n, n, n))]


def measure(row: DType, sizes: tuple[int, int, int], result: CheckResult) -> None:
    """Multiply in turn by falcon and by NumPy."""
    M, N, K = sizes
    random = np.random.default_rng(sizes)
    kind: Any = row.numpy
    a, b = random.random((M, K), kind), random.random((K, N), kind)
    mine, other = np.empty((2, M, N), kind)
    chosen = plan(a, b)
    rest = REST_SECONDS if chosen.threads > 1 else 0.0
    sides = [
        Side.of("falcon", partial(gemm, a, b, out=mine), rest),
        Side.of("numpy", partial(np.matmul, a, b, out=other), rest),
    ]
    limits: Any = {"most": 2 * LEAST_PAIRS, "seconds": _SECONDS, "limit": _LIMIT}
    first, second = interleave(sides, LEAST_PAIRS, **limits)
    label, ratio = f"{chosen.label} on {chosen.backend.name}", first.over(second)
    numpy = by_numpy(chosen)
    predictions = predicted(chosen).total, numpy.total if numpy else 0.0
    found = Speed(sizes, row.name, label, first.median, second.median, ratio, *predictions)
    result.speeds.append(found)
