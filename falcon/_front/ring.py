"""Integers times vectors, exactly: modulo 2^64, or modulo a number below 2^31."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isqrt, log2

import numpy as np

# Matrices are widened this many elements at a time: half a megabyte of float64.
_STRIP_ELEMENTS = 65536
# Bits of the chance that a wrong product passes, with a modulus.
_MODULAR_BITS = 40


def times(x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Multiply integers modulo 2^64."""
    product = np.empty((x.shape[0], vectors.shape[1]), np.uint64)
    for at, strip in strips(x, vectors.dtype):
        product[at] = strip @ vectors
    return product


def times_modulo(x: np.ndarray, vectors: np.ndarray, modulus: int) -> np.ndarray:
    """Multiply integers modulo a number below 2^31: in digits of 16 bits, exact in float64."""
    product = np.zeros((x.shape[0], vectors.shape[1]), np.uint64)
    p, kind = np.uint64(modulus), np.dtype(np.uint64 if x.dtype.kind == "u" else np.int64)
    places = (0,) if modulus <= 2**16 else (0, 16)
    for start in range(0, x.shape[1], _STRIP_ELEMENTS):  # sums below 2^48
        inner = slice(start, start + _STRIP_ELEMENTS)
        digits = [(place, _digit(vectors[inner], place)) for place in places]
        for at, strip in strips(x[:, inner], kind):
            strip %= kind.type(modulus)
            for place in places:
                digit = _digit(strip, place)
                for other, factor in digits:
                    image = (digit @ factor).astype(np.uint64) % p
                    product[at] += (image << place) % p << other
            product[at] %= p
    return product


def _digit(x: np.ndarray, place: int) -> np.ndarray:
    return (x >> place & 0xFFFF).astype(np.float64)


def modular_trials(modulus: int) -> int:
    """Return how many random vectors leave a wrong product a chance of at most 2^-40.

    If e, a row of the error, is not 0 modulo p, the greatest common divisor g of its entries and p
    is less than p, and e x is a random multiple of g: it is 0 with probability g / p, which is at
    most 1 / q for the smallest prime factor q of p.
    """
    numbers = np.arange(2, isqrt(modulus) + 1)
    factors = numbers[modulus % numbers == 0]
    return ceil(_MODULAR_BITS / log2(factors[0] if factors.size else modulus))


def strips(x: np.ndarray, kind: np.dtype) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield copies of some rows at a time."""
    step = max(1, _STRIP_ELEMENTS // max(x.shape[1], 1))
    for start in range(0, x.shape[0], step):
        at = slice(start, start + step)
        yield at, x[at].astype(kind, order="C")
