"""Functions that are told of every product, once it is computed: `falcon.profile`'s.

They take the plan, its seconds, and how many products they were. Of a batch in one call: the plan
of one product, and the seconds of all.
"""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Observer = Callable[[Plan, float, int], None]
# While there are any, no call is repeated without validation and planning (`_front.calls`).
observers: tuple[Observer, ...] = ()
