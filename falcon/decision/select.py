"""The choice: what `tune` has found, else the best predicted time within max_growth and limits.

Lower bounds prune: schemes are evaluated (chunks, workspace, exact prediction) in ascending order
of their lower bounds, until none is left that could still win. The table of `Plan.explain`, with
all the others, is built on demand (`explain.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from heapq import heapify, heappop
from math import inf

from falcon._core.backend import Backend
from falcon._core.options import Options
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon.schemes import Scheme
from falcon.schemes.catalogue import generation

from .candidates import scheme_candidates
from .limits import judge, least_seconds, panels_fit, within_limit
from .machine import profile
from .rates import rates, source
from .store import Choice, Fastest
from .symmetric import RatesOf, choose


def plan_for(
    problem: Problem, options: Options, backends: Sequence[Backend], every: Sequence[Backend]
) -> Plan:
    """Plan a problem: by what `falcon.tune` has measured for it, else by the model.

    `backends`: those that may be used, the best first; see `select`.
    `every`: all that run on the host; on a GPU, that one.
    """
    rates_of = partial(rates, backends=every)
    is_general = problem.device is None and not problem.symmetric
    if options.tuned and is_general and options.scheme == "auto" and not generation():
        found = profile(every).choices.get(digest(problem))
        made = found and _planned(problem, options, backends, rates_of, found)
        if made:
            return made
    made = select(problem, options, backends, rates_of)
    if made.seconds:
        backend = next(x for x in backends if x.name == made.backend.name)
        made = replace(made, rates=source(backend, problem, every))
    return made


def digest(problem: Problem) -> str:
    """Return the key of a choice, which is that for operands by rows."""
    return hashlib.sha256(repr(problem.plain).encode()).hexdigest()[:24]


def select(
    problem: Problem, options: Options, backends: Sequence[Backend], rates_of: RatesOf
) -> Plan:
    """Choose a scheme for `problem`.

    `options`: its scheme is "auto", "classical" or a Scheme.
    `backends`: those that may be used. The first one is, unless it cannot run a scheme by name.
    `rates_of`: the rates of a backend for a problem's dtype, threads and device.
    Raises ValueError: the requested scheme, or every candidate, exceeds the workspace limit.
    Raises TypeError: the requested scheme cannot run on the problem.
    """
    if problem.symmetric and options.scheme != "classical":
        return choose(problem, options, backends, rates_of, select)
    if isinstance(options.scheme, Scheme):
        return _requested(problem, options, options.scheme, backends)
    backend = _first_within(problem, options, backends)
    reason: str | None = "requested"
    if options.scheme != "classical":  # why schemes need not be compared
        too_small = backend.policy(problem).why_too_small(problem)
        reason = too_small or backend.why_classical_only(problem)
    if reason is not None:
        return _classical(problem, options, backend, rates_of, reason)
    return _compared(problem, options, backend, rates_of)


def _first_within(problem: Problem, options: Options, backends: Sequence[Backend]) -> Backend:
    """Return the first backend whose classical algorithm keeps the workspace limit."""
    limit = options.workspace_limit
    if limit is None or len(backends) == 1:
        return backends[0]
    able = (x for x in backends if within_limit(x.candidates(problem, (None,), limit)[0], options))
    return next(able, backends[0])


def _classical(
    problem: Problem, options: Options, backend: Backend, rates_of: RatesOf, why: str
) -> Plan:
    """Return the plan of a backend's classical algorithm."""
    option = backend.candidates(problem, (None,), options.workspace_limit)[0]
    if not within_limit(option, options):
        raise _limit_error(option, options)
    if option.few_rows:
        why += "; few rows, and no copy of B is made in memory"
    times: tuple[tuple[str, float], ...] = ()
    if problem.symmetric:
        times = backend.predicted(problem, option, rates_of(backend, problem)).seconds
    return Plan(problem, backend, option, why, times, options=options)


def _limit_error(option: Option, options: Options) -> ValueError:
    return ValueError(
        f"workspace_limit is {options.workspace_limit} bytes; {option.label} multiplication on "
        f"backend {option.backend} needs at least {option.workspace} (beta, an overlapping out or "
        "an out of another dtype takes a buffer of the size of C)"
    )


def _requested(
    problem: Problem, options: Options, scheme: Scheme, backends: Sequence[Backend]
) -> Plan:
    reason = None
    if problem.is_exact and not scheme.is_integral:
        reason = "it has fractional coefficients and the dtype is exact"
    able = [backend for backend in backends if backend.why_classical_only(problem) is None]
    if reason is not None or not able:
        reason = reason or backends[0].why_classical_only(problem)
        raise TypeError(f"scheme {scheme.name!r} cannot multiply {problem}: {reason}")
    for backend in able:
        found = backend.candidates(problem, (scheme,), options.workspace_limit)
        if found:
            return Plan(problem, backend, found[0], "requested", options=options)
    usual = [y.workspace for x in able for y in x.candidates(problem, (scheme,), None)]
    needed = f"; without a limit it takes {min(usual)} bytes" if usual else ""
    raise ValueError(
        f"workspace_limit is {options.workspace_limit} bytes; scheme {scheme.name!r} cannot keep "
        f"it with {problem}{needed}"
    )


