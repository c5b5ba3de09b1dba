"""The choice: best predicted time within max_growth and workspace_limit, on the host or a device.

Lower bounds prune: schemes are evaluated (chunks, workspace, exact prediction) in ascending order
of their lower bounds, until none is left that could still win. The table of `Plan.explain`, with
all the others, is built on demand (`explain.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop
from math import inf
from typing import Any

from falcon._core.backend import Backend
from falcon._core.options import Options
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .candidates import scheme_candidates
from .learned import Choice
from .limits import judge, least_seconds, least_workspace, panels_fit, within_limit
from .symmetric import RatesOf, choose

# Backends, and the rates of each.
Known = Sequence[tuple[Backend, Any]]
# A rival is predicted to take at most that many times as long as the choice.
_MOST_SLOWER = 2.0


def select(
    problem: Problem, options: Options, backends: Sequence[Backend], rates_of: RatesOf
) -> Plan:
    """Choose a backend and a scheme for `problem`.

    `options`: its scheme is "auto", "classical" or a Scheme.
    `backends`: those that may be used, of one policy; several only for ``backend="auto"``.
    `rates_of`: measured rates of a backend for a problem's dtype, threads and device.
    Raises ValueError: the requested scheme, or every candidate, exceeds the workspace limit.
    Raises TypeError: the requested scheme cannot run on the problem.
    """
    if problem.symmetric and options.scheme != "classical":
        return choose(problem, options, backends, rates_of, select)
    if isinstance(options.scheme, Scheme):
        return _requested(problem, options, options.scheme, backends)
    if options.scheme == "classical":
        return _classical(problem, options, backends, rates_of, "requested")
    reason = _why_classical(problem, backends)
    if reason is None and len(backends) == 1 and not _any_suited(problem, options, backends[0]):
        reason = f"no scheme is within max_growth {options.max_growth:.2f}"
    if reason is not None:
        return _classical(problem, options, backends, rates_of, reason)
    return _compared(problem, options, [(x, rates_of(x, problem)) for x in backends])


def _why_classical(problem: Problem, backends: Sequence[Backend]) -> str | None:
    """Return why schemes need not be compared, or None."""
    policy = backends[0].policy(problem)
    reason = policy.why_too_small(problem)
    if reason is not None:
        return reason
    reasons = [backend.why_classical_only(problem) for backend in backends]
    return reasons[0] if all(reasons) else None


def _any_suited(problem: Problem, options: Options, backend: Backend) -> bool:
    """Whether some scheme, or another way to multiply complex numbers, keeps max_growth."""
    policy = backend.policy(problem)
    most = _most_growth(options, policy)
    if scheme_candidates().suited_to(problem, policy, most).candidates:
        return True
    found = backend.candidates(problem, (None,), options.workspace_limit)
    return any(x.growth <= most and not x.is_classical for x in found)


def _most_growth(options: Options, policy: Policy) -> float:
    """Return the limit of schemes' growth; inf where options have their own growth."""
    return options.max_growth if policy.common_model else inf


def _classical(
    problem: Problem,
    options: Options,
    backends: Sequence[Backend],
    rates_of: RatesOf,
    why: str,
) -> Plan:
    """Choose among the classical algorithms of the backends."""
    found = [(x, x.candidates(problem, (None,), options.workspace_limit)[0]) for x in backends]
    fitting = [(x, option) for x, option in found if within_limit(option, options)]
    if not fitting:
        raise _limit_error(found[0][1], options)
    # A library has the least overhead and needs no measuring.
    backend, option = next((x for x in fitting if x[0].is_library), fitting[-1])
    policy = backend.policy(problem)
    known: list[tuple[Backend, Candidate]] = []
    times: tuple[tuple[str, float], ...] = ()
    few_rows = [pair for pair in fitting if pair[1].few_rows]
    if few_rows:
        backend, option = few_rows[0]
        why += "; few rows, and this backend makes no copy of B in memory"
    elif (len(fitting) > 1 or problem.symmetric) and policy.is_compared(problem):
        known = [(x, x.predicted(problem, option, rates_of(x, problem))) for x, option in fitting]
        if policy.why_too_small(problem) is not None:
            policy = replace(policy, least_gain=policy.small_gain)
        backend, best = preferred(known, policy)
        option, times = best.option, best.seconds

    def table() -> tuple[Candidate, ...]:
        from .explain import compared

        return compared([x for _, x in known], option, policy)

    compared = [x for _, x in known] or [Candidate(x, ()) for _, x in fitting if few_rows]
    rivals = tuple(x for x in compared if x.option.backend != option.backend)
    return Plan(problem, backend, option, why, times, table, options=options, rivals=rivals)


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
    least = min(least_workspace(problem, scheme, x, options.workspace_limit or 0) for x in able)
    needed = "" if least == inf else f"; it needs at least {least} bytes"
    raise ValueError(
        f"workspace_limit is {options.workspace_limit} bytes; scheme {scheme.name!r} cannot keep "
        f"it with {problem}{needed}"
    )


