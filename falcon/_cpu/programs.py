"""Convert a scheme to the C engine's form: programs as operations, Combine H as steps."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from falcon._core.locks import ForkLock
from falcon.codegen import combine_a, combine_b, updates
from falcon.codegen.c_program import engine_ops
from falcon.schemes import ComplexProduct, ComplexScheme, Scheme

from . import _core


class _EngineScheme(_core.Scheme):
    """The engine's form of a scheme, which a dictionary can hold weakly."""

    __slots__ = ("__weakref__",)


# One object per scheme, even if several threads request a new one at once: packed operands identify
# their scheme by it. It lives while it is used, or is one of the newest.
_known: WeakValueDictionary[Scheme | ComplexScheme, _EngineScheme] = WeakValueDictionary()
_recent: deque[_EngineScheme] = deque(maxlen=1024)  # the catalogue has a quarter of that
_lock = ForkLock()


def engine_scheme(scheme: Scheme | ComplexScheme | None) -> _core.Scheme | None:
    """Return the engine's form of `scheme`: always the same object for the same scheme.

    None, and the trivial scheme, are the engine's own classical algorithm.
    """
    if scheme is None or scheme.rank == 1:
        return None
    found = _known.get(scheme)
    if found is None:
        made = _EngineScheme(*engine_form(scheme))
        with _lock.lock:
            found = _known.setdefault(scheme, made)
            _recent.append(found)
    return found


@lru_cache(maxsize=1024)
def complex_scheme(product: ComplexProduct, scheme: Scheme | None) -> ComplexScheme:
    """Return the scheme for complex matrices: always the same object for the same arguments."""
    return ComplexScheme(product, scheme)


def engine_form(scheme: Scheme | ComplexScheme) -> tuple[Any, ...]:
    """Return the arguments of `_core.Scheme` for a scheme.

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
        2 if isinstance(scheme, ComplexScheme) else 1,
    )
