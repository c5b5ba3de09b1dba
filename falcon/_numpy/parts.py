"""float32 by products of bfloat16 parts (`_core.arithmetic`), summed by NumPy's BLAS."""

from __future__ import annotations

import numpy as np

from falcon._core.arithmetic import Arithmetic
from falcon._core.problem import Problem

from . import original

_UPPER = np.uint32(0xFFFF0000)


def parts_bytes(problem: Problem) -> int:
    """Bytes that `by_parts` allocates: the parts, what is left of an operand, a product."""
    how, sizes = problem.operand.arithmetic, (problem.M * problem.K, problem.K * problem.N)
    if how is None:
        return 0
    elements = how.parts * sum(sizes) + 2 * max(sizes) + problem.M * problem.N
    return elements * problem.operand.itemsize


def by_parts(how: Arithmetic, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write the product; one of values that are not finite, or round to infinity, natively."""
    left, right = _split(a, how.parts), _split(b, how.parts)
    out[...] = 0
    for i, j in how.products:
        out += original.matmul(left[i], right[j])
    if not np.isfinite(out).all():
        original.matmul(a, b, out=out)


def _split(x: np.ndarray, parts: int) -> list[np.ndarray]:
    """Return the parts of float32 numbers, the largest first."""
    rest = np.array(x, np.float32, order="C")
    found: list[np.ndarray] = []
    for _ in range(parts):
        found.append(_rounded(rest))
        rest -= found[-1]
    return found


def _rounded(x: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, to nearest even, as float32."""
    bits = x.view(np.uint32)
    nearest = bits >> np.uint32(16)
    nearest &= np.uint32(1)
    nearest += np.uint32(0x7FFF)
    nearest += bits
    nearest &= _UPPER
    found = nearest.view(np.float32)
    found[np.isnan(x)] = np.nan
    return found
