"""``overflow="raise"``: products of integers that do not fit their type raise OverflowError.

::

    largest magnitudes, then norms of lines --> no sum is too large: the product, as any other
                     else: the product c in new memory, and d, the same in float64, whose errors
                     are bounded: the right value is c + 2^w round((d - c) / 2^w)

where c has w bits. Integers of 64 bits may leave more than one multiple of 2^w possible: c is then
compared with the right values modulo two primes of 62 bits, of which no such multiple is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT64, of
from falcon._core.packed import PackedOperand
from falcon._core.symmetric import copy_triangle

from .buffers import without

Multiply = Callable[[Any], Any]  # `execute.multiply`

_STRIP = 2**21  # elements that are measured, or multiplied by float64, at a time
_PRIMES = 2**62 - 57, 2**62 - 87
_ROUNDING = 2.0**-53


def checked(x: Any, multiply: Multiply) -> None:
    """Multiply a product of `execute`, or a batch.

    Raises OverflowError: a result does not fit its type, that of the product; nothing is written.
    """
    wraps = replace(x, options=replace(x.options, overflow="wrap"))
    if _fits(x):
        multiply(wraps)
        return
    options = without(wraps.options, x.out.shape, x.dtype)
    whole = replace(wraps, out=x.adapter.empty(tuple(x.out.shape), x.dtype), options=options)
    if x.symmetric:
        whole = replace(whole, symmetric="full")
    multiply(whole)
    for at, one in zip(np.ndindex(*x.out.shape[:-2]), whole.matrices(), strict=True):
        _check(one, at, multiply)
    if x.symmetric in ("lower", "upper"):
        copy_triangle(whole.out, x.out, x.symmetric)
    else:
        x.adapter.copy(whole.out, x.out)


def _operands(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a and b as they are multiplied."""
    b = x.b
    if isinstance(x.packed, PackedOperand):
        b = x.packed.needed_source("overflow='raise' takes b itself; keep it")
    return x.a.astype(x.operand.left.numpy, copy=False), b.astype(x.operand.right.numpy, copy=False)


def _magnitude(x: np.ndarray) -> int:
    return max(int(x.max(initial=0)), -int(x.min(initial=0)))


def _fits(x: Any) -> bool:
    """Whether no result can be too large, by the largest magnitudes, and by norms of lines."""
    a, b = _operands(x)
    low, high = _range(x)
    if low == 0 and _is_signed(x, a, b):
        return False  # what is below 0 does not fit
    largest, added, factor = high, 0, abs(int(x.alpha))
    of_a, of_b = _magnitude(a), _magnitude(b)
    if x.c is not None:
        added = abs(int(x.beta)) * _magnitude(x.c)
    if a.shape[-1] * of_a * of_b * factor + added <= largest:
        return True
    sums = min(_largest(a, -1, 1) * of_b, of_a * _largest(b, -2, 1))
    if sums * factor + added <= largest:
        return True
    squares = _largest(a, -1, 2) * _largest(b, -2, 2)
    return (isqrt(squares) + 1) * factor + added <= largest


def _range(x: Any) -> tuple[int, int]:
    info = np.iinfo(x.dtype.numpy)
    return int(info.min), int(info.max)


