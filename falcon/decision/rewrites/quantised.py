"""Floats as 8-bit integers where an error that is named allows it, and where it is faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from falcon._core.bound import promised
from falcon._core.dtypes import INT8, INT32
from falcon._core.ladder import may_be_integers, may_compare
from falcon._core.method import Candidate
from falcon._core.options import Options
from falcon._core.plan import Backend, Part, Plan
from falcon._core.problem import Problem
from falcon._core.quantised import Quantised
from falcon.decision.rates import rates
from falcon.decision.search import search_for

# Bytes of the sums of a block of rows, which are written and read once more.
_BLOCK = 2**24
# Fewer rows or columns are made integers in more time than is saved (256 x 4000 x 256 on a Zen 3).
_FEWEST_LINES = 384
# It must take 5 % less time than other arithmetic.
_PRICE = 1 / 0.95


def plan(
    problem: Problem, options: Options, backends: Sequence[Backend], plan_for: Callable[..., Plan]
) -> Plan:
    """Plan a product by integers by name; what they cannot hold is multiplied by floats.

    Raises TypeError: no backend that is asked for has kernels.
    Raises ValueError: they exceed the workspace limit.
    """
    usual = by_floats(problem, replace(options, arithmetic="native"), backends)
    able = [x for x in backends if not x.is_library and options.backend in ("auto", x.name)]
    if not able:
        raise TypeError(f"arithmetic {options.arithmetic!r} is by falcon's kernels, no library's")
    made = replace(_planned(usual, able[0], plan_for, backends), why="asked for", options=options)
    limit = options.workspace_limit
    if limit is not None and made.workspace > limit:
        raise ValueError(f"workspace_limit is {limit} bytes; integers take {made.workspace}")
    return made


def faster(plan: Plan, backends: Sequence[Backend], plan_for: Callable[..., Plan]) -> Plan:
    """Return the plan by integers, if it promises the error and is predicted to be faster.

    `plan`: by floats, which multiplies again what errs by more.
    """
    problem, options = plan.problem, plan.options
    name = options.backend
    able = [x for x in backends if not x.is_library and name in ("auto", x.name)]
    is_large = min(problem.M, problem.N) >= _FEWEST_LINES and may_compare(problem, options)
    if not able or not (is_large and may_be_integers(problem)):
        return plan
    try:
        made = _planned(plan, able[0], plan_for, backends)
    except (TypeError, ValueError):  # no kernels, or a limit
        return plan
    error, limit = options.error or 0.0, options.workspace_limit
    if promised(made) > error or (limit is not None and made.workspace > limit):
        return plan
    return made if _total(made, backends) * _PRICE < _total(plan, backends) else plan


def _total(plan: Plan, backends: Sequence[Backend]) -> float:
    """Return a plan's predicted seconds."""
    p, how = plan.problem, plan.method
    if plan.seconds:
        return sum(x for _, x in plan.seconds)
    known = rates(plan.backend, p, backends, how.compute_type)
    return plan.backend.predicted(p, how, known).total


def by_floats(problem: Problem, options: Options, backends: Sequence[Backend]) -> Plan:
    """Return the plan by floats."""
    return search_for(problem, options, backends).plan()


def _planned(
    plan: Plan, backend: Backend, plan_for: Callable[..., Plan], backends: Sequence[Backend]
) -> Plan:
    p, options = plan.problem, plan.options
    own: dict[str, Any] = {"error": None, "max_growth": inf, "check": "none", "scheme": "auto"}
    own |= {"arithmetic": "native", "backend": backend.name, "workspace_limit": None}
    of_parts = replace(options, given=frozenset(), **own)
    count = -(-4 * p.M * p.N // _BLOCK)
    rows = -(-p.M // count)
    parts = []
    for first in range(0, p.M, rows):
        some = min(rows, p.M - first)
        part = Problem.of_sizes((some, p.N, p.K), INT8, of_parts, result=INT32)
        part = replace(part, threads=p.threads, reproducible=p.reproducible)
        parts.append(Part(plan_for(part, of_parts, backends), rows=slice(first, first + some)))
    first_plan = parts[0].plan
    nbytes = (p.M + p.N) * p.K + 4 * rows * p.N + max(x.plan.workspace for x in parts)
    about: dict[str, Any] = {"name": f"int8 {first_plan.label}", "workspace": nbytes, "layout": ()}
    method = replace(first_plan.method, chunks=(rows, p.N, p.K), scheme=None, **about)
    bandwidth = rates(backend, p, backends).bandwidth
    passes = 1.5 * (p.M + p.N) * p.K / bandwidth, 2.0 * p.M * p.N / bandwidth
    inner = sum(_total(x.plan, backends) for x in parts)
    seconds = ("round A and B", passes[0]), ("multiply", inner), ("scale C", passes[1])
    why = "its promise is within the error, and floats take longer"
    return Plan(
        p,
        backend,
        method,
        why,
        seconds,
        table=lambda: (Candidate(method, seconds), *plan.candidates),
        options=options,
        parts=tuple(parts),
        rewrite=Quantised(),
        rates=plan.rates,
        higher=partial(by_floats, p, options, backends),
    )
