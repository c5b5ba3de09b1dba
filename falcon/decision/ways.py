"""The ways to multiply a problem, and those that promise an error that is named.

A *way* is a backend and the type as which it multiplies the operands: float32 by splits of
bfloat16, say. Each scheme that is compared runs in one of the ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from falcon._core.arithmetic import BY_FLOAT16, BY_INTEGERS
from falcon._core.bound import promised, proved_factor
from falcon._core.centring import classical_scheme
from falcon._core.dtypes import (
    BY_ARITHMETIC,
    BY_ARITHMETIC_ON_GPUS,
    BY_FLOAT,
    FLOAT32,
    DType,
    named,
)
from falcon._core.ladder import growth_left, is_bound, least_growth, may_compare, rungs_of
from falcon._core.options import Options
from falcon._core.plan import Backend, Plan
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .library import has_costs, is_faster, library_over
from .methods import Methods, Way, panels_fit, within_limit
from .rates import rates

# Flop from which "auto" compares other arithmetic: splits of float32, those on a GPU (H200: as
# fast at 1280^3, 1.8 times at 1536^3), and float64 for integers, whose products are by then longer
# than the pass over norms.
_LEAST_SPLIT, _LEAST_SPLIT_ON_GPU, _LEAST_BY_FLOAT = 2e8, 6e9, 4e6
# The same for rungs that round, of at least so many terms, and rows and columns (Zen 3: 128 x 6000
# x 128 takes twice as long as float32, 150 x 4000 x 150 1.25 times).
_LEAST_RUNG, _FEWEST_TERMS, _FEWEST_LINES = 2.5e7, 128, 224
# By what predicted times of other arithmetic are multiplied: it must take 5 % less time.
_PRICE = 1 / 0.95


def ways(problem: Problem, options: Options, backends: Sequence[Backend]) -> list[Way]:
    """Return the ways to multiply, those of the arithmetic that comes first in front.

    Of one arithmetic the first backend is the best one; the others are for schemes and limits that
    it cannot keep.

    `backends`: all that run here.
    Raises TypeError: the backend or the arithmetic of the options cannot multiply the problem.
    Raises ValueError: the arithmetic exceeds max_growth.
    """
    operand = named_row(problem, options)
    if operand is not None and "arithmetic" not in options.given:
        allowed = [x for x in backends if options.backend in ("auto", x.name)]
        if all(x.why_not(problem, operand) for x in allowed):  # a setting is for what it fits
            operand = None
    found = _able(problem, options, backends, operand)
    if is_bound(problem, options):
        return _of_error(problem, options, backends, found)
    if options.arithmetic == options.scheme == "auto":
        found += _others(problem, options, backends)
    return found


def named_row(problem: Problem, options: Options) -> DType | None:
    """Return the row for the arithmetic that the options name; None: the operands' own type.

    A setting is for the products that it fits; a keyword raises for others.
    """
    check_given(problem, options)
    row = named(options.arithmetic, problem.operand, on_gpu=problem.device is not None)
    if row is None or "arithmetic" in unfit(problem, options):
        return None
    how = row.arithmetic
    assert how is not None  # for type checkers
    if options.max_growth < how.growth:
        raise ValueError(
            f"arithmetic {how.name!r} errs {how.growth:g} times as much as float32; max_growth "
            f"is {options.max_growth:g}; max_growth={how.growth:g} allows it"
        )
    return row


def check_given(problem: Problem, options: Options) -> None:
    """Raise TypeError for a keyword that is not for such a product."""
    for name, why in unfit(problem, options).items():
        if name in options.given:
            raise TypeError(why)


def unfit(problem: Problem, options: Options) -> dict[str, str]:
    """Return the options that are not for such a product, and why not."""
    found, name = {}, options.arithmetic
    is_here = problem.device is None
    row = named(name, problem.operand, on_gpu=not is_here)
    if row is not None and not problem.operand is problem.result is (left := row.left):
        types = f"{left} to {left}, not {problem.operand} to {problem.result}"
        found["arithmetic"] = f"arithmetic {name!r} multiplies {types}"
    elif name == BY_INTEGERS:
        found["arithmetic"] = (
            f"arithmetic {name!r} multiplies float32 or float64 in host memory, by a B that is "
            f"neither packed nor A's transpose, without weights; these are {problem.operand}"
        )
    elif row is None and name not in ("auto", "native"):
        other = "GPU" if is_here else "host"
        found["arithmetic"] = f"arithmetic {name!r} is for matrices in {other} memory"
    if options.centre and classical_scheme(problem, options, None) is None:
        where = "" if problem.device is None else " in GPU memory"
        found["centre"] = (
            f"centre is True, which is for real floats in host memory, not {problem.operand}{where}"
        )
    return found


def _able(
    problem: Problem, options: Options, backends: Sequence[Backend], compute_type: DType | None
) -> list[Way]:
    """Return a way for each backend that may be used, the one to prefer first.

    A library has the least overhead, which counts in small products only (docs/decision.md).
    """
    if options.backend != "auto":
        (backend,) = (x for x in backends if x.name == options.backend)
        reason = backend.why_not(problem, compute_type)
        if reason is not None:
            raise TypeError(f"backend {backend.name!r} cannot multiply {problem}: {reason}")
        return [Way(backend, compute_type)]
    why_not = {x: x.why_not(problem, compute_type) for x in backends}
    able_backends = [x for x, reason in why_not.items() if reason is None]
    if compute_type is not None and not able_backends:
        why = "; ".join(f"backend {x.name}: {reason}" for x, reason in why_not.items())
        raise TypeError(f"arithmetic {options.arithmetic!r} runs on no backend here: {why}")
    centred = classical_scheme(problem, options, compute_type)  # no library centres
    ratio: float | None = None
    if compute_type is None and problem.device is None and centred is None:
        if isinstance(options.scheme, Scheme):  # no batch is multiplied in one call
            problem = problem.single
        ratio = library_ratio(problem, backends, lambda x: rates(x, problem, backends))
        able_backends.sort(key=lambda x: (not is_faster(problem, x, ratio), not x.is_library))
    return [Way(x, compute_type, over=ratio if x.is_library else None) for x in able_backends]


def library_ratio(
    problem: Problem, backends: Sequence[Backend], rates_of: Callable[[Backend], Any]
) -> float | None:
    """Return the library's predicted seconds over those of falcon's kernels; None: not known."""
    by_is_library = {x.is_library: x for x in reversed(backends)}
    if len(by_is_library) < 2 or not has_costs(problem):
        return None
    return library_over(problem, rates_of(by_is_library[False]), rates_of(by_is_library[True]))


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
        may = x.policy(problem).by_splits or row.splits == 1
        if is_allowed and may and x.why_classical_only(problem, None, row) is None:
            classical = x.candidates(problem, (None,), options.workspace_limit, row)[0]
            if within_limit(classical, options):  # other arithmetic may need more
                yield Way(x, row, _PRICE)
                return


def rungs(
    problem: Problem,
    options: Options,
    backends: Sequence[Backend],
    own: Sequence[Way],
    least: float = _LEAST_RUNG,
) -> list[Way]:
    """Return all ways for an error that the options name; `own`: those of native arithmetic.

    `least`: operations from which other arithmetic is among them.
    """
    found = [*own]
    if not problem.reproducible and options.scheme == "auto":
        found += _others(problem, options, backends)
    is_long = problem.K >= _FEWEST_TERMS and min(problem.M, problem.N) >= _FEWEST_LINES
    is_large = problem.single.flops >= least and (is_long or not least)
    for row in rungs_of(problem) if is_large else ():
        for x in backends:
            if x.why_not(problem, row) is None and options.backend in ("auto", x.name):
                found.append(Way(x, row, _PRICE))
                break
    return found


def finer(problem: Problem, options: Options, backends: Sequence[Backend], than: Way) -> list[Way]:
    """Return the ways that are more accurate than one."""
    found = rungs(problem, options, backends, _able(problem, options, backends, None), 0.0)
    return _promised(problem, options, _finer(problem, found, than), backends, least=True)


def _finer(problem: Problem, some: Sequence[Way], than: Way) -> list[Way]:
    return [x for x in some if _unit(problem, x) < _unit(problem, than)]


def _unit(problem: Problem, way: Way) -> float:
    return (way.compute_type or problem.operand).rounded.unit_roundoff


def _of_error(
    problem: Problem, options: Options, backends: Sequence[Backend], own: Sequence[Way]
) -> list[Way]:
    """Return the ways that promise the error that the options name: none above native arithmetic.

    Raises ValueError: none does, and a keyword names the error.
    """
    for least in (_LEAST_RUNG, 0.0):  # small products take other arithmetic where they must
        found = rungs(problem, options, backends, own, least)
        able = _promised(problem, options, found, backends)
        if any(x.compute_type is None for x in able):
            return [x for x in able if _unit(problem, x) >= _unit(problem, own[0])]
        if able:
            return able
    finest = min(found, key=lambda x: _unit(problem, x))
    if "error" in options.given:
        plan = _classical(problem, options, finest, backends)
        raise ValueError(
            f"error is {options.error:g}; the largest of {problem} may be {promised(plan):.1e} by "
            "the most accurate arithmetic: give operands of more bits, or a larger error"
        )
    some = [x for x in found if x.compute_type is finest.compute_type]
    return [x._replace(growth=least_growth(x.compute_type)) for x in some]


def _promised(
    problem: Problem,
    options: Options,
    some: Sequence[Way],
    backends: Sequence[Backend],
    *,
    least: bool = False,
) -> list[Way]:
    """Return those ways that promise the error of the options, with what a method may err by.

    `least`: the finest of them may err by more.
    """
    error, found = options.error, []
    assert error is not None  # for type checkers
    on_device, compares = problem.device is not None, may_compare(problem, options)
    finest = min((_unit(problem, x) for x in some), default=0.0)
    for x in some:
        row, plan = x.compute_type, _classical(problem, options, x, backends)
        is_finest = _unit(problem, x) == finest
        by_data = on_device or (compares and not (is_finest or x.backend.is_library))
        growth = growth_left(problem, options, plan.method) if by_data else 0.0
        if growth >= least_growth(row):
            found.append(x._replace(growth=growth))
        elif proved_factor(plan) <= error:
            found.append(x._replace(worst=error))
        elif least and is_finest:
            found.append(x._replace(growth=least_growth(row)))
    return found


def _classical(problem: Problem, options: Options, way: Way, backends: Sequence[Backend]) -> Plan:
    """Return the plan of a way without a scheme."""
    method = Methods(problem, options, [way], backends).methods_of(way, None)[0]
    return Plan(problem, way.backend, method, "", options=options)
