"""``overflow=``: products of integers whose results are the right numbers, or that raise.

::

    largest magnitudes, or norms of lines --> no result is too large: the product, as any other
    results of less than 32 bits          --> the product in int32, where no sum wraps
    else: the product c in new memory, and d, the same in float64, whose errors are bounded. Where
          these leave it open, the right value is c + 2^w round((d - c) / 2^w), c of w bits

Errors may be as large as 2^w if w is 64. c is then compared with the right values modulo three
numbers of 62 bits, of which no multiple of 2^w is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isqrt, prod
from typing import Any

import numpy as np

from falcon._backends import ENGINE
from falcon._core.dtypes import FLOAT64, INT32, INT64, DType, dtype_of
from falcon._core.observe import warn_caller
from falcon._core.options import threads_of
from falcon._core.packed import PackedOperand
from falcon._core.symmetric import copy_triangle

from .arithmetic import operand_type, wider
from .buffers import without
from .validate import check_scalar

Multiply = Callable[[Any], Any]  # `execute.multiply`

_STRIP = 2**16  # elements that are looked at at a time
_PART = 2**21  # elements of the result that are computed again at a time
_MODULI = 2**62 - 57, 2**62 - 87, 2**62 - 117  # primes
_ROUNDING, _WRAP = 2.0**-53, {"overflow": "wrap"}


def checked(x: Any, multiply: Multiply) -> None:
    """Multiply a product of `execute`, or a batch; its alpha and beta are integers of any size.

    Raises OverflowError: a result does not fit its type; nothing is written.
    """
    if isinstance(x.packed, PackedOperand):
        asked = f"overflow={x.options.overflow!r} takes b itself; keep it"
        x = replace(x, b=x.packed.needed_source(asked))
    options = replace(x.options, overflow="wrap")
    kind, factors = x.dtype.numpy, (("alpha", x.alpha), ("beta", x.beta))
    wrapped = {name: check_scalar(name, value, kind) for name, value in factors}
    wraps, (low, high) = replace(x, options=options, **wrapped), _range(x.dtype)
    may_fit = low < 0 or min(int(x.alpha), int(x.beta)) >= 0
    bounds = [_by_magnitudes, _by_norms]
    for bound in bounds[:: -1 if x.dtype is INT64 else 1]:  # the faster one first
        most = bound(x)
        if may_fit and most <= high:
            multiply(wraps)
            return
        if is_wide := x.dtype.itemsize < 4 and most < 2**31:
            break
    kind = INT32 if is_wide else x.dtype
    options = without(options, x.out.shape, kind)
    made = x.adapter.empty(tuple(x.out.shape), kind)
    whole = replace(wraps, out=made, options=options, symmetric="full" if x.symmetric else "")
    if is_wide:
        types = {"operand": operand_type(x.adapter, [x.a, x.b], kind, options), "dtype": kind}
        c = None if x.c is None else x.c.astype(np.int32)
        exact = {"alpha": int(x.alpha), "beta": int(x.beta), "packed": None, "c": c}
        whole = replace(whole, **types, **exact)
    multiply(whole)
    parts = replace(x, out=made, packed=None, symmetric="").matrices()
    for at, one in zip(np.ndindex(*x.out.shape[:-2]), parts, strict=True):
        _check(one, at, most, lambda y: multiply(replace(y, options=replace(y.options, **_WRAP))))
    if x.symmetric in ("lower", "upper"):
        copy_triangle(made, x.out, x.symmetric)
    else:
        x.adapter.copy(made, x.out, "unsafe")


def _range(kind: DType) -> tuple[int, int]:
    info = np.iinfo(kind.numpy)
    return int(info.min), int(info.max)


def _strips(x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield some rows at a time, of all matrices of a batch, or columns where they lie so."""
    if abs(x.strides[-2]) < abs(x.strides[-1]):
        x = x.swapaxes(-1, -2)
    step = max(1, _STRIP // max(x.shape[-1], 1))
    for at in np.ndindex(*x.shape[:-2]):
        for start in range(0, x.shape[-2], step):
            yield x[at][start : start + step]


def _largest(x: np.ndarray) -> int:
    """Return the largest magnitude."""
    ends = (max(int(y.max()), -int(y.min())) for y in _strips(x) if y.size)
    return max(ends, default=0)


def _by_magnitudes(x: Any) -> int:
    """Return a number that no result exceeds: of as many products of the largest elements."""
    return _with_added(x, x.a.shape[-1] * _largest(x.a) * _largest(x.b))


def _by_norms(x: Any) -> int:
    """Return such a number by Cauchy-Schwarz, of the rows of a and the columns of b."""
    squares = [_largest_square(y, axis, x) for axis, y in enumerate((x.a, x.b))]
    return _with_added(x, isqrt(squares[0] * squares[1]) + 1)


def _with_added(x: Any, most: int) -> int:
    added = 0 if x.c is None else abs(int(x.beta)) * _largest(x.c)
    return abs(int(x.alpha)) * most + added


def _largest_square(x: np.ndarray, axis: int, product: Any) -> int:
    """Return a bound of the largest sum of squares, of rows (axis 0) or columns (1)."""
    found, text = 0.0, "ij,ij->j" if axis else "ij,ij->i"
    how: dict[str, Any] = {"dtype": np.float64, "casting": "unsafe"}
    for y in (x[at] for at in np.ndindex(*x.shape[:-2])):
        measured = ENGINE.measured(y, axis, threads_of(product.options))
        squares = np.einsum(text, y, y, **how) if measured is None else measured[0]
        found = max(found, float(squares.max(initial=0)))
    return int(found * (1 + (x.shape[axis - 1] + 8) * _ROUNDING)) + 1


def _check(x: Any, at: tuple[int, ...], most: int, multiply: Multiply) -> None:
    """Raise where results, of which none exceeds `most`, do not fit; name the first."""
    step = max(1, _PART // max(x.out.shape[1], 1))
    for start in range(0, len(x.out), step):
        rows = slice(start, start + step)
        if x.out.dtype.itemsize > x.dtype.itemsize:
            wrong = _beyond(x.out[rows], *_range(x.dtype))
        else:
            wrong = _wrapped(x, rows, most, multiply)
        if wrong is None or not wrong.any():
            continue
        i, j = (int(y) for y in np.argwhere(wrong)[0])
        row, column = x.a[start + i], x.b[:, j]
        value = int(x.alpha) * sum(int(y) * int(z) for y, z in zip(row, column, strict=True))
        if x.c is not None:
            value += int(x.beta) * int(x.c[start + i, j])
        place = ", ".join(map(str, (*at, start + i, j)))
        raise _error(f"[{place}] of the product", value, x.dtype, x.options.overflow)


def _error(what: str, value: int, kind: DType, overflow: str = "raise") -> OverflowError:
    low, high = _range(kind)
    return OverflowError(
        f"overflow={overflow!r}: entry {what} is {value}, beyond {kind} ({low} to {high})"
    )


def _beyond(x: np.ndarray, low: int, high: int) -> np.ndarray | None:
    """Return which numbers are beyond a range; None: none are."""
    fits = all(y.min() >= low and y.max() <= high for y in _strips(x))
    return None if fits else (x < low) | (x > high)


def _wrapped(x: Any, rows: slice, most: int, multiply: Multiply) -> np.ndarray | None:
    """Return where the right results, of which none exceeds `most`, are beyond the type's range."""
    c, (low, high), half = x.out[rows], _range(x.dtype), 2.0 ** (8 * x.dtype.itemsize - 1)
    error = (most + half) * ((x.a.shape[1] + 8) * _ROUNDING)
    near = np.empty(c.shape)
    a, b = (y.astype(np.float64) for y in (x.a[rows], x.b))
    classical = replace(x.options, scheme="classical", centre=False)
    how: dict[str, Any] = {"operand": FLOAT64, "dtype": FLOAT64, "options": classical}
    multiply(replace(x, a=a, b=b, c=None, out=near, alpha=1.0, beta=0, **how))
    near *= float(x.alpha)
    if x.c is not None:
        near += float(x.beta) * x.c[rows]
    if near.max() + error < high and near.min() - error >= low:  # `high` is rounded up
        return None
    wrong = (near - error > high) | (near + error < low)
    is_open = ~wrong & ((near + error >= high) | (near - error < low))
    if is_open.any():
        is_near = error < half / 2
        differs = np.rint((near - c) / (2 * half)) if is_near else _differs(x, rows, multiply)
        wrong |= is_open & (differs != 0)
    return wrong


def _differs(x: Any, rows: slice, multiply: Multiply) -> np.ndarray:
    """Return where results are not the right ones modulo some numbers."""
    c, found = None if x.c is None else x.c[rows], np.zeros(x.out[rows].shape, bool)
    for p in _MODULI:
        right = np.empty(found.shape, np.int64)
        how: dict[str, Any] = {"operand": INT64, "dtype": INT64, "out": right, "c": c}
        how["options"] = replace(x.options, scheme="auto", modulus=p)
        multiply(replace(x, a=x.a[rows], alpha=int(x.alpha) % p, beta=int(x.beta) % p, **how))
        found |= right != (x.out[rows] % x.out.dtype.type(p)).astype(np.int64)
    return found


def in_python(error: OverflowError, a: Any, b: Any) -> np.ndarray:
    """Return ``a @ b`` in Python's integers, and say so."""
    warn_caller(f"{error}: the result holds Python's integers")
    return np.asarray(np.matmul(np.asarray(a).astype(object), np.asarray(b).astype(object)))


def of_library(
    text: str, arrays: Sequence[np.ndarray], kind: Any, einsum: Any, widens: bool
) -> Any:
    """Evaluate what is no product of matrices by the array library.

    Raises OverflowError: a result does not fit its type.
    """
    dtype = np.dtype(kind or np.result_type(*arrays))
    inputs, output = text.split("->")
    axes = (n for x in arrays for n in x.shape)
    sizes = dict(zip(inputs.replace(",", ""), axes, strict=True))
    terms = prod(n for z, n in sizes.items() if z not in output)
    if widens and len(arrays) > 1:
        kind = dtype = wider(dtype_of(dtype), terms).numpy
    magnitudes = einsum(text, [abs(x.astype(np.float64)) for x in arrays], None)
    most = np.max(magnitudes, initial=0) * (1 + (terms + 4) * _ROUNDING)
    if most <= np.iinfo(dtype).max:
        return einsum(text, arrays, kind)
    exact = np.asarray(einsum(text, [x.astype(object) for x in arrays], None))
    low, high = _range(dtype_of(dtype))
    for at in np.argwhere((exact < low) | (exact > high)):
        raise _error(f"{at.tolist()} of {text}", exact[tuple(at)], dtype_of(dtype))
    return exact.astype(dtype)
