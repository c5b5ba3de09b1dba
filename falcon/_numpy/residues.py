"""Integers modulo p by NumPy's loops, before and after the product of their residues."""

from __future__ import annotations

from typing import Any

import numpy as np

_ELEMENTS = 2**15  # handled at a time


def modulo(
    terms: Any, weights: Any, parts: Any, modulus: int, base: int = 0, threads: int = 1
) -> None:
    """Write the sum of matrices of integers, times their weights, modulo a number below 2^31.

    It is written as digits in a base, of least magnitude as the residue itself, the lowest first;
    base 0: from 0 to ``modulus - 1``, to a single matrix, which may be one of the terms. Floats are
    below 2^53 - 2^32 in magnitude.
    """
    step = max(_ELEMENTS // max(parts[0].shape[1], 1), 1)
    for start in range(0, len(parts[0]), step):
        rows, rest = slice(start, start + step), np.int64(0)
        for x, weight in zip(terms, weights, strict=True):
            wide: Any = np.uint64 if x.dtype.kind == "u" else np.int64
            residue = (x[rows].astype(wide) % wide(modulus)).astype(np.int64)
            rest = (rest + residue * weight) % modulus
        if base:
            rest = rest - modulus * (rest > modulus // 2)
        for part in parts[:-1]:
            rest, last = (rest + base // 2) // base, rest
            part[rows] = last - rest * base
        parts[-1][rows] = rest
