"""The choice: best predicted time within max_growth and workspace_limit.

Bounds prune: schemes are worked out (chunks, workspace, exact prediction) in the order of what they
cannot be faster than, until none is left that could still win. What `Plan.explain` shows of all the
others is made when it is asked for (`explain.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop
from math import inf

from falcon._core.backend import Backend
from falcon._core.plan import Candidate, Option, Plan, Rates
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .candidates import scheme_candidates
from .model import bounds, seconds
from .request import Request, judge, within_limit

# Below these sizes no LCMA has ever paid and measuring the machine would cost more than it saves;
# and where falcon's classical kernel was predicted to gain 5 % there, NumPy's BLAS was up to 11 %
# faster (Zen 3).
# NumPy's integer products run without BLAS, a hundred times slower: there LCMAs pay early.
SMALLEST_BLAS = 256
# Nor below this much work: at 600 and at 777 x 555 x 999 Strassen on falcon's own kernels ran at
# 0.93 of NumPy, at 1024 at 1.04.
SMALLEST_BLAS_FLOPS = 1.0e9
_SMALLEST_OTHER = 96
# Predictions this close are a tie, which goes to fewer levels, then to less growth.
TIE = 0.003
# An LCMA, or another backend than the last one of the table, must promise this gain: predictions
# err by about as much.
_LEAST_GAIN = 1.03


RatesOf = Callable[[Backend, Problem], Rates]


def select(
    problem: Problem, request: Request, backends: Sequence[Backend], rates_of: RatesOf
) -> Plan:
    """Choose a backend and a scheme for `problem`.

    Parameters
    ----------
    problem : Problem
    request : Request
    backends : sequence of Backend
        Those that may be used; several only for ``backend="auto"``.
    rates_of : callable
        Measured rates of a backend for a problem's dtype and threads.

    Raises
    ------
    ValueError
        An explicitly requested scheme cannot run within the workspace limit.
    TypeError
        An explicitly requested scheme cannot run on the dtype.
    """
    if isinstance(request.scheme, Scheme):
        return _requested(problem, request, request.scheme, backends)
    if request.scheme == "classical":
        return _classical(problem, request, backends, rates_of, "asked for")
    reason = _hopeless(problem, request, backends)
    if reason is not None:
        return _classical(problem, request, backends, rates_of, reason)
    return _fastest(problem, request, backends, rates_of)


def _too_small(problem: Problem) -> str | None:
    least = SMALLEST_BLAS if _has_blas(problem) else _SMALLEST_OTHER
    if min(problem.M, problem.N, problem.K) < least:
        return f"a dimension is below {least}: too small for any LCMA"
    if _has_blas(problem) and problem.flops < SMALLEST_BLAS_FLOPS:
        return f"2MNK is below {SMALLEST_BLAS_FLOPS:.1e}: too small for any LCMA"
    return None


def _hopeless(problem: Problem, request: Request, backends: Sequence[Backend]) -> str | None:
    """Say why nothing need be compared (nor measured), if so."""
    reason = _too_small(problem)
    if reason is not None:
        return reason
    reasons = [backend.supports(problem) for backend in backends]
    if all(reasons):
        return reasons[0]
    suited = scheme_candidates().suited_to
    if len(backends) == 1 and not suited(problem, request.max_growth).candidates:
        return f"no scheme keeps max_growth {request.max_growth:.2f}"
    return None


def _has_blas(problem: Problem) -> bool:
    return problem.operand.has_blas


def _classical(
    problem: Problem,
    request: Request,
    backends: Sequence[Backend],
    rates_of: RatesOf,
    why: str,
) -> Plan:
    """Choose among the classical algorithms of the backends."""
    options = [(x, x.candidates(problem, (None,), request.workspace_limit)[0]) for x in backends]
    fitting = [(x, option) for x, option in options if within_limit(option, request)]
    if not fitting:
        raise _limit_error(options[0][1], request)
    # The last backend of the table, NumPy, has the least overhead and needs no measuring.
    backend, option = fitting[-1]
    in_place = [pair for pair in fitting if pair[1].in_place]
    if in_place:
        backend, option = in_place[0]
        why += "; so few rows that a copy of B would cost more than the product"
    elif len(fitting) > 1 and not (_has_blas(problem) and _too_small(problem)):
        known = [
            (x, Candidate(option, seconds(problem, option, rates_of(x, problem))))
            for x, option in fitting
        ]
        backend, option = (found := preferred(known))[0], found[1].option
    return Plan(problem, backend, option, why)


def _limit_error(option: Option, request: Request) -> ValueError:
    return ValueError(
        f"workspace_limit is {request.workspace_limit} bytes; {option.label} multiplication on "
        f"backend {option.backend} needs at least {option.workspace} (beta, an overlapping out or "
        "an out of another dtype takes a buffer of the size of C)"
    )


def _requested(
    problem: Problem, request: Request, scheme: Scheme, backends: Sequence[Backend]
) -> Plan:
    reason = None
    if problem.is_exact and not scheme.is_integral:
        reason = "it has fractional coefficients and the dtype is exact"
    able = [backend for backend in backends if backend.supports(problem) is None]
    if reason is not None or not able:
        reason = reason or backends[0].supports(problem)
        raise TypeError(f"scheme {scheme.name!r} cannot multiply {problem}: {reason}")
    for backend in able:
        options = backend.candidates(problem, (scheme,), request.workspace_limit)
        if options:
            return Plan(problem, backend, options[0], "asked for")
    raise ValueError(
        f"workspace_limit is {request.workspace_limit} bytes; scheme {scheme.name!r} cannot "
        f"multiply {problem} within it"
    )


def _fastest(
    problem: Problem, request: Request, backends: Sequence[Backend], rates_of: RatesOf
) -> Plan:
    everything, limit = scheme_candidates(), request.workspace_limit
    known = [(x, rates_of(x, problem)) for x in backends]
    kept: list[tuple[Backend, Candidate]] = []
    refused: list[Candidate] = []
    fuses = []
    for backend, rates in known:
        found = judge(problem, request, backend.candidates(problem, (None,), limit)[0], rates)
        if found.refused:
            refused.append(found)
        else:
            kept.append((backend, found))
        fuses.append(found.option.fused_output)
    classical = [x.total for _, x in kept]
    fastest = min(classical, default=inf)
    suited, facts = everything.suited_to(problem, request.max_growth)
    for (backend, rates), fused in zip(known, fuses, strict=True):
        if backend.supports(problem) is not None:
            continue
        hopeful = bounds(
            problem,
            facts,
            rates,
            fused=fused,
            chunked=limit is not None,
            limit=fastest * (1 + TIE),
        )
        heapify(hopeful)
        while hopeful and hopeful[0][0] <= fastest * (1 + TIE):
            _, at = heappop(hopeful)
            for option in backend.candidates(problem, (suited[at].scheme,), limit):
                found = judge(problem, request, option, rates)
                if not found.refused:
                    kept.append((backend, found))
                    fastest = min(fastest, found.total)
    if not kept:
        raise _limit_error(refused[0].option, request)
    backend, best = preferred(kept)
    why = "no scheme is predicted to be faster"
    if best.option.scheme is not None:
        why = "the only one that keeps the limits"
        if classical:
            why = f"predicted {min(classical) / best.total:.3f} x as fast as classical"

    def table() -> tuple[Candidate, ...]:
        from .explain import candidates

        return candidates(problem, request, known, everything, best)

    guarded = best.option.scheme is not None and not problem.is_exact
    return Plan(problem, backend, best.option, why, best.seconds, table, guarded)


def preferred(kept: Sequence[tuple[Backend, Candidate]]) -> tuple[Backend, Candidate]:
    """Return the best of some candidates, the last backend's classical one coming last of these.

    The fastest; of those as fast, the one of fewest levels, then of least growth. The classical
    algorithm of the last backend wins unless the gain is worth the risk of a wrong prediction.
    """
    totals = [x.total for _, x in kept]
    tied = min(totals) * (1 + TIE)
    ties = [(pair, total) for pair, total in zip(kept, totals, strict=True) if total <= tied]
    best, time = min(ties, key=lambda x: (x[0][1].option.levels, x[0][1].option.growth, x[1]))
    classical = [x for x in zip(kept, totals, strict=True) if x[0][1].option.scheme is None]
    safe, safe_time = classical[-1] if classical else (best, time)
    return safe if time * _LEAST_GAIN > safe_time else best
