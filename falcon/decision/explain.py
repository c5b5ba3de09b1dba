"""The table of `Plan.explain`: every candidate worked out, best first, and why each lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from falcon._core.backend import Backend
from falcon._core.plan import Candidate, Option, Rates
from falcon._core.problem import Problem

from .candidates import SchemeCandidates
from .model import bounds, seconds
from .request import Request, judge

# Compositions in the table of a backend.
_MOST_NESTED = 16


def candidates(
    problem: Problem,
    request: Request,
    known: Sequence[tuple[Backend, Rates]],
    everything: SchemeCandidates,
    best: Candidate,
) -> tuple[Candidate, ...]:
    """Return `best`, then what lost to it by time, then what a limit forbids, each by time.

    Parameters
    ----------
    known : sequence of (Backend, Rates)
    everything : SchemeCandidates
    best : Candidate
        The choice.
    """
    limit = request.workspace_limit
    suited, facts = everything.suited_to(problem)
    found: list[Candidate] = []
    for backend, rates in known:
        supported = backend.supports(problem) is None
        # Of compositions only the best: there are many, and making one takes its time.
        fused = best.option.fused_output
        least = bounds(problem, facts, rates, fused=fused, chunked=limit is not None)
        nested = sorted(x for x in least if suited[x[1]].outer is not None)
        shown = {at for _, at in nested[:_MOST_NESTED]}
        schemes = {
            id(x.scheme): x.scheme for at, x in enumerate(suited) if x.outer is None or at in shown
        }
        options = backend.candidates(
            problem, (None, *(schemes.values() if supported else ())), limit
        )
        for option in options:
            schemes.pop(id(option.scheme), None)
            judged = judge(problem, request, option, rates)
            if option.growth > request.max_growth and not problem.is_exact:
                judged = replace(
                    judged,
                    refused=f"growth {option.growth:.2f} > max_growth {request.max_growth:.2f}",
                    allowed=False,
                )
            found.append(judged)
        for scheme in schemes.values() if supported else ():
            whole = (problem.M, problem.N, problem.K)
            option = Option(backend.name, scheme, whole, 0, options[0].fused_output)
            refused = f"cannot keep workspace_limit {limit}"
            found.append(Candidate(option, seconds(problem, option, rates), refused, False))
    found.sort(key=lambda x: (x.total, x.option.growth))
    lost = [
        replace(x, refused=_reason(x, best)) for x in found if x.allowed and x.option != best.option
    ]
    return (best, *lost, *(x for x in found if not x.allowed))


def _reason(candidate: Candidate, best: Candidate) -> str:
    """Say which stages eat the saving of a candidate, or where it loses most."""
    slower = candidate.total - best.total
    if slower <= 0:
        if best.option.scheme is None:
            return "faster by too little to be sure"
        more = candidate.option.levels > best.option.levels
        return "as fast, but of more levels" if more else "as fast, but errors grow no less"
    times, others = dict(candidate.seconds), dict(best.seconds)
    if best.option.scheme is None and candidate.option.scheme is not None:
        saving = others["multiply"] - times["multiply"]
        stage = max(("combine A", "combine B", "combine H"), key=lambda x: times[x])
        eaten = f"{stage} {times[stage] * 1e3:.2f} ms"
        if times[stage] <= saving:
            eaten = f"combines {(candidate.total - best.total + saving) * 1e3:.2f} ms"
        return f"{eaten} > saving {saving * 1e3:.2f} ms"
    lost = {x: time - others.get(x, 0.0) for x, time in times.items()}
    stage = max(lost, key=lambda x: lost[x])
    return f"{slower * 1e3:.2f} ms slower, {stage} by {lost[stage] * 1e3:.2f} ms"
