"""Residues and reductions modulo p by NumPy's loops: `falcon._core.modular`."""

from __future__ import annotations

from typing import Any

import numpy as np

_ELEMENTS = 2**15  # handled at a time


def residues(x: np.ndarray, modulus: int, base: int, parts: np.ndarray, threads: int = 1) -> None:
    """Write the residues of least magnitude of a matrix of integers, in parts: parts[i] of place i.

    The lowest digit comes first; the last axis or the one before is contiguous.
    """
    step = max(_ELEMENTS // max(x.shape[1], 1), 1)
    for start in range(0, len(x), step):
        rest = _reduced(x[start : start + step], modulus)
        rest -= modulus * (rest > modulus // 2)
        for part in parts[:-1, start : start + step]:
            rest, last = (rest + base // 2) // base, rest
            part[...] = last - rest * base
        parts[-1, start : start + step] = rest


def reduce(
    sums: np.ndarray,
    modulus: int,
    bases: tuple[int, int],
    out: np.ndarray,
    alpha: int = 1,
    c: np.ndarray | None = None,
    beta: int = 1,
    threads: int = 1,
) -> None:
    """Write ``(alpha * (sums of parts with their places) + beta * c) % modulus`` to `out`.

    `sums`: axes are places of A, rows, places of B, columns. `c` may be `out`.
    """
    step = max(_ELEMENTS // max(out.shape[1], 1), 1)
    for start in range(0, len(out), step):
        rows = slice(start, start + step)
        whole: Any = 0
        for of_b in reversed(range(sums.shape[2])):
            part: Any = 0
            for of_a in reversed(range(len(sums))):
                term = sums[of_a, rows, of_b].astype(np.int64)
                part = (part * bases[0] + term % modulus) % modulus
            whole = (whole * bases[1] + part) % modulus
        whole = whole * alpha % modulus
        if c is not None:
            whole = (whole + _reduced(c[rows], modulus) * beta) % modulus
        out[rows] = whole


def _reduced(x: np.ndarray, modulus: int) -> np.ndarray:
    """Return ``x % modulus`` as int64."""
    wide = np.uint64 if x.dtype == np.uint64 else np.int64
    return (x.astype(wide) % wide(modulus)).astype(np.int64)
