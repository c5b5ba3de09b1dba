"""Integers modulo p by NumPy's loops, before and after the product of their residues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_ELEMENTS = 2**15  # handled at a time


def modulo(terms: Any, outputs: Any, modulus: int, carry: int = 0, threads: int = 1) -> None:
    """Write the sum of matrices of integers, times their weights, modulo a number up to 2^62.

    `terms`: of each the matrix, its weight, and 0, 0; or a number m and a factor: then its residue
    r of least magnitude, times the factor modulo m, is weighted. `carry` times the sum of their
    r / m, rounded, is subtracted. (Floats are below 2^53 - 2^32 in magnitude.)

    `outputs`: of each the matrix that is written, and 0: from 0 to ``modulus - 1``, perhaps over a
    term; or a number m: modulo it, of least magnitude as the sum itself. A single term with the
    weight 1 is not reduced by a `modulus` of 0.
    """
    step = max(_ELEMENTS // max(outputs[0][0].shape[1], 1), 1)
    for start in range(0, len(outputs[0][0]), step):
        rows, total, ratio, turns = slice(start, start + step), np.int64(0), 0.0, 0.0
        for x, weight, m, factor in terms:
            digits: Any = _digits(x[rows])
            if m:
                digits = [_least(x[rows].astype(np.int64) % m * factor % m, m)]
                turns = turns + digits[0] / m
            for i, digit in enumerate(digits):
                by = (weight << 21 * i) % modulus if modulus else weight << 21 * i
                total = total + digit * np.int64(by)  # modulo 2^64
                ratio = ratio + digit * (by / (modulus or 1))
        whole = np.floor(np.add(turns, 0.5)).astype(np.int64)  # in all rounding modes
        total, ratio = total - whole * carry, ratio - whole * (carry / (modulus or 1))
        if modulus:
            total = (total - np.floor(ratio + 0.5).astype(np.int64) * modulus) % modulus
        elif terms[0][0].dtype.kind == "u":
            total = total.view(np.uint64)
        for output, m in outputs:
            least = _least(total, modulus) if m and modulus else total
            output[rows] = _least((least % total.dtype.type(m)).astype(np.int64), m) if m else total


def _digits(x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield numbers of less than 2^32 whose sum, times powers of 2^21, is x."""
    if x.dtype.itemsize < 8 or x.dtype.kind == "f":
        yield x.astype(np.int64)
        return
    for i in range(3):
        digit = x >> x.dtype.type(21 * i)
        yield (digit & x.dtype.type(2**21 - 1) if i < 2 else digit).astype(np.int64)


def _least(x: Any, modulus: int) -> Any:
    """Return the number of least magnitude that is equal to ``0 <= x < modulus`` modulo it."""
    return x - modulus * (x > modulus // 2)
