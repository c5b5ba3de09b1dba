"""Functions that are told of every product: its plan, its seconds: `falcon.profile`'s.

Of a batch in one call: the plan of one product, the seconds of all, and how many they are.
"""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Observer = Callable[[Plan, float, int], None]
# While there are any, no call is repeated without validation and planning (`_front.calls`).
observers: tuple[Observer, ...] = ()
