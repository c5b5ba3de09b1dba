"""Integers modulo p by the engine, to the contract of `falcon._numpy.residues`."""

from __future__ import annotations

from functools import cache
from typing import Any

from falcon._core.cpus import kept_bytes

from .extension import isa

try:
    from . import _core
    from .pool import Pool
except ImportError:  # `why_unavailable` says so
    _core = None  # type: ignore[assignment]


@cache
def memory() -> Pool:
    """Return the pool of residues and sums, besides that of the engine's workspaces."""
    return Pool(kept_bytes())


def modulo(
    terms: Any, weights: Any, parts: Any, modulus: int, base: int = 0, threads: int = 1
) -> bool:
    """Return whether the engine can address the matrices, and has done it."""
    if abs(parts[0].strides[0]) < abs(parts[0].strides[1]):  # neighbours stay together
        terms, parts = [x.T for x in terms], [x.T for x in parts]
    try:
        _core.modulo(terms, weights, parts, modulus, base, threads, isa())
    except (KeyError, ValueError):  # another byte order, or alignment
        return False
    return True
