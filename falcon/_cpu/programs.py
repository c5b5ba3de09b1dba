"""Hand a scheme to the C engine: programs as operations, Combine H as updates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from falcon.codegen import combine_a, combine_b, updates
from falcon.codegen.c_program import engine_ops
from falcon.schemes import Scheme

from . import _core


def _interned(make: Callable[[Any], Any]) -> Any:
    """Return one object per scheme, also where several threads ask for a new one at once.

    functools.cache would give each of these threads its own, and packed operands, which know their
    scheme by the object, would then be refused.
    """
    known: dict[Scheme | None, Any] = {}

    @wraps(make)
    def found(scheme: Scheme | None) -> Any:
        kept = known.get(scheme)
        return kept if kept is not None else known.setdefault(scheme, make(scheme))

    return found


@_interned
def engine_scheme(scheme: Scheme | None) -> _core.Scheme | None:
    """Return the engine's form of `scheme`: always the same object for the same scheme.

    None, and the trivial scheme, are the engine's own classical algorithm.
    """
    if scheme is None or scheme.format == (1, 1, 1):
        return None
    return _core.Scheme(*engine_form(scheme))


def engine_form(scheme: Scheme) -> tuple[Any, ...]:
    """Return what the engine is told of a scheme: the arguments of `_core.Scheme`.

    A function of the scheme alone: packed operands are checked against it in other processes.
    """
    last = updates(scheme)
    place = sorted(range(scheme.rank), key=last.order.__getitem__)  # of each product in the order
    return (
        scheme.m,
        scheme.k,
        scheme.n,
        scheme.rank,
        engine_ops(combine_a(scheme), place),
        engine_ops(combine_b(scheme), place),
        [
            [(x.slot, x.source, float(x.coefficient), x.first, x.last) for x in steps]
            for steps in last.steps
        ],
        last.n_slots,
    )
