"""Values of options, one at a time: parsed from text, and checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from falcon.schemes import Scheme

CHECKS = ("none", "finite", "verify")


def parse_bytes(text: str) -> int:
    """Parse a size such as ``268435456``, ``256MiB`` or ``1.5G`` (powers of 1024)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError("expected a number of bytes such as 268435456 or 256MiB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_bool(text: str) -> bool:
    """Parse a switch."""
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 0 or 1")


def check_backend(value: Any) -> None:
    """Raise unless it is a name; which there are, the table of backends knows."""
    if not isinstance(value, str):
        raise TypeError(f"backend is {value!r}; expected a str")


def check_scheme(value: Any) -> None:
    """Raise unless it is a name or a Scheme; looking names up is the front's."""
    if not isinstance(value, str | Scheme):
        raise TypeError(f"scheme is a {type(value).__name__}; expected a name or a Scheme")


def check_max_growth(value: Any) -> None:
    """Raise unless it is a number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"max_growth is {value!r}; expected a number")
    if not value >= 1.0:
        raise ValueError(f"max_growth is {value!r}; expected a number >= 1.0")


def check_check(value: Any) -> None:
    """Raise unless it is one of `CHECKS`."""
    if value not in CHECKS:
        raise ValueError(f"check is {value!r}; expected one of {', '.join(map(repr, CHECKS))}")


def check_count(name: str, least: int) -> Callable[[Any], None]:
    """Return a check that a value is None or an integer of at least `least`."""

    def check(value: Any) -> None:
        if value is None:
            return
        try:
            if isinstance(value, bool):
                raise TypeError
            count = value.__index__()
        except (AttributeError, TypeError):
            raise TypeError(f"{name} is {value!r}; expected an integer or None") from None
        if count < least:
            raise ValueError(f"{name} is {value!r}; expected an integer >= {least}")

    return check
