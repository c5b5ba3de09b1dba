"""Residues and reductions modulo p by the engine, to the contract of `falcon._numpy.residues`.

Their matrices lie in memory that is kept between calls.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from falcon._core.cpus import kept_bytes
from falcon._core.dtypes import of

from .extension import isa
from .operands import are_plain, is_aligned

try:
    from . import _core
    from .pool import Pool
except ImportError:  # `why_unavailable` says so
    _core = None  # type: ignore[assignment]


@cache
def memory() -> Pool:
    """Return the pool of these matrices, besides that of the engine's workspaces."""
    return Pool(kept_bytes())


def residues(x: np.ndarray, modulus: int, base: int, parts: np.ndarray, threads: int = 1) -> None:
    """Write the residues of least magnitude of a matrix of integers, in parts."""
    if parts.strides[-1] != parts.itemsize:
        x, parts = x.T, parts.transpose(0, 2, 1)
    _core.residues(_readable(x), parts, modulus, base, threads, isa())


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
    """Write ``(alpha * (sums of parts with their places) + beta * c) % modulus`` to `out`."""
    is_direct = out.dtype in _core.NUMBERS and (are_plain(out) or is_aligned(out))
    target = out if is_direct else np.empty(out.shape, np.int64)
    c = None if c is None else _readable(c)
    _core.reduce(sums, target, modulus, bases, alpha, c, beta, threads, isa())
    if target is not out:
        out[...] = target


def _readable(x: np.ndarray) -> np.ndarray:
    if x.dtype in _core.NUMBERS and (are_plain(x) or is_aligned(x)):
        return x
    return np.array(x, of(x.dtype).numpy, order="K")
