"""Who is told of every product: `falcon.profile`, or nobody."""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Observer = Callable[[Plan, float], None]
# Called after every product with its plan and its seconds; None: nobody is.
observer: Observer | None = None


def observe(new: Observer) -> Callable[[], None]:
    """Tell `new` as well; return a function that stops it."""
    global observer
    before = observer

    def both(plan: Plan, seconds: float) -> None:
        new(plan, seconds)
        if before is not None:
            before(plan, seconds)

    observer = new if before is None else both

    def stop() -> None:
        global observer
        observer = before

    return stop
