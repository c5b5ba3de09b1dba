"""Which kinds of arithmetic a product is compared in, and which backends form them.

A *way* is a backend and the type as which it multiplies the operands: float32 by splits of
bfloat16, say. Each scheme that is compared runs in one of the ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from falcon._core.arithmetic import BY_FLOAT16
from falcon._core.backend import Backend
from falcon._core.dtypes import (
    BY_ARITHMETIC,
    BY_ARITHMETIC_ON_GPUS,
    BY_FLOAT,
    FLOAT32,
    DType,
)
from falcon._core.options import Options, settings
from falcon._core.problem import Problem

from .limits import panels_fit, within_limit

# Flop from which "auto" compares other arithmetic: splits of float32, those on a GPU (H200: as
# fast at 1280^3, 1.8 times at 1536^3), and float64 for integers, whose products are by then longer
# than the pass over norms.
_LEAST_SPLIT, _LEAST_SPLIT_ON_GPU, _LEAST_BY_FLOAT = 2e8, 6e9, 4e6
# By what predicted times of other arithmetic are multiplied: it must take 5 % less time.
_PRICE = 1 / 0.95


class Way(NamedTuple):
    """A backend, and the row as which it multiplies the operands; None: their own type."""

    backend: Backend
    operand: DType | None = None
    price: float = 1.0  # by what predicted times are multiplied before they are compared


def ways(problem: Problem, options: Options, backends: Sequence[Backend]) -> list[Way]:
    """Return the ways to multiply, those of the arithmetic that comes first in front.

    Of one arithmetic the first backend is the best one; the others are for schemes and limits that
    it cannot keep.

    `backends`: all that run here.
    Raises TypeError: the backend or the arithmetic of the options cannot multiply the problem.
    Raises ValueError: the arithmetic exceeds max_growth.
    """
    operand = named_row(problem, options)
    if operand is not None and options.arithmetic == settings().arithmetic:
        allowed = [x for x in backends if options.backend in ("auto", x.name)]
        if all(x.why_not(problem, operand) for x in allowed):  # a setting is for what it fits
            operand = None
    found = [Way(x, operand) for x in _able(problem, options, backends, operand)]
    if options.arithmetic == options.scheme == "auto":
        found += _others(problem, options, backends)
    return found


def named_row(problem: Problem, options: Options) -> DType | None:
    """Return the row for the arithmetic that the options name; None: the operands' own type.

    A setting is for the products that it fits; a keyword raises for others.
    """
    rows = BY_ARITHMETIC if problem.device is None else BY_ARITHMETIC_ON_GPUS
    row = rows.get(options.arithmetic)
    if row is None:
        if options.arithmetic in BY_ARITHMETIC and options.arithmetic != settings().arithmetic:
            raise TypeError(f"arithmetic {options.arithmetic!r} is for matrices in host memory")
        return None
    if problem.operand is problem.result is FLOAT32:
        how = row.arithmetic
        assert how is not None  # for type checkers
        if options.max_growth < how.growth:
            raise ValueError(
                f"arithmetic {how.name!r} errs {how.growth:g} times as much as float32; max_growth "
                f"is {options.max_growth:g}; max_growth={how.growth:g} allows it"
            )
        return row
    if options.arithmetic == settings().arithmetic:
        return None
    raise TypeError(
        f"arithmetic {options.arithmetic!r} multiplies float32 to float32, not {problem.operand} "
        f"to {problem.result}"
    )


def _able(
    problem: Problem, options: Options, backends: Sequence[Backend], operand: DType | None
) -> list[Backend]:
    """Return the backends that may be used, the one to prefer first.

    A library has the least overhead, which counts in small products only (docs/decision.md).
    """
    if options.backend != "auto":
        (backend,) = (x for x in backends if x.name == options.backend)
        reason = backend.why_not(problem, operand)
        if reason is not None:
            raise TypeError(f"backend {backend.name!r} cannot multiply {problem}: {reason}")
        return [backend]
    reasons = {x: x.why_not(problem, operand) for x in backends}
    found = [x for x, reason in reasons.items() if reason is None]
    if operand is not None and not found:
        why = "; ".join(f"backend {x.name}: {reason}" for x, reason in reasons.items())
        raise TypeError(f"arithmetic {options.arithmetic!r} runs on no backend here: {why}")
    if operand is None and problem.operand.has_blas and problem.device is None:
        # Without BLAS, NumPy's products are loops, a hundred times slower.
        found.sort(key=lambda x: (not x.beats_blas(problem), not x.is_library))
    return found


def _others(problem: Problem, options: Options, backends: Sequence[Backend]) -> Iterator[Way]:
    """Yield the ways of other arithmetic: float32 by splits, integers of 64 bits by float64.

    Each call refuses the latter where its numbers are too large.
    """
    row, least = BY_FLOAT.get(problem.operand), _LEAST_BY_FLOAT
    if problem.operand is problem.result is FLOAT32:
        row, least = BY_ARITHMETIC["bf16x6"], _LEAST_SPLIT
        if problem.device is not None:
            row, least = BY_ARITHMETIC_ON_GPUS[BY_FLOAT16.name], _LEAST_SPLIT_ON_GPU
    if row is None or problem.flops < least or (problem.packed and problem.is_exact):
        return
    if not panels_fit(problem, None, options, row):
        return
    for x in backends:
        is_allowed = options.backend in ("auto", x.name)
        may = x.policy(problem).by_parts or row.parts == 1
        if is_allowed and may and x.why_classical_only(problem, None, row) is None:
            classical = x.candidates(problem, (None,), options.workspace_limit, row)[0]
            if within_limit(classical, options):  # other arithmetic may need more
                yield Way(x, row, _PRICE)
                return
