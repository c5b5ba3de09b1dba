"""Checksums of a product's rows: ``check="verify"``'s first look, in one pass over each matrix.

::

    z = B y, t = A z, w = C y      y: random, of both signs, over norms of B's columns
    alpha t + beta C_0 y - w       by rows, beside what rounding may cause

The passes are those that measure norms, on all threads: sums of squares come with them, and tell
what rounding may cause.
"""

from __future__ import annotations

import os
from math import inf, sqrt
from typing import Any

import numpy as np

from falcon._backends import ENGINE
from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._core.options import threads_of

_SAMPLED = 32  # rows of B that tell the norms of its columns
_REACH, _MOST = 20, 100  # powers of two between these norms, and beyond one
# Of u sqrt(K), what errors may be: twelve standard deviations, of normal numbers; and those of sums
# whose terms have one sign, over the result: 1 / sqrt(3).
_ALLOWED, _ALIKE = 2.5, 0.6


def suspects(x: Any, growth: float) -> np.ndarray | None:
    """Return the rows of a product of `execute` without the right checksums.

    None: these do not tell, for its type or its numbers.
    """
    kind, threads, read = x.dtype.numpy, threads_of(x.options), (x.a, x.b, x.c, x.out)
    if x.dtype not in (FLOAT32, FLOAT64) or not x.out.size:
        return None
    if any(y is not None and y.dtype != kind for y in read):
        return None
    with np.errstate(all="ignore"):
        y = _weights(x.b, kind)
        of_b = ENGINE.measured(x.b, 0, threads, y)
        if of_b is None:
            return None
        power = int(np.frexp(np.abs(of_b[1]).max())[1])
        z = np.ldexp(of_b[1], -power).astype(kind)
        terms = [(x.a, z, float(x.alpha) * 2.0**power), (x.out, y, -1.0)]
        terms += [] if x.c is None else [(x.c, y, float(x.beta))]
        sums, sizes, unit = [], [], x.dtype.unit_roundoff
        for matrix, vector, factor in terms:
            found = ENGINE.measured(matrix, 0, threads, vector)
            if found is None:
                return None
            sums.append(factor * found[1])
            sizes.append(abs(factor) * np.sqrt(found[0]))
        # A pass adds up to 2048 numbers in the type, sixteen and more side by side.
        own = 2 + 0.25 * sqrt(min(max(x.a.shape[1], x.out.shape[1]), 2048))
        alike = sizes[0] + _ALIKE * sum(sizes[1:])
        allowed = unit * (own * sum(sizes) + _ALLOWED * growth * sqrt(x.a.shape[1]) * alike)
        if not (np.abs(sums[0]) > 2 * allowed).any():
            return None
        return np.flatnonzero(~((np.abs(sum(sums)) <= allowed) & (allowed < inf)))


def _weights(b: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Return random numbers over powers of two near the norms of columns, of a sample."""
    sample = b[:: max(1, len(b) // _SAMPLED)].astype(np.float64)
    norms = np.sqrt(np.square(sample).sum(axis=0))
    norms[norms == 0] = norms.min(where=norms > 0, initial=norms.max())
    exponents = np.frexp(norms)[1]
    top = min(max(int(exponents.max()), -_MOST), _MOST)
    bits = np.frombuffer(os.urandom(len(norms)), np.int8)
    random = np.copysign(1 + (bits & 127) / 128, bits)  # few of them add up to 0
    return np.ldexp(random, -np.clip(exponents, top - _REACH, top)).astype(kind)
