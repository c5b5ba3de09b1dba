"""Functions that are called after every product, with its plan and seconds: `falcon.profile`'s."""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Observer = Callable[[Plan, float], None]
# While there are any, no call is repeated without validation and planning (`_front.calls`).
observers: tuple[Observer, ...] = ()
