"""Exact coefficient arrays: integers where possible, fractions where needed, never floats."""

from __future__ import annotations

import re
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

# Products of three coefficients must stay inside int64 even after summation over the rank;
# no published scheme comes near this.
LARGEST_COEFFICIENT = 2**20

# The largest common denominator of a factor: proofs with numbers of thousands of digits would take
# minutes.
LARGEST_DENOMINATOR = 2**64

# Most coefficients of a factor that has fractions: each takes 100 bytes and 10 microseconds.
_MOST_FRACTIONS = 2**18

# What a coefficient may look like as text. Exponents are left out on purpose: Python would try to
# write out "1e999999999".
_TEXT = re.compile(r"\s*[+-]?\d{1,20}(/\d{1,20}|\.\d{0,20})?\s*", re.ASCII)


def exact_array(values: Any, name: str) -> np.ndarray:
    """Return `values` as a read-only int64 array, or as an object array of `Fraction`.

    `values`: integers, fractions, strings such as ``"-1/2"``, or floats. A float stands for the
    binary fraction that it is exactly.
    `name`: name of the factor, for error messages.
    Raises TypeError: a value is not a real number.
    Raises ValueError: the nesting is ragged, or a value is not finite or too large.
    """
    raw = _array(values, name)
    if raw.dtype.kind == "i" or _are_whole(raw):
        exact = raw.astype(np.int64)
    elif raw.size > _MOST_FRACTIONS:
        raise ValueError(
            f"{name} has {raw.size} coefficients, not all of them whole numbers; at most "
            f"{_MOST_FRACTIONS} are read then"
        )
    else:
        fractions = [_fraction(value, name) for value in raw.ravel().tolist()]
        if any(abs(value) > LARGEST_COEFFICIENT for value in fractions):
            raise ValueError(f"{name} has a coefficient beyond {LARGEST_COEFFICIENT}")
        _check_denominators(fractions, name)
        if all(value.denominator == 1 for value in fractions):
            exact = np.array([int(value) for value in fractions], dtype=np.int64)
        else:
            exact = np.empty(len(fractions), dtype=object)
            exact[:] = fractions
        exact = exact.reshape(raw.shape)
    # As Python's integers, because abs() of the least int64 is negative.
    if exact.size and max(-int(exact.min()), int(exact.max())) > LARGEST_COEFFICIENT:
        raise ValueError(f"{name} has a coefficient beyond {LARGEST_COEFFICIENT}")
    exact.flags.writeable = False
    return exact


def _are_whole(raw: np.ndarray) -> bool:
    """Whether these are floats of small whole numbers, which need not become fractions."""
    if raw.dtype.kind != "f":
        return False
    small = np.abs(raw) <= LARGEST_COEFFICIENT  # False for NaN
    return bool(small.all() and (raw == np.rint(raw)).all())


def _check_denominators(fractions: list[Fraction], name: str) -> None:
    common = 1
    for denominator in {value.denominator for value in fractions}:
        common = lcm(common, denominator)
        if common > LARGEST_DENOMINATOR:
            raise ValueError(
                f"{name} has coefficients whose common denominator is beyond {LARGEST_DENOMINATOR}"
            )


def integer_form(exact: np.ndarray) -> tuple[np.ndarray, int]:
    """Return ``(scaled, d)`` with ``scaled = d * exact`` integral (object dtype if ``d > 1``)."""
    if exact.dtype != object:
        return exact, 1
    common = lcm(*(value.denominator for value in exact.ravel()))
    scaled = np.array([int(value * common) for value in exact.ravel()], dtype=object)
    return scaled.reshape(exact.shape), common


def _array(values: Any, name: str) -> np.ndarray:
    """Return `values` as an array, of objects unless all are integers."""
    if isinstance(values, np.ndarray):
        return values
    try:
        array = np.array(values)
        # NumPy would round integers beside floats, and turn all into text beside one string.
        return array if array.dtype.kind == "i" else np.array(values, dtype=object)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} is not a rectangular array of coefficients: {error}") from None


def _fraction(value: Any, name: str) -> Fraction:
    if isinstance(value, list):
        raise ValueError(f"{name} is not a rectangular array of coefficients")
    if isinstance(value, str) and not _TEXT.fullmatch(value):
        raise ValueError(f'{name} has the coefficient {value[:40]!r}; expected text such as "-1/2"')
    try:
        return Fraction(value)
    except (OverflowError, ValueError, ZeroDivisionError):
        raise ValueError(f"{name} has the coefficient {value!r}, which is not finite") from None
    except TypeError:
        raise TypeError(
            f"{name} has the coefficient {value!r} of type {type(value).__name__}; "
            "expected integers or fractions"
        ) from None
