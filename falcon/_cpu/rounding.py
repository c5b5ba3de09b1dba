"""Errors of a scheme's sums of elements in panels of fewer bits than the accumulators.

Integer sums wrap. A result of the operands' type wraps alike and is exact all the same; a result of
accumulators is exact if the sums fit, which follows from the coefficients and the type's range.
Floating-point sums are rounded: that is most of a scheme's error.
"""

from __future__ import annotations

from functools import cache
from math import inf

import numpy as np

from falcon._core.bound import growth_of_rounded_sums
from falcon._core.dtypes import DType
from falcon.codegen import combine_a, combine_b, updates
from falcon.codegen.program import Op, Program
from falcon.codegen.update import PRODUCT
from falcon.schemes import Scheme

from . import _core


@cache
def why_classical_only(operand: DType, scheme: Scheme | None, isa: str) -> str | None:
    """Return why a scheme (None: any) cannot compute accumulators from such operands, or None."""
    most_summed = summable(operand, isa)
    needed = 2 if scheme is None else max(coefficients(scheme), 2)
    if needed <= most_summed:
        return None
    name = "a scheme" if scheme is None else scheme.name
    panels = f"panels of {_core.kernel_info(operand.engine, isa)['name']}"
    return f"{name} adds up {needed} elements of {operand}; {panels} have room for {most_summed}"


@cache
def summable(dtype: DType, isa: str) -> float:
    """Return how many elements a scheme may add up so that a result of accumulators is right.

    Panels hold sums of so many (the sum of the coefficients' magnitudes) without wrapping or
    rounding them; 1 where they hold elements alone. Inf where they hold accumulators.
    """
    panel, acc = (_core.kernel_info(dtype.engine, isa)[x] for x in ("panel", "acc"))
    if panel == acc:
        return inf
    if not dtype.is_exact:
        return 1
    largest = 2 ** (8 * dtype.itemsize - (not dtype.is_unsigned))
    return max((2 ** (8 * panel - 1) - 1) // largest, 1)


@cache
def coefficients(scheme: Scheme) -> int:
    """Return the largest sum of the coefficients' magnitudes in a scheme's sums of A or B."""
    rows = (abs(x).reshape(scheme.rank, -1).sum(axis=1) for x in (scheme.U, scheme.V))
    return max(int(np.ceil(x.max())) for x in rows)


@cache
def largest_sums(scheme: Scheme | None) -> tuple[float, float, float]:
    """Bound the numbers that the engine forms of A, of B and of their products.

    In units of the largest norm of a row of A, of a column of B, and of the product of both.
    """
    if scheme is None:
        return 1.0, 1.0, 1.0
    (of_a, left), (of_b, right) = _largest(combine_a(scheme)), _largest(combine_b(scheme))
    last = updates(scheme)
    slots, of_c = [0.0] * last.n_slots, 1.0
    for product, steps in zip(last.order, last.steps, strict=True):
        for x in steps:
            term = left[product] * right[product] if x.source == PRODUCT else slots[x.source]
            slots[x.slot] = (0.0 if x.first else slots[x.slot]) + abs(float(x.coefficient)) * term
            of_c = max(of_c, slots[x.slot], term)
    return of_a, of_b, of_c


def _largest(program: Program) -> tuple[float, list[float]]:
    """Bound what a program forms of inputs of at most 1: everything, and every output."""
    most, sizes = 1.0, [1.0] * program.n_inputs
    sizes += [0.0] * (program.n_temporaries + program.n_outputs)
    for x in program.instructions:
        if x.op is Op.SCALE:
            sizes[x.dst] = abs(float(x.coefficient)) * sizes[x.x]
        else:
            sizes[x.dst] = sizes[x.x] + sizes[x.y]
        most = max(most, sizes[x.dst])
    return most, sizes[program.first_output :]


def rounded_growth(operand: DType, scheme: Scheme | None, isa: str) -> float | None:
    """Return a scheme's RMS error, relative to the classical one, where C is rounded to few bits.

    Kernels whose panels hold elements round every sum of several elements; errors of float32 sums
    are negligible beside that of rounding C.
    """
    if operand.arithmetic is not None and not operand.is_exact:
        return operand.arithmetic.growth * (1.0 if scheme is None else scheme.rms_growth)
    if operand.is_exact or operand.accumulator is operand or scheme is None:
        return None
    kernel = _core.kernel_info(operand.engine, isa)
    return growth_of_rounded_sums(scheme) if kernel["panel"] < kernel["acc"] else 1.0
