"""Parse and check the values of options, one at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import index
from typing import Any, Literal

import numpy as np

Check = Literal["none", "finite", "verify"]
Overflow = Literal["wrap", "raise", "widen"]


def parse_bytes(text: str) -> int:
    """Parse a size such as ``268435456``, ``256MiB`` or ``1.5G`` (powers of 1024)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError("expected a number of bytes such as 268435456 or 256MiB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_bool(text: str) -> bool:
    """Parse a boolean such as ``1``, ``true``, ``0`` or ``off``."""
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 0 or 1")


def parse_reproducible(text: str) -> bool | str:
    """Parse a boolean, or ``rows``."""
    if text == "rows":
        return text
    try:
        return parse_bool(text)
    except ValueError as error:
        raise ValueError(f"{error} or rows") from None


# A check is called with the name and the value of an option, and returns the value in the form that
# `Options` holds, or raises TypeError or ValueError.


def check_backend(name: str, value: Any) -> str:
    """A name; whether there is such a backend is checked by `falcon._backends`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; expected a str")
    return value


def check_number(name: str, value: Any) -> float:
    """A real number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} is {value!r}; expected a number")
    return float(value)


def check_error(name: str, value: Any) -> float | None:
    """A number above 0, at most 1; or None."""
    if value is None:
        return None
    error = check_number(name, value)
    if not 0 < error <= 1:
        raise ValueError(f"{name} is {value!r}; expected a number above 0, at most 1")
    return error


def check_growth(name: str, value: Any) -> float:
    """A number of at least 1."""
    growth = check_number(name, value)
    if not growth >= 1.0:
        raise ValueError(f"{name} is {value!r}; expected a number >= 1.0")
    return growth


def check_choice(known: Sequence[str], name: str, value: Any) -> str:
    """One of some words."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}")
    return str(value)


def check_size(name: str, value: Any) -> int | None:
    """None, or bytes: an integer, or text as `parse_bytes` takes it."""
    if isinstance(value, str):
        try:
            return parse_bytes(value)
        except ValueError as error:
            raise ValueError(f"{name} is {value!r}; {error}") from None
    return check_count(name, value, 0, 'an integer, a size such as "64MiB"')


def check_modulus(name: str, value: Any) -> int | None:
    """None, or an integer from 2 to 2^62."""
    modulus = check_count(name, value, 2, "an integer, of matmul also a list of some,")
    if modulus is not None and modulus > 2**62:
        raise ValueError(
            f"{name} is {modulus}; expected at most 2**62 (products modulo coprime factors of a "
            "larger one can be put together: the Chinese remainders)"
        )
    return modulus


def check_moduli(name: str, value: Any) -> int | tuple[int, ...] | None:
    """None, an integer as `check_modulus` takes it, or a list or tuple of some."""
    if not isinstance(value, list | tuple):
        return check_modulus(name, value)
    if len(value) == 0 or None in value:
        raise ValueError(f"{name} is {value!r}; expected an integer, or some")
    return tuple(check_integer(name, check_modulus(name, x)) for x in value)


def check_switch(name: str, value: Any, expected: str = "True or False") -> bool:
    """True or False; `expected` says what else is allowed."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; expected {expected}")
    return bool(value)


def check_reproducible(name: str, value: Any) -> bool | str:
    """True, False or "rows"."""
    if isinstance(value, str) and value == "rows":
        return value
    return check_switch(name, value, 'True, False or "rows"')


def check_choice_of_switch(name: str, value: Any) -> bool | None:
    """True, False, or None, which leaves the choice to falcon."""
    return None if value is None else check_switch(name, value)


def check_count(name: str, value: Any, least: int = 1, expected: str = "an integer") -> int | None:
    """None, or an integer of at least `least`; `expected` says what else is allowed."""
    return None if value is None else check_integer(name, value, least, f"{expected} or None")


def check_integer(name: str, value: Any, least: int = 1, expected: str = "an integer") -> int:
    """An integer of at least `least`; `expected` says what else is allowed."""
    try:
        if isinstance(value, bool | np.bool_ | np.ndarray):
            raise TypeError
        count = index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected {expected}") from None
    if count < least:
        raise ValueError(f"{name} is {value!r}; expected an integer >= {least}")
    return count
