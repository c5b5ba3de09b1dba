"""Exact coefficient arrays: integers where possible, fractions where needed, never floats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

# Products of three coefficients must stay inside int64 even after summation over the rank;
# no published scheme comes near this.
LARGEST_COEFFICIENT = 2**20
MOST_COEFFICIENTS = 2**23  # per factor

# The largest common denominator of a factor: proofs with numbers of thousands of digits would take
# minutes.
LARGEST_DENOMINATOR = 2**64

# Most coefficients of a factor that has fractions, and most different ones (10 microseconds each).
_MOST_OF_FRACTIONS, _MOST_FRACTIONS = 2**21, 2**16

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
    if raw.dtype.kind == "i":
        exact = raw.astype(np.int64)
        # As Python's integers, because abs() of the least int64 is negative.
        largest: Any = max(-int(exact.min()), int(exact.max())) if exact.size else 0
    else:
        fractions = _fractions(raw, name)
        largest = max(map(abs, fractions.values()), default=0)
        _check_denominators(fractions.values(), name)
        exact = np.empty(raw.size, dtype=object)
        exact[:] = [fractions[value] for value in raw.ravel().tolist()]
        if all(value.denominator == 1 for value in fractions.values()):
            exact = exact.astype(np.int64) if largest <= LARGEST_COEFFICIENT else exact
        exact = exact.reshape(raw.shape)
    if largest > LARGEST_COEFFICIENT:
        raise ValueError(f"{name} has a coefficient beyond {LARGEST_COEFFICIENT}")
    exact.flags.writeable = False
    return exact


def _fractions(raw: np.ndarray, name: str) -> dict[Any, Fraction]:
    """Return the fraction that each of the values is."""
    different: Any = raw[:0] if raw.size > _MOST_OF_FRACTIONS else raw.ravel().tolist()
    with suppress(TypeError):  # lists, or something else that is no number
        different = set(different)
    if raw.size > _MOST_OF_FRACTIONS or len(different) > _MOST_FRACTIONS:
        limits = f"{_MOST_OF_FRACTIONS} coefficients or {_MOST_FRACTIONS} different ones"
        raise ValueError(f"{name} has more than {limits}, of which some are no integers")
    return {value: _fraction(value, name) for value in different}


def _check_denominators(fractions: Iterable[Fraction], name: str) -> None:
    common = 1
    for denominator in {value.denominator for value in fractions}:
        common = lcm(common, denominator)
        if common > LARGEST_DENOMINATOR:
            raise ValueError(
                f"{name} has coefficients whose common denominator is beyond {LARGEST_DENOMINATOR}"
                "; floats are taken as they are stored: use fractions.Fraction"
            )


def integer_form(exact: np.ndarray) -> tuple[np.ndarray, int]:
    """Return ``(scaled, d)`` with ``scaled = d * exact`` integral (object dtype if ``d > 1``)."""
    if exact.dtype != object:
        return exact, 1
    flat = exact.ravel().tolist()
    common = lcm(*{value.denominator for value in flat})
    whole = {key: int(x * common) for key, x in {id(x): x for x in flat}.items()}
    return np.array([whole[id(x)] for x in flat], object).reshape(exact.shape), common


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
