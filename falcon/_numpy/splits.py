"""Products of float32 by bfloat16 splits (`arithmetic`), held as float32 arrays."""

from __future__ import annotations

import numpy as np

from falcon._core.arithmetic import Arithmetic
from falcon._core.problem import Problem

from . import original

_UPPER = np.uint32(0xFFFF0000)


def splits_bytes(problem: Problem, splits: int) -> int:
    """Bytes of splits, of what is left of an operand while it is split, a product and norms."""
    sizes = problem.M * problem.K, problem.K * problem.N
    elements = splits * sum(sizes) + 2 * max(sizes) + problem.M * problem.N
    return elements * problem.operand.itemsize + 8 * (problem.M + problem.N)


def by_splits(how: Arithmetic, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write the product; one of values that are not finite, or round to infinity, natively."""
    left, right = split(a, how.parts), split(b, how.parts)
    out[...] = 0
    for i, j in how.products:
        out += original.matmul(left[i], right[j])
    if not np.isfinite(out).all():
        original.matmul(a, b, out=out)


def split(x: np.ndarray, count: int) -> list[np.ndarray]:
    """Return so many splits of float32 numbers, the largest first."""
    rest = np.array(x, np.float32, order="C")
    splits: list[np.ndarray] = []
    for _ in range(count):
        splits.append(_rounded(rest))
        with np.errstate(invalid="ignore"):  # Inf - Inf
            rest -= splits[-1]
    return splits


def _rounded(x: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, to nearest even, as float32."""
    bits = x.view(np.uint32)
    nearest = bits >> np.uint32(16)
    nearest &= np.uint32(1)
    nearest += np.uint32(0x7FFF)
    nearest += bits
    nearest &= _UPPER
    rounded = nearest.view(np.float32)
    rounded[np.isnan(x)] = np.nan
    return rounded
