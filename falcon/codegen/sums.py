"""How large the numbers are that a scheme's programs form."""

from __future__ import annotations

from functools import cache

from falcon.schemes import Scheme

from .program import Op, Program, combine_a, combine_b, combine_c
from .update import PRODUCT, updates

# The largest magnitude of a number, and the power of two of which it is a multiple.
_Number = tuple[float, float]


@cache
def largest_sums(scheme: Scheme | None) -> tuple[float, float, float]:
    """Bound the numbers that the engine forms of A, of B and of their products.

    In units of the largest norm of a row of A, of a column of B, and of the product of both.
    Coefficients with halves form multiples of a power of two, which is then the unit.
    """
    if scheme is None:
        return 1.0, 1.0, 1.0
    (of_a, of_b, products), last = _factors(scheme), updates(scheme)
    slots: list[_Number] = [(0.0, 1.0)] * last.n_slots
    of_c = 1.0
    for product, steps in zip(last.order, last.steps, strict=True):
        for x in steps:
            term = products[product] if x.source == PRODUCT else slots[x.source]
            before = (0.0, 1.0) if x.first else slots[x.slot]
            slots[x.slot] = _sum(before, _times(float(x.coefficient), term))
            of_c = max(of_c, _integer(slots[x.slot]), _integer(term))
    return of_a, of_b, of_c


@cache
def growth_of_sums(scheme: Scheme | None) -> float:
    """Bound the integers that a backend forms of integers: how many times the largest sum.

    That is K times the largest elements of A and of B.
    """
    if scheme is None:
        return 1.0
    in_memory, _ = _outputs(combine_c(scheme), _factors(scheme)[2])
    return max(in_memory, largest_sums(scheme)[2]) / scheme.k


def _factors(scheme: Scheme) -> tuple[float, float, list[_Number]]:
    """Return the largest integers of the sums of A and of B, and the products."""
    of_a, left = _outputs(combine_a(scheme), [(1.0, 1.0)] * (scheme.m * scheme.k))
    of_b, right = _outputs(combine_b(scheme), [(1.0, 1.0)] * (scheme.k * scheme.n))
    pairs = zip(left, right, strict=True)
    return of_a, of_b, [(x[0] * y[0], x[1] * y[1]) for x, y in pairs]


def _outputs(program: Program, inputs: list[_Number]) -> tuple[float, list[_Number]]:
    """Return the largest integer that a program forms, and its outputs."""
    numbers = inputs + [(0.0, 1.0)] * (program.n_temporaries + program.n_outputs)
    most = max(map(_integer, inputs))
    for x in program.instructions:
        if x.op is Op.SCALE:
            numbers[x.dst] = _times(float(x.coefficient), numbers[x.x])
        else:
            numbers[x.dst] = _sum(numbers[x.x], numbers[x.y])
        most = max(most, _integer(numbers[x.dst]))
    return most, numbers[program.first_output :]


def _times(coefficient: float, x: _Number) -> _Number:
    return abs(coefficient) * x[0], x[1] / coefficient.as_integer_ratio()[1]


def _sum(x: _Number, y: _Number) -> _Number:
    return x[0] + y[0], min(x[1], y[1])


def _integer(x: _Number) -> float:
    return x[0] / x[1]
