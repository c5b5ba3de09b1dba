"""Integers modulo p by the engine, to the contract of `falcon._numpy.residues`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .extension import isa
from .operands import is_aligned

try:
    from . import _core
except ImportError:  # `why_unavailable` says so
    _core = None  # type: ignore[assignment]


_ELEMENTS = 2**15  # copied at a time


def modulo(terms: Any, outputs: Any, modulus: int, carry: int = 0, threads: int = 1) -> None:
    """See `falcon._numpy.residues`; what the engine cannot address is copied piece by piece."""
    whole = outputs[0][0]
    if abs(whole.strides[0]) < abs(whole.strides[1]):  # neighbours stay together
        terms, outputs = [[(x.T, *how) for x, *how in y] for y in (terms, outputs)]
    try:
        _core.modulo(terms, outputs, modulus, carry, threads, isa())
        return
    except (KeyError, ValueError):  # another byte order, or alignment
        lines, length = outputs[0][0].shape
        step = max(_ELEMENTS // max(length, 1), 1)
    for start in range(0, lines, step):
        rows = slice(start, start + step)
        given = [(x[rows] if _is_fit(x) else x[rows].astype(_kind(x)), *how) for x, *how in terms]
        made = [
            (x[rows] if _is_fit(x) else np.empty(x[rows].shape, _kind(x)), m) for x, m in outputs
        ]
        _core.modulo(given, made, modulus, carry, 1, isa())
        for (output, _), (x, _) in zip(outputs, made, strict=True):
            output[rows] = x


def _is_fit(x: np.ndarray) -> bool:
    """Whether the engine can address an array."""
    return x.dtype == _kind(x) and is_aligned(x)


def _kind(x: np.ndarray) -> np.dtype:
    """Return the type of a copy of an array for the engine."""
    kind = x.dtype.newbyteorder("=")
    return kind if kind in _core.NUMBERS else np.dtype(np.int64)
