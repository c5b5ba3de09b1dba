"""Operands whose products are known: of whole numbers exactly, of others far beyond float64."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from falcon._core.dtypes import BFLOAT16, DType

# Whole numbers of floats: so small that no sum of them is rounded. Of integers that float64
# kernels multiply: their sums stay below 2^53.
_SMALL, _MIDDLE = 4, 2**18
# Bits of the leading parts of numbers below 1: sums of 4096 products of such parts are exact.
_LEADING = 2.0**20


class Operands(NamedTuple):
    """A and B as kernels take them, and their product as integers (modulo 2^64) or floats."""

    a: np.ndarray
    b: np.ndarray
    product: np.ndarray


@cache
def whole(sizes: tuple[int, int, int], row: DType) -> Operands:
    """Return matrices of whole numbers: any that integers hold, and small ones for floats."""
    M, N, K = sizes
    random = np.random.default_rng(sizes)
    shapes = ((M, K), row.left), ((K, N), row.right)
    a, b = (_whole(random, shape, kind, row) for shape, kind in shapes)
    kind = np.int64 if row.is_exact else np.complex128 if row.is_complex else np.float64
    return Operands(held(a, row.left), held(b, row.right), a.astype(kind) @ b.astype(kind))


def _whole(random: Any, shape: tuple[int, int], kind: DType, row: DType) -> np.ndarray:
    if row.is_exact and row.arithmetic is None:
        range_ = np.iinfo(kind.numpy)
        return random.integers(range_.min, range_.max, shape, kind.numpy, endpoint=True)
    most = _MIDDLE if row.is_exact else _SMALL
    x = random.integers(-most, most + 1, shape)
    return x + 1j * random.integers(-most, most + 1, shape) if row.is_complex else x


@cache
def fractions(sizes: tuple[int, int, int], row: DType) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices of random numbers between -1 and 1, as kernels take them."""
    M, N, K = sizes
    random = np.random.default_rng(sizes)
    shapes = (M, K), (K, N)
    found = [random.uniform(-1, 1, x) for x in shapes]
    if row.is_complex:
        found = [x + 1j * random.uniform(-1, 1, x.shape) for x in found]
    return held(found[0], row.left), held(found[1], row.right)


def held(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return numbers rounded (or wrapped) to a type; bfloat16 as the integers that hold it."""
    if kind is not BFLOAT16:
        return x.astype(kind.numpy)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # ties to even


def wide(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return the numbers of a type in float64, or complex128."""
    if kind is BFLOAT16 and x.dtype == np.uint16:
        x = (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.complex128 if kind.is_complex else np.float64)


def difference(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``c - a b`` of float64 (or complex128) matrices with entries between -1 and 1.

    Products of the leading 20 bits are summed exactly, and the rest is 2^-20 of it: the error is
    that of 70 bits.
    """
    first, second = (np.round(x * _LEADING) / _LEADING for x in (a, b))
    return (c - first @ second) - (first @ (b - second) + (a - first) @ b)


def norms(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the 2-norms along an axis."""
    return np.sqrt(np.square(np.abs(x)).sum(axis))


def unlike(c: np.ndarray, expected: np.ndarray) -> str:
    """Say how a product differs from what it is exactly; empty if it does not."""
    if c.shape != expected.shape:
        return f"its shape is {c.shape}, not {expected.shape}"
    wrong = ~((c == expected) | ((c != c) & (expected != expected)))  # NaN is not itself
    if not wrong.any():
        return ""
    at = tuple(int(x[0]) for x in np.nonzero(wrong))
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} entries differ, the first at "
        f"{list(at)}: {c[at]}, not {expected[at]}"
    )


def beyond(ratios: np.ndarray) -> str:
    """Say how errors exceed their bounds, given as ratios; empty if they do not."""
    wrong = ~(ratios <= 1)
    if not wrong.any():
        return ""
    ratios = np.where(np.isnan(ratios), np.inf, ratios)
    at = tuple(map(int, np.unravel_index(np.argmax(ratios), ratios.shape)))
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} entries have errors beyond the bound, the "
        f"largest at {list(at)}: {ratios[at]:.3g} times the bound"
    )
