"""The ways to multiply a problem, their methods, and the limits that a caller sets.

A *way* is a backend and the type as which it multiplies the operands: float32 by splits of
bfloat16, say. Each scheme that is compared runs in one of the ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, NamedTuple

from falcon._core.arithmetic import BY_FLOAT16
from falcon._core.bound import growth_of_sums
from falcon._core.centring import classical_scheme
from falcon._core.dtypes import (
    BY_ARITHMETIC,
    BY_ARITHMETIC_ON_GPUS,
    BY_FLOAT,
    FLOAT32,
    DType,
    named,
)
from falcon._core.formulas import Counts
from falcon._core.ladder import is_bound, most_growth, promise, rungs_of
from falcon._core.model import bounds
from falcon._core.options import Options
from falcon._core.plan import Backend, Candidate, Method
from falcon._core.policy import USUAL_COPIES, Policy, panel_bytes
from falcon._core.problem import Problem
from falcon._tools.lazy import lazy
from falcon.schemes import Scheme

from .library import has_costs, is_faster, library_over
from .rates import rates, source

# Flop from which "auto" compares other arithmetic: splits of float32, those on a GPU (H200: as
# fast at 1280^3, 1.8 times at 1536^3), and float64 for integers, whose products are by then longer
# than the pass over norms.
_LEAST_SPLIT, _LEAST_SPLIT_ON_GPU, _LEAST_BY_FLOAT = 2e8, 6e9, 4e6
# The same for rungs that round, of at least so many rows and columns: others are read once.
_LEAST_RUNG, _FEWEST_LINES = 2.5e7, 16
# By what predicted times of other arithmetic are multiplied: it must take 5 % less time.
_PRICE = 1 / 0.95


class Way(NamedTuple):
    """A backend, and the row as which it multiplies the operands; None: their own type."""

    backend: Backend
    compute_type: DType | None = None
    price: float = 1.0  # by what predicted times are multiplied before they are compared
    over: float | None = None  # a library's predicted seconds over those of falcon's kernels


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
    problem: Problem, options: Options, backends: Sequence[Backend], own: Sequence[Way]
) -> list[Way]:
    """Return all ways for an error that the options name; `own`: those of native arithmetic."""
    found = [*own]
    if not problem.reproducible and options.scheme == "auto":
        found += _others(problem, options, backends)
    for row in _rounding(problem, options):
        for x in backends:
            if x.why_not(problem, row) is None and options.backend in ("auto", x.name):
                found.append(Way(x, row, _PRICE))
                break
    return found


def finer(problem: Problem, options: Options, backends: Sequence[Backend], than: Way) -> list[Way]:
    """Return the ways that are more accurate than one."""
    found = rungs(problem, options, backends, _able(problem, options, backends, None))
    return [x for x in found if _unit(problem, x) < _unit(problem, than)]


def _unit(problem: Problem, way: Way) -> float:
    return (way.compute_type or problem.operand).rounded.unit_roundoff


def _of_error(
    problem: Problem, options: Options, backends: Sequence[Backend], own: Sequence[Way]
) -> list[Way]:
    """Return the ways that promise the error that the options name: none above native arithmetic.

    Raises ValueError: none does, and a keyword names the error.
    """
    found = rungs(problem, options, backends, own)
    able = [x for x in found if most_growth(problem, options, x.compute_type) > 0]
    if own[0] in able:
        return [x for x in able if _unit(problem, x) >= _unit(problem, own[0])]
    if able:
        return able
    finest = min(found, key=partial(_unit, problem))
    if "error" in options.given:
        least = promise(problem, finest.compute_type, centred=True)
        raise ValueError(
            f"error is {options.error:g}; the largest of {problem} may be {least:.1e} by the most "
            "accurate arithmetic: give operands of more bits, or a larger error"
        )
    return [x for x in found if x.compute_type is finest.compute_type]


def _rounding(problem: Problem, options: Options) -> tuple[DType, ...]:
    """Return the rows that round elements to another type, where their products are worth it."""
    is_large = problem.flops >= _LEAST_RUNG and min(problem.M, problem.N) >= _FEWEST_LINES
    # The sample of a product that adds to c needs a copy of it.
    copies = problem.out_overlaps_c and options.workspace_limit is not None
    return rungs_of(problem) if is_large and not copies else ()


# --- limits, and lower bounds of predicted times --------------------------------------------------


def within_limit(method: Method, options: Options) -> bool:
    """Whether the method's workspace keeps `workspace_limit`."""
    return options.workspace_limit is None or method.workspace <= options.workspace_limit


def panels_fit(
    problem: Problem, counts: Any, options: Options, compute_type: DType | None = None
) -> bool:
    """Whether the panels of a packed B keep `memory_limit`; of another B, there are none.

    `counts`: a scheme, or what has its `rank`, `k` and `n`; None: the classical algorithm.
    """
    limit = options.memory_limit
    if limit is None:
        limit = int(USUAL_COPIES * problem.K * problem.N * problem.operand.itemsize)
    return not problem.packed or panel_bytes(problem, counts, compute_type) <= limit


def judge(
    problem: Problem, method: Method, backend: Backend, rates: Any, options: Options
) -> Candidate:
    """Predict a method's time, and refuse it where it breaks a limit."""
    candidate = backend.predicted(problem, method, rates)
    reason = _why_refused(problem, method, backend, options)
    return replace(candidate, refused=reason, allowed=False) if reason else candidate