def planned(
    problem: Problem,
    options: Options,
    backends: Sequence[Backend],
    rates_of: RatesOf,
    choice: Choice,
    why: str,
) -> Plan | None:
    """Return the plan of a stored choice; None where it cannot run within the limits."""
    if choice.cut:
        made = select(problem, options, backends, rates_of)
        return replace(made, why=why) if made.parts else None

    def table() -> tuple[Candidate, ...]:
        return select(problem, options, backends, rates_of).candidates

    for backend in (x for x in backends if x.name == choice.backend):
        try:
            scheme = choice.make()
        except ValueError:  # it was registered in another process, or the file is damaged
            return None
        if scheme is not None and backend.why_classical_only(problem, scheme) is not None:
            return None
        rates = rates_of(backend, problem)
        for option in backend.candidates(problem, (scheme,), options.workspace_limit):
            judged = judge(problem, option, backend, rates, options)
            same = (option.is_roomy, option.product) == (choice.roomy, choice.product)
            if same and not judged.refused:
                known = [(x, rates_of(x, problem)) for x in backends]
                made = _chosen(problem, options, known, backend, judged, why)
                if problem.symmetric or _why_classical(problem, backends) is not None:
                    made = replace(made, table=table)
                return made
    return None


def choice_of(problem: Problem, option: Option) -> Choice:
    """Return an option as it is stored."""
    more: dict[str, Any] = {"roomy": option.is_roomy, "product": option.product}
    stored = option.stored
    for x in scheme_candidates().all if stored is not None else ():
        if x.is_made and x.scheme is stored:
            outer = None if x.outer is None else x.outer.name
            return Choice(option.backend, x.name, x.facts.image, outer, **more)
    name = None if stored is None else stored.name
    cut = problem.symmetric != "" and option.name != ""
    return Choice(option.backend, name, cut=cut, **more)


def _compared(problem: Problem, options: Options, known: Known) -> Plan:
    """Compare the candidates of the backends."""
    everything, limit = scheme_candidates(), options.workspace_limit
    policy = known[0][0].policy(problem)
    kept: list[tuple[Backend, Candidate]] = []
    refused: list[Candidate] = []
    fuses = []
    for backend, rates in known:
        for option in backend.candidates(problem, (None,), limit):
            found = judge(problem, option, backend, rates, options)
            if found.refused:
                refused.append(found)
            else:
                kept.append((backend, found))
        fuses.append(option.fused_output)
    classical = [x.total for _, x in kept if x.option.is_classical]
    fastest = min((x.total for _, x in kept), default=inf)
    suited, facts = everything.suited_to(problem, policy, _most_growth(options, policy))
    for (backend, rates), fused in zip(known, fuses, strict=True):
        if backend.why_classical_only(problem) is not None:
            continue
        hopeful = least_seconds(
            problem,
            facts,
            backend,
            rates,
            fused=fused,
            chunked=limit is not None,
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
                found = judge(problem, option, backend, rates, options)
                if not found.refused:
                    kept.append((backend, found))
                    fastest = min(fastest, found.total * policy.price(found.option.scheme))
    if not kept:
        raise _limit_error(refused[0].option, options)
    backend, best = preferred(kept, policy)
    why = policy.no_gain
    if not best.option.is_classical:
        why = "the only candidate within the limits"
        if classical:
            why = f"predicted {min(classical) / best.total:.3f} x as fast as classical"
    rivals = _rivals([x for _, x in kept], best)
    return replace(_chosen(problem, options, known, backend, best, why), rivals=rivals)


def _rivals(kept: Sequence[Candidate], best: Candidate) -> tuple[Candidate, ...]:
    """Return the best of every other kind, then the next of the choice's own, if as accurate."""
    kinds: dict[tuple[str, bool], Candidate] = {}
    chosen = best.option.backend, best.option.is_classical
    for x in sorted(kept, key=lambda x: x.total):
        kind = x.option.backend, x.option.is_classical
        same = kind == chosen
        if same and (x.option.scheme is best.option.scheme or x.option.growth > best.option.growth):
            continue
        if x.total <= _MOST_SLOWER * best.total:
            kinds.setdefault(kind, x)
    last = kinds.pop(chosen, None)
    return (*kinds.values(), *(() if last is None else (last,)))


def _chosen(
    problem: Problem, options: Options, known: Known, backend: Backend, best: Candidate, why: str
) -> Plan:
    """Return the plan of the choice; the table of all candidates is built on demand."""

    def table() -> tuple[Candidate, ...]:
        from .explain import candidates

        return candidates(problem, options, known, scheme_candidates(), best)

    guarded = not best.option.is_classical and not problem.is_exact
    return Plan(problem, backend, best.option, why, best.seconds, table, guarded, options)


def _least_growth(
    kept: Sequence[tuple[Backend, Candidate]], fastest: float, policy: Policy
) -> float:
    """Return the least growth among those that tie with the fastest."""
    tied = fastest * (1 + policy.tie)
    return min((x.option.growth for _, x in kept if x.total <= tied), default=inf)


def _risk(option: Option) -> tuple[float, int, bool]:
    return option.growth, option.levels, option.is_roomy


def preferred(
    kept: Sequence[tuple[Backend, Candidate]], policy: Policy
) -> tuple[Backend, Candidate]:
    """Return the best of some candidates.

    This is the fastest; among ties the one of least growth, then of fewest levels, then one with
    the usual workspace. The classical algorithm, a library's if there is one, wins unless the gain
    is worth the risk of a wrong prediction. Panels of packed operands have a price.
    """
    totals = [x.total * policy.price(x.option.scheme) for _, x in kept]
    tied = min(totals) * (1 + policy.tie)
    ties = [(pair, total) for pair, total in zip(kept, totals, strict=True) if total <= tied]
    best, time = min(ties, key=lambda x: (*_risk(x[0][1].option), x[1]))
    classical = [x for x in zip(kept, totals, strict=True) if x[0][1].option.is_classical]
    safe, safe_time = max(classical, key=lambda x: x[0][0].is_library, default=(best, time))
    return safe if time * policy.least_gain > safe_time else best