def _is_signed(x: Any, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a result may be negative."""
    factors = int(x.alpha) < 0 or (x.c is not None and int(x.beta) < 0)
    added = [] if x.c is None else [x.c]
    return factors or any(y.dtype.kind == "i" and bool((y < 0).any()) for y in (a, b, *added))


def _largest(x: np.ndarray, axis: int, power: int) -> int:
    """Return a bound of the largest sum of magnitudes, or of squares, along an axis."""
    lines = np.swapaxes(x, -1, axis) if axis == -2 else x
    lines = lines.reshape(-1, lines.shape[-1]) if lines.flags.c_contiguous else lines
    found = 0.0
    for strip in _strips(lines):
        sizes = np.abs(strip.astype(np.float64))
        sums = np.sum(sizes if power == 1 else np.square(sizes), axis=-1)
        found = max(found, float(sums.max(initial=0)))
    return int(found * (1 + (x.shape[axis] + 4) * _ROUNDING)) + 1


def _strips(x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows, of all matrices of a batch, some at a time."""
    for at in np.ndindex(*x.shape[:-2]):
        step = max(1, _STRIP // max(x.shape[-1], 1))
        for start in range(0, x.shape[-2], step):
            yield x[at][start : start + step]


def _check(x: Any, at: tuple[int, ...], multiply: Multiply) -> None:
    """Raise if an entry of a product, computed by integers that wrap, is not the right one."""
    a, b = _operands(x)
    c, (low, high) = x.out, _range(x)
    half = 2.0 ** (8 * x.dtype.itemsize - 1)
    right, columns = b.astype(np.float64), _norms(b, 0)
    added = 0.0 if x.c is None else abs(float(x.beta))
    step, terms = max(1, _STRIP // max(c.shape[1], 1)), a.shape[1] + 8
    for start in range(0, len(c), step):
        rows = slice(start, start + step)
        near = np.empty(c[rows].shape)
        how: dict[str, Any] = {"operand": FLOAT64, "dtype": FLOAT64, "c": None, "packed": None}
        how |= {"options": replace(x.options, scheme="classical"), "alpha": 1, "beta": 0}
        left = a[rows].astype(np.float64)
        multiply(replace(x, a=left, b=right, out=near, symmetric="", **how))
        near *= float(x.alpha)
        errors = np.multiply.outer(_norms(a[rows], 1), columns * abs(float(x.alpha)))
        if x.c is not None:
            near += float(x.beta) * x.c[rows]
            errors += added * np.abs(x.c[rows].astype(np.float64))
        errors = (errors + half) * (terms * _ROUNDING)
        turns = np.rint((near - c[rows].astype(np.float64)) / (2 * half))
        beyond = (near - errors > high) | (near + errors < low)
        wrong = beyond | ((errors < half / 2) & (turns != 0))
        open_ = ~wrong & (errors >= half / 2)
        if open_.any():
            wrong |= open_ & _differ(x, rows, multiply)
        if wrong.any():
            i, j = (int(y) for y in np.argwhere(wrong)[0])
            raise _error(x, (*at, start + i, j), a[start + i], b[:, j])


def _norms(x: np.ndarray, axis: int) -> np.ndarray:
    return np.sqrt(np.square(x.astype(np.float64)).sum(axis))


def _differ(x: Any, rows: slice, multiply: Multiply) -> np.ndarray:
    """Return where the product is not the right one modulo a prime."""
    a, b = _operands(x)
    found, kind = np.zeros(x.out[rows].shape, bool), of("int64")
    for p in _PRIMES:
        right = np.empty(found.shape, np.int64)
        c = None if x.c is None else x.c[rows]
        how: dict[str, Any] = {"operand": kind, "dtype": kind, "packed": None, "symmetric": ""}
        how["options"] = replace(x.options, scheme="auto", modulus=p)
        multiply(replace(x, a=a[rows], b=b, c=c, out=right, **how))
        found |= right != (x.out[rows] % x.out.dtype.type(p)).astype(np.int64)
    return found


def _error(x: Any, place: tuple[int, ...], row: np.ndarray, column: np.ndarray) -> OverflowError:
    value = int(x.alpha) * sum(int(y) * int(z) for y, z in zip(row, column, strict=True))
    if x.c is not None:
        value += int(x.beta) * int(x.c[place[-2:]])
    low, high = _range(x)
    where = ", ".join(map(str, place))
    return OverflowError(
        f"overflow='raise': entry [{where}] of the product is {value}, beyond {x.dtype} ({low} to "
        f"{high}); dtype= asks for a wider type"
    )
