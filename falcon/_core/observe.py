"""Who is told of products: functions, once they are computed, and users, at their own line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from warnings import warn

from .plan import Plan

# It takes the plan, its seconds, and how many products they were. Of a batch in one call: the plan
# of one product, and the seconds of all.
Observer = Callable[[Plan, float, int], None]
# While there are any, no call is repeated without validation and planning (`_front.calls`).
observers: tuple[Observer, ...] = ()
# They take the first argument of a call of np.einsum that ran in NumPy's loops, and its seconds.
of_misses: tuple[Callable[[Any, float], None], ...] = ()


def warn_caller(text: str) -> None:
    """Give a RuntimeWarning for the line that called falcon."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("falcon."):
        level, frame = level + 1, frame.f_back
    warn(text, RuntimeWarning, stacklevel=level)
