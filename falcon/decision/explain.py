"""The table of `Plan.explain`: every candidate with its times, best first, and why it lost."""

from __future__ import annotations

from dataclasses import replace

from falcon._core.model import seconds
from falcon._core.plan import Candidate, Method
from falcon._core.policy import Policy

from .candidates import scheme_candidates
from .methods import Methods, Way, least_seconds

# Most compositions that are shown per backend.
_MOST_NESTED = 16


def candidates(methods: Methods, best: Candidate) -> tuple[Candidate, ...]:
    """Return `best`, the choice, then candidates that lost to it, then those refused, by time."""
    found: list[Candidate] = []
    for compute_type in dict.fromkeys(x.compute_type for x in methods.ways):
        chosen = compute_type is best.method.compute_type
        some = (x for x in methods.ways if x.compute_type is compute_type)
        way = methods.way_of(best.method) if chosen else next(some)
        if way is methods.library and methods.own is not None:
            way = methods.own  # ran the schemes that were compared
        found += _of_way(methods, way)
    if (library := methods.library) is not None:
        found += [methods.predicted(library, x) for x in methods.methods_of(library, None)]
    found = sorted(found, key=lambda x: (x.total, x.method.growth))
    lost = [
        replace(x, refused=_reason(x, best, methods.policy))
        for x in found
        if x.allowed and x.method != best.method
    ]
    return (best, *lost, *(x for x in found if not x.allowed))


def _of_way(methods: Methods, way: Way) -> list[Candidate]:
    """Predict the candidates of a way, and say which limits they break."""
    problem, policy, backend = methods.problem, methods.policy, way.backend
    rates, limit = methods.rates(way), methods.options.workspace_limit
    suited, facts = scheme_candidates().suited_to(problem, policy)
    supported = backend.why_classical_only(problem, None, way.compute_type) is None
    classical = methods.methods_of(way, None)
    fused = classical[0].fused_output
    # Only the best compositions: there are many, and building one takes time.
    least = least_seconds(problem, facts, backend, rates)
    nested = sorted(x for x in least if suited[x[1]].outer is not None)
    shown = {at for _, at in nested[:_MOST_NESTED]}
    schemes = {
        id(x.scheme): x.scheme for at, x in enumerate(suited) if x.outer is None or at in shown
    }
    found: list[Candidate] = []
    able = backend.candidates(
        problem, schemes.values() if supported else (), limit, way.compute_type
    )
    for method in (*classical, *able):
        schemes.pop(id(method.stored), None)
        found.append(methods.predicted(way, method))
    # Only the common model predicts schemes that the backend cannot fit into the limit.
    for scheme in schemes.values() if supported and policy.common_model else ():
        whole = (problem.M, problem.N, problem.K)
        method = Method(backend.name, scheme, whole, 0, fused, compute_type=way.compute_type)
        refused = f"cannot keep workspace_limit {limit}"
        found.append(Candidate(method, seconds(problem, method, rates), refused, False))
    return found


def _reason(candidate: Candidate, best: Candidate, policy: Policy) -> str:
    """Return which stages use up a candidate's saving, or where it loses most time."""
    slower = candidate.total - best.total
    if slower <= 0:
        if policy.price(candidate.method.scheme) > policy.price(best.method.scheme):
            return f"faster by less than {policy.copy_price:.0%} per further copy of B"
        if best.method.is_classical or candidate.price > best.price:
            return policy.too_little
        if candidate.method.large_workspace and candidate.method.scheme is best.method.scheme:
            return "as fast, but takes more workspace"
        if slower < 0 and candidate.method.growth > best.method.growth:
            return "faster by too little for its larger errors"
        more = candidate.method.levels > best.method.levels
        return "as fast, but with more levels" if more else "as fast, but no more accurate"
    times, others = dict(candidate.seconds), dict(best.seconds)
    if best.method.is_classical and not candidate.method.is_classical:
        saving = others["multiply"] - times["multiply"]
        stage = max((x for x in times if x != "multiply"), key=lambda x: times[x])
        eaten = f"{stage} {times[stage] * 1e3:.2f} ms"
        if times[stage] <= saving:
            eaten = f"combines and norms {(candidate.total - best.total + saving) * 1e3:.2f} ms"
        return f"{eaten} > saving {saving * 1e3:.2f} ms"
    lost = {x: time - others.get(x, 0.0) for x, time in times.items()}
    stage = max(lost, key=lambda x: lost[x])
    return f"{slower * 1e3:.2f} ms slower, {stage} by {lost[stage] * 1e3:.2f} ms"
