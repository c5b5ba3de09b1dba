"""Operands of a case, their product far beyond float64, and what is wrong with falcon's."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np

from falcon._core.dtypes import BFLOAT16, DType
from falcon._front.verify import verify

from .cases import BATCH, BY_COLUMNS, NOT_FINITE, RANDOM, Case

# Whole numbers of floats: so small that no sum of them is rounded. Of integers that float64
# kernels multiply: their sums stay below 2^53.
_SMALL, _MIDDLE = 4, 2**18
# Bits of the leading parts of numbers below 1: sums of 2^13 products of such parts are exact.
_LEADING = 2.0**20
# Of more entries than these, evenly spaced ones are compared, and all by Freivalds' test.
_COMPARED = 2**14


def wrong(case: Case) -> tuple[str, float]:
    """Multiply; return what is wrong ("" if nothing is) and the largest error over its bound.

    Whole numbers must be right bit for bit, as must what several threads multiply.
    """
    layout = case.form if case.form in (BATCH, BY_COLUMNS) else ""
    a, b = operands(case.operand, case.sizes, case.values, layout)
    try:
        c = case.product(a, b)
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, it is what the user wants to be told
        return f"raised {type(error).__name__}: {error}", 0.0
    if case.threads > 1:
        return compared(c, replace(case, threads=1).product(a, b))
    left, right, kind = case.operand.left, case.operand.right, case.result
    if case.values != RANDOM:
        exact = _multiplied(numbers(a, left), numbers(b, right))
        return compared(numbers(c, kind), numbers(held(exact, kind), kind))
    step, made = max(1, isqrt(c.size // _COMPARED)), case.plan(a, b)
    rows, columns = numbers(a[::step], left), numbers(b[:, ::step], right)
    exact, rest = product(rows, columns)
    some, bound = numbers(c[::step, ::step], kind), made.error_bound(rows, columns)
    what, ratio = compared(some, exact, rest, bound, step)
    if step > 1 and not what:
        test = verify(a, b, c, growth=made.growth)
        what = f"Freivalds' test: {test.why}" if test.is_wrong else ""
    return what, ratio


@lru_cache(maxsize=4)
def operands(
    row: DType, sizes: tuple[int, int, int], values: str, layout: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices as kernels take them, or stacks; the last ones are kept for the next case."""
    M, N, K = sizes
    random = np.random.default_rng(sizes)
    a = held(_drawn(random, (M, K), row.left, row, values), row.left)
    b = held(_drawn(random, (K, N), row.right, row, values), row.right)
    if values == NOT_FINITE:
        a[2, 3], a[M // 2, K - 1], b[5, 7] = np.nan, -np.inf, np.inf
    if layout == BATCH:  # which are broadcast
        a, b = np.stack([a, a[::-1], -a])[:, None], np.stack([b, b[:, ::-1]])
    if layout == BY_COLUMNS:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    return a, b


def _drawn(random: Any, shape: tuple[int, int], kind: DType, row: DType, values: str) -> np.ndarray:
    if row.part is not None:
        real, imaginary = (_drawn(random, shape, row.part, row.part, values) for _ in range(2))
        return real + 1j * imaginary
    if values == RANDOM:
        return random.uniform(-1, 1, shape)
    if row.is_exact and row.arithmetic is None:  # all that the type holds
        limits = np.iinfo(kind.numpy)
        return random.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)
    most = _MIDDLE if row.is_exact else _SMALL
    return random.integers(-most, most, shape, endpoint=True)


def held(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return numbers rounded (or wrapped) to a type; bfloat16 as the integers that hold it."""
    if kind is not BFLOAT16:
        return x.astype(kind.numpy)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # ties to even


def numbers(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return the numbers of a type in float64 (complex128) or more, or in int64 modulo 2^64."""
    if kind is BFLOAT16:
        x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.int64 if kind.is_exact else np.result_type(x, np.float64))


def product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices whose sum is ``a b``, for entries between -1 and 1, to 70 bits.

    Products of the leading 20 bits are summed exactly, and the rest is 2^-20 of it.
    """
    first, second = (np.round(x * _LEADING) / _LEADING for x in (a, b))
    rest = _multiplied(first, b - second) + _multiplied(a - first, b)
    return _multiplied(first, second), rest


def _multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # in loops of its own, without a BLAS:
        return np.einsum("...ik,...kj->...ij", a, b)


def compared(
    c: np.ndarray, exact: np.ndarray, rest: Any = 0, bound: Any = None, step: int = 1
) -> tuple[str, float]:
    """Return how C differs from ``exact + rest`` ("" if it does not), and its error over the bound.

    Without a bound it must be the same in every bit; NaN is as NaN. `step`: which rows and columns
    of C these are.
    """
    if c.shape != exact.shape:
        return f"its shape is {c.shape}, not {exact.shape}", 0.0
    if bound is None:
        ratios = np.where((c == exact) | ((c != c) & (exact != exact)), 0.0, np.inf)
    else:
        ratios = np.abs((c - exact) - rest) / bound
    differs = ~(ratios <= 1)
    if not differs.any():
        return "", float(ratios.max(initial=0))
    at = np.unravel_index(np.argmax(ratios), ratios.shape)  # a NaN, if there is one
    return (
        f"{np.count_nonzero(differs)} of {differs.size} entries differ, entry "
        f"{[int(x) * step for x in at]}: {c[at]}, not {exact[at]}"
        + ("" if bound is None else f", {ratios[at]:.3g} times the bound")
    ), 0.0
