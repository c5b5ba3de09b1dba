"""Functions that are told of products, once they are computed: `falcon.profile`'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .plan import Plan

# It takes the plan, its seconds, and how many products they were. Of a batch in one call: the plan
# of one product, and the seconds of all.
Observer = Callable[[Plan, float, int], None]
# While there are any, no call is repeated without validation and planning (`_front.calls`).
observers: tuple[Observer, ...] = ()
# They take the first argument of a call of np.einsum that ran in NumPy's loops, and its seconds.
of_misses: tuple[Callable[[Any, float], None], ...] = ()
