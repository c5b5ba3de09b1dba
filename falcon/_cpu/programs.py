"""Hand a scheme to the C engine: programs as operations, W as scatter lists."""

from __future__ import annotations

from functools import cache

from falcon.codegen import combine_a, combine_b
from falcon.codegen.c_program import engine_ops
from falcon.schemes import Scheme

from . import _core


@cache  # packed operands hold on to the object, so it must not be made anew
def engine_scheme(scheme: Scheme | None) -> _core.Scheme | None:
    """Return the engine's form of `scheme`: always the same object for the same scheme.

    None, and the trivial scheme, are the engine's own classical algorithm.
    """
    if scheme is None or scheme.format == (1, 1, 1):
        return None
    w = [
        [(int(block), float(row[block])) for block in row.nonzero()[0]]
        for row in scheme.W.reshape(scheme.rank, -1)
    ]
    return _core.Scheme(
        scheme.m,
        scheme.k,
        scheme.n,
        scheme.rank,
        engine_ops(combine_a(scheme)),
        engine_ops(combine_b(scheme)),
        w,
    )