def _planned(
    problem: Problem,
    options: Options,
    backends: Sequence[Backend],
    rates_of: RatesOf,
    found: Fastest,
) -> Plan | None:
    """Return the plan of a choice that was stored; None where it cannot run within the limits."""
    choice = found.choice
    for backend in (x for x in backends if x.name == choice.backend):
        try:
            scheme = choice.make()
        except ValueError:  # the file was made by hand
            return None
        if scheme is not None and backend.why_classical_only(problem, scheme) is not None:
            return None
        for option in backend.candidates(problem, (scheme,), options.workspace_limit):
            judged = judge(problem, option, backend, rates_of(backend, problem), options)
            same = (option.is_roomy, option.product) == (choice.roomy, choice.product)
            if same and not judged.refused:
                made = _chosen(problem, options, backend, rates_of, judged, found.why)
                return replace(made, tuned=True)
    return None


def choice_of(option: Option) -> Choice:
    """Return an option as it is stored."""
    stored, outer, image = option.stored, None, 0
    name = None if stored is None else stored.name
    for x in scheme_candidates().all if stored is not None else ():
        if x.is_made and x.scheme is stored:
            outer = None if x.outer is None else x.outer.name
            name, image = x.name, x.facts.image
    return Choice(option.backend, name, image, outer, option.is_roomy, option.product)


def _compared(problem: Problem, options: Options, backend: Backend, rates_of: RatesOf) -> Plan:
    """Compare the candidates of a backend."""
    known, limit = rates_of(backend, problem), options.workspace_limit
    policy = backend.policy(problem)
    kept: list[Candidate] = []
    refused: list[Candidate] = []
    for option in backend.candidates(problem, (None,), limit):
        found = judge(problem, option, backend, known, options)
        (refused if found.refused else kept).append(found)
    classical = [x.total for x in kept if x.option.is_classical]
    fastest = min((x.total for x in kept), default=inf)
    most = options.max_growth if policy.common_model else inf  # there options have their own growth
    suited, facts = scheme_candidates().suited_to(problem, policy, most)
    hopeful = least_seconds(
        problem,
        facts,
        backend,
        known,
        fused=(kept or refused)[0].option.fused_output,
        limit=fastest * (1 + policy.tie),
    )
    heapify(hopeful)
    while hopeful and hopeful[0][0] <= fastest * (1 + policy.tie):
        bound, at = heappop(hopeful)
        if not panels_fit(problem, facts[at], options):
            continue
        bound *= policy.price(facts[at])
        # A scheme that cannot be the fastest can only win a tie, by less growth.
        if bound > fastest and suited[at].rms_growth >= _least_growth(kept, fastest, policy):
            continue
        for option in backend.candidates(problem, (suited[at].scheme,), limit):
            found = judge(problem, option, backend, known, options)
            if not found.refused:
                kept.append(found)
                fastest = min(fastest, found.total * policy.price(found.option.scheme))
    if not kept:
        raise _limit_error(refused[0].option, options)
    best = preferred(kept, policy)
    why = policy.no_gain if suited else f"no scheme is within max_growth {options.max_growth:.2f}"
    if not best.option.is_classical:
        why = "the only candidate within the limits"
        if classical:
            why = f"predicted {min(classical) / best.total:.3f} x as fast as classical"
    return _chosen(problem, options, backend, rates_of, best, why)


def _chosen(
    problem: Problem,
    options: Options,
    backend: Backend,
    rates_of: RatesOf,
    best: Candidate,
    why: str,
) -> Plan:
    """Return the plan of the choice; the table of all candidates is built on demand."""

    def table() -> tuple[Candidate, ...]:
        from .explain import candidates

        return candidates(problem, options, backend, rates_of(backend, problem), best)

    guarded = not best.option.is_classical and not problem.is_exact
    return Plan(problem, backend, best.option, why, best.seconds, table, guarded, options)


def _least_growth(kept: Sequence[Candidate], fastest: float, policy: Policy) -> float:
    """Return the least growth among those that tie with the fastest."""
    tied = fastest * (1 + policy.tie)
    return min((x.option.growth for x in kept if x.total <= tied), default=inf)


def preferred(kept: Sequence[Candidate], policy: Policy) -> Candidate:
    """Return the best of some candidates.

    This is the fastest; among ties the one of least growth, then of fewest levels, then one with
    the usual workspace. The classical algorithm wins unless the gain is worth the risk of a wrong
    prediction. Panels of packed operands have a price.
    """
    totals = [x.total * policy.price(x.option.scheme) for x in kept]
    tied = min(totals) * (1 + policy.tie)
    ties = [(x, total) for x, total in zip(kept, totals, strict=True) if total <= tied]
    best, time = min(
        ties,
        key=lambda x: (x[0].option.growth, x[0].option.levels, x[0].option.is_roomy, x[1]),
    )
    classical = [x for x in zip(kept, totals, strict=True) if x[0].option.is_classical]
    safe, safe_time = min(classical, key=lambda x: x[1], default=(best, time))
    return safe if time * policy.least_gain > safe_time else best