def _why_refused(problem: Problem, method: Method, backend: Backend, options: Options) -> str:
    most = most_growth(problem, options, method.compute_type)
    if method.growth > most and not problem.is_exact:
        left = f" that error {options.error:g} leaves" if most != options.max_growth else ""
        return f"growth {method.growth:.2f} > max_growth {most:.2f}{left}"
    if not within_limit(method, options):
        return f"workspace {method.workspace} > workspace_limit {options.workspace_limit}"
    if not (
        method.is_classical or panels_fit(problem, method.scheme, options, method.compute_type)
    ):
        mib = panel_bytes(problem, method.scheme, method.compute_type) / 2**20
        return f"panels of {mib:.1f} MiB > memory_limit"
    if problem.headroom and not method.is_classical:
        rounded_up = 1 + method.scheme.k * method.again[2] / problem.K  # blocks of every pass
        growth = growth_of_sums(method.scheme) * rounded_up
        if growth > problem.headroom:
            return f"sums grow {growth:.1f} times, and are exact up to {problem.headroom:.1f}"
    scheme, least = method.scheme, backend.policy(problem).smallest_chunk
    if scheme is not None and scheme.rank > 1:
        n_blocks = (scheme.m, scheme.n, scheme.k)
        if any(size < part * least for size, part in zip(method.chunks, n_blocks, strict=True)):
            return f"blocks would be smaller than {least}"
    return ""


def least_seconds(
    problem: Problem,
    schemes: tuple[Counts, ...],
    backend: Backend,
    rates: Any,
    *,
    limit: float = inf,
    most_bytes: int | None = None,
    compute_type: DType | None = None,
) -> list[tuple[float, int]]:
    """Return `falcon._core.model.bounds` where that is the backend's model; else 0 for each.

    `most_bytes`: those of a workspace; `compute_type`: as which elements are multiplied.
    """
    policy = backend.policy(problem)
    if not policy.common_model:
        return [(0.0, at) for at in range(len(schemes))]
    about: dict[str, float] = {"limit": limit}
    if most_bytes is not None and policy.holds_panels:
        row = compute_type or problem.operand
        # Each of a scheme's complex products is three of real parts.
        element = row.panel_bytes * (1.5 if row.is_complex else 1.0)
        about |= {"room": most_bytes / element, "least": policy.smallest_chunk}
        is_narrow = problem.result.itemsize < problem.accumulator.itemsize
        if is_narrow and not problem.is_exact:  # C is rounded once, not by each pass over K
            about["most"] = 1.0
    return bounds(problem, schemes, rates, **about)


@dataclass
class Methods:
    """What is asked of the backends about a problem's methods."""

    problem: Problem
    options: Options
    ways: Sequence[Way]  # as `ways` returns them
    backends: Sequence[Backend]  # all that run here

    @lazy
    def policy(self) -> Policy:
        """That of the best backend: there is one for all methods of a problem."""
        return self.ways[0].backend.policy(self.problem)

    def rates(self, way: Way) -> Any:
        """Return the rates by which methods of a way are predicted."""
        return rates(way.backend, self.problem, self.backends, way.compute_type)

    def source(self, way: Way) -> str:
        """Say where these rates come from."""
        return source(way.backend, self.problem, self.backends, way.compute_type)

    @lazy
    def library(self) -> Way | None:
        """The library, where its classical algorithm competes with what falcon's kernels run."""
        p, library = self.problem, next((x for x in self.ways if x.backend.is_library), None)
        if library is None or self.own is None or (library is self.ways[0] and not library.over):
            return None
        other = p.device is not None or p.packed or p.symmetric or p.is_wide
        centred = classical_scheme(p, self.options, None)  # no library centres
        return library if p.operand.has_blas and not other and centred is None else None

    @lazy
    def own(self) -> Way | None:
        """The way of falcon's kernels, in the operands' own arithmetic; None: there is none."""
        own = (x for x in self.ways if not x.backend.is_library and x.compute_type is None)
        return next(own, None)

    @lazy
    def classical_seconds(self) -> float:
        """Of falcon's kernels in that way, by the model that predicts the schemes."""
        assert self.own is not None
        usual = self.own.backend.candidates(self.problem, (None,), None)[0]
        return self.own.backend.predicted(self.problem, usual, self.rates(self.own)).total

    def methods_of(self, way: Way, scheme: Any) -> list[Method]:
        """Return the options of a way for a scheme; None is the classical algorithm."""
        candidates, limit = way.backend.candidates, self.options.workspace_limit
        if scheme is None:
            centred = classical_scheme(self.problem, self.options, way.compute_type)
            why_not = centred and way.backend.why_classical_only(
                self.problem, centred, way.compute_type
            )
            some = (centred,) if centred and not why_not else ()
            found = candidates(self.problem, some, limit, way.compute_type)
            if found:  # else the limit leaves no room for it
                return found
        return candidates(self.problem, (scheme,), limit, way.compute_type)

    def predicted(self, way: Way, method: Method) -> Candidate:
        """Predict a method's time, and refuse it where it breaks a limit."""
        judged = judge(self.problem, method, way.backend, self.rates(way), self.options)
        if way is self.library and way.over is not None and method.is_classical:
            judged = replace(judged, seconds=(("multiply", way.over * self.classical_seconds),))
        return judged if way.price == 1 else replace(judged, price=way.price)

    def way_of(self, method: Method) -> Way:
        """Return the way of a method."""
        return next(
            x
            for x in self.ways
            if (x.backend.name, x.compute_type) == (method.backend, method.compute_type)
        )
