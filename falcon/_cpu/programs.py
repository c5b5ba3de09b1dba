"""Convert a scheme to the C engine's form: programs as operations, Combine H as steps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from falcon.codegen import combine_a, combine_b, updates
from falcon.codegen.c_program import engine_ops
from falcon.schemes import ComplexProduct, ComplexScheme, Scheme

from . import _core


@lru_cache(maxsize=1024)  # the catalogue has a quarter of that
def engine_scheme(scheme: Scheme | ComplexScheme | None) -> _core.Scheme | None:
    """Return the engine's form of `scheme`; a packed operand keeps the one it was packed for.

    None, and the trivial scheme, are the engine's own classical algorithm.
    """
    if scheme is None or scheme.rank == 1:
        return None
    return _core.Scheme(*engine_form(scheme))


@lru_cache(maxsize=1024)
def complex_scheme(product: ComplexProduct, scheme: Scheme | None) -> ComplexScheme:
    """Return the scheme for complex matrices: always the same object for the same arguments."""
    return ComplexScheme(product, scheme)


def engine_form(scheme: Scheme | ComplexScheme) -> tuple[Any, ...]:
    """Return the arguments of `_core.Scheme` for a scheme."""
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
