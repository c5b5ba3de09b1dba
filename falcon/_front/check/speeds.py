"""A short comparison with NumPy, and how far predictions were from what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT32, FLOAT64, DType
from falcon._core.timing import LEAST_PAIRS, REST_SECONDS, Estimate, Side, interleave
from falcon._front.gemm import gemm
from falcon._front.plan import numpy_seconds, plan
from falcon._front.planner import predicted

from .large import free_bytes

# Lengths of the cubes, the largest of which NumPy is predicted to multiply in `_LONGEST` seconds.
_SIZES = 4096, 3072, 2048, 1536, 1024, 512
_LONGEST = 0.25
_SHARE = 1 / 4  # of the free memory, for operands and results
# Seconds after which no rounds are added, and after which there are fewer than `LEAST_PAIRS`.
_SECONDS, _LIMIT = 5.0, 8.0


@dataclass(frozen=True, slots=True)
class Speed:
    """One product's times by falcon and by NumPy.

    Attributes
    ----------
    sizes : tuple of int
        M, N, K.
    dtype : str
    label : str
        What falcon ran: the scheme and the backend.
    seconds : float
        Median of falcon's times.
    numpy_seconds : float
        Median of the times of ``np.matmul``.
    ratio : Estimate
        falcon's speed over NumPy's, pair by pair.
    predicted, numpy_predicted : float
        Seconds by the cost model; 0 where it says nothing.
    """

    sizes: tuple[int, int, int]
    dtype: str
    label: str
    seconds: float
    numpy_seconds: float
    ratio: Estimate
    predicted: float
    numpy_predicted: float

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        names = "sizes", "dtype", "label", "seconds", "numpy_seconds"
        more = "predicted", "numpy_predicted"
        return {
            **{name: getattr(self, name) for name in (*names, *more)},
            "ratio": self.ratio.document(),
        }


def compared() -> list[tuple[DType, tuple[int, int, int]]]:
    """Return what is compared: a cube in float32 and float64, and few rows by a large matrix."""
    n = next((x for x in _SIZES if _fits(x)), _SIZES[-1])
    return [
        (FLOAT32, (n, n, n)),
        (FLOAT32, (n // 4, 2 * n, 2 * n)),
        (FLOAT64, (n, n, n)),
    ]


def _fits(n: int) -> bool:
    """Whether float64 cubes take neither too long nor too much memory."""
    chosen = plan((n, n), (n, n), "float64", scheme="classical")
    seconds = numpy_seconds(chosen) or predicted(chosen).total
    return seconds <= _LONGEST and 4 * 8 * n * n <= _SHARE * free_bytes()


def measure(row: DType, sizes: tuple[int, int, int]) -> Speed:
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
    first, second = interleave(
        sides, LEAST_PAIRS, most=2 * LEAST_PAIRS, seconds=_SECONDS, limit=_LIMIT
    )
    return Speed(
        *(sizes, row.name, f"{chosen.label} on {chosen.backend.name}"),
        *(first.median, second.median, first.over(second)),
        *(predicted(chosen).total, numpy_seconds(chosen) or 0.0),
    )
