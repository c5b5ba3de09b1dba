"""Who is told of every product: `falcon.profile`, or nobody."""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Observer = Callable[[Plan, float], None]
# Called after every product with its plan and its seconds; None: nobody is.
observer: Observer | None = None
_all: list[Observer] = []


def observe(new: Observer) -> Callable[[], None]:
    """Tell `new` as well; return a function that stops it, whatever has begun since."""
    _all.append(new)
    _update()

    def stop() -> None:
        _all.remove(new)
        _update()

    return stop


def _update() -> None:
    global observer
    observer = _tell if len(_all) > 1 else next(iter(_all), None)


def _tell(plan: Plan, seconds: float) -> None:
    for x in tuple(_all):
        x(plan, seconds)
