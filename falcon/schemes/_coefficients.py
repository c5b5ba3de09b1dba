"""Exact coefficient arrays: integers where possible, fractions where needed, never floats."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

# Products of three coefficients must stay inside int64 even after summation over the rank;
# no published scheme comes near this.
LARGEST_COEFFICIENT = 2**20


def exact_array(values: Any, name: str) -> np.ndarray:
    """Return `values` as a read-only int64 array, or as an object array of `Fraction`.

    Parameters
    ----------
    values : array_like
        Integers, fractions, strings such as ``"-1/2"``, or floats. A float stands for
        the binary fraction that it is exactly.
    name : str
        Name of the factor, for error messages.

    Raises
    ------
    TypeError
        A value is not a real number.
    ValueError
        The nesting is ragged, or a value is not finite or too large.
    """
    try:
        raw = np.array(values, dtype=None if isinstance(values, np.ndarray) else object)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array of coefficients: {error}") from None
    if raw.dtype.kind in "iu":
        exact = raw.astype(np.int64)
    else:
        fractions = [_fraction(value, name) for value in raw.ravel().tolist()]
        if all(value.denominator == 1 for value in fractions):
            if any(abs(value) > LARGEST_COEFFICIENT for value in fractions):
                raise ValueError(f"{name} has a coefficient beyond {LARGEST_COEFFICIENT}")
            exact = np.array([int(value) for value in fractions], dtype=np.int64)
        else:
            exact = np.empty(len(fractions), dtype=object)
            exact[:] = fractions
        exact = exact.reshape(raw.shape)
    if exact.size and max(abs(exact.min()), abs(exact.max())) > LARGEST_COEFFICIENT:
        raise ValueError(f"{name} has a coefficient beyond {LARGEST_COEFFICIENT}")
    exact.flags.writeable = False
    return exact


def integer_form(exact: np.ndarray) -> tuple[np.ndarray, int]:
    """Return ``(scaled, d)`` with ``scaled = d * exact`` integral (object dtype if ``d > 1``)."""
    if exact.dtype != object:
        return exact, 1
    common = lcm(*(value.denominator for value in exact.ravel()))
    scaled = np.array([int(value * common) for value in exact.ravel()], dtype=object)
    return scaled.reshape(exact.shape), common


def _fraction(value: Any, name: str) -> Fraction:
    if isinstance(value, list):
        raise ValueError(f"{name} is not a rectangular array of coefficients")
    try:
        return Fraction(value)
    except (OverflowError, ValueError, ZeroDivisionError):
        raise ValueError(f"{name} has the coefficient {value!r}, which is not finite") from None
    except TypeError:
        raise TypeError(
            f"{name} has the coefficient {value!r} of type {type(value).__name__}; "
            "expected integers or fractions"
        ) from None
