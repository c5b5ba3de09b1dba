"""bfloat16 parts of float32 (`arithmetic`) as float32 arrays, where no kernel forms them."""

from __future__ import annotations

import numpy as np

from .problem import Problem

_UPPER = np.uint32(0xFFFF0000)


def parts_bytes(problem: Problem, parts: int) -> int:
    """Bytes of the parts, of what is left of an operand while it is split, and of a product."""
    sizes = problem.M * problem.K, problem.K * problem.N
    elements = parts * sum(sizes) + 2 * max(sizes) + problem.M * problem.N
    return elements * problem.operand.itemsize


def split(x: np.ndarray, parts: int) -> list[np.ndarray]:
    """Return the parts of float32 numbers, the largest first."""
    rest = np.array(x, np.float32, order="C")
    found: list[np.ndarray] = []
    for _ in range(parts):
        found.append(_rounded(rest))
        with np.errstate(invalid="ignore"):  # Inf - Inf
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
