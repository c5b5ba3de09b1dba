"""Functions that are told of every product, once it is computed: `falcon.profile`'s.

They take the plan, its seconds, how many products they were, and the operands that ran: a, b, c,
out, alpha and beta. Of a batch in one call: the plan of one product, and the seconds of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .plan import Plan

Operands = tuple[Any, Any, Any, Any, Any, Any]
Observer = Callable[[Plan, float, int, Operands], None]
# While there are any, no call is repeated without validation and planning (`_front.calls`).
observers: tuple[Observer, ...] = ()
