"""float32 by products of bfloat16 parts (`_core.arithmetic`), summed by NumPy's BLAS."""

from __future__ import annotations

import numpy as np

from falcon._core.arithmetic import Arithmetic

_UPPER = np.uint32(0xFFFF0000)


def rounded(x: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, to nearest even, as float32; NaN stays NaN."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & _UPPER
    return np.where(np.isnan(x), x, nearest.view(np.float32))


def split(x: np.ndarray, parts: int) -> list[np.ndarray]:
    """Return the parts of float32 numbers, the largest first."""
    found: list[np.ndarray] = []
    for _ in range(parts):
        found.append(rounded(x))
        x = x - found[-1]
    return found


def by_parts(how: Arithmetic, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write the product; the parts and a product take ``parts (M K + K N) + M N`` elements.

    As on tiles, values that are not finite, or round to infinity, need native arithmetic.
    """
    left, right = split(a, how.parts), split(b, how.parts)
    out[...] = 0
    for i, j in how.products:
        out += left[i] @ right[j]
    if not np.isfinite(out).all():
        np.matmul(a, b, out=out)
