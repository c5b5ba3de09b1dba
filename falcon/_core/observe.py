"""Functions that are called after every product, with its plan and seconds: `falcon.profile`'s."""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Observer = Callable[[Plan, float], None]
# Calls all of them; None: there are none.
observer: Observer | None = None
_all: list[Observer] = []


def observe(new: Observer) -> Callable[[], None]:
    """Call `new` after every product from now on; return a function that ends this."""
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
