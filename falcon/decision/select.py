"""The choice: best predicted time within max_growth and workspace_limit, and why others lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from falcon._plan import Backend, Candidate, Option, Plan, Rates
from falcon._problem import Problem
from falcon.schemes import Scheme, get, names, symmetries

from .model import seconds

# Below these sizes no LCMA has ever paid and measuring the machine would cost more than it saves.
# NumPy's integer products run without BLAS, a hundred times slower: there LCMAs pay early.
_SMALLEST_BLAS = 512
_SMALLEST_OTHER = 96
# Blocks below these sizes leave the products too small for BLAS to reach the speed that was
# measured at 1024 (at 128 OpenBLAS is down to about 0.8 of it).
_SMALLEST_BLAS_BLOCK = 128
_SMALLEST_OTHER_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asked for, validated.

    Attributes
    ----------
    scheme : Scheme, "auto" or "classical"
    """

    scheme: Scheme | str
    max_growth: float
    workspace_limit: int | None
    threads: int


RatesOf = Callable[[Backend, np.dtype], Rates]


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
        Measured rates of a backend for a dtype.

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
        return _classical(problem, request, backends, "asked for")
    reason = _hopeless(problem)
    if reason is not None:
        return _classical(problem, request, backends, reason)
    return _fastest(problem, request, backends, rates_of)


def _hopeless(problem: Problem) -> str | None:
    blas = problem.dtype.char in "fdFD"
    least = _SMALLEST_BLAS if blas else _SMALLEST_OTHER
    if min(problem.M, problem.N, problem.K) < least:
        return f"a dimension is below {least}: too small for any LCMA"
    return None


def _classical(problem: Problem, request: Request, backends: Sequence[Backend], why: str) -> Plan:
    backend = backends[0]
    option = backend.candidates(problem, (), request.workspace_limit)[0]
    _check_limit(option, request)
    return Plan(problem, backend, option, request.threads, why)


def _check_limit(option: Option, request: Request) -> None:
    limit = request.workspace_limit
    if limit is not None and option.workspace > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; {option.label} multiplication on backend "
            f"{option.backend} needs at least {option.workspace} (beta, an overlapping out or "
            "an out of another dtype takes a buffer of the size of C)"
        )


def _requested(
    problem: Problem, request: Request, scheme: Scheme, backends: Sequence[Backend]
) -> Plan:
    reason = _unsuitable(problem, scheme)
    for backend in backends:
        reason = reason or backend.supports(problem)
        if reason is None:
            options = backend.candidates(problem, (scheme,), request.workspace_limit)
            if len(options) > 1:
                return Plan(problem, backend, options[1], request.threads, "asked for")
    if reason is not None:
        raise TypeError(f"scheme {scheme.name!r} cannot multiply {problem}: {reason}")
    raise ValueError(
        f"workspace_limit is {request.workspace_limit} bytes; scheme {scheme.name!r} cannot "
        f"multiply {problem} within it"
    )


def _unsuitable(problem: Problem, scheme: Scheme) -> str | None:
    if problem.is_exact and not scheme.is_integral:
        return "it has fractional coefficients and the dtype is exact"
    return None


@cache
def _decision_set(_names: tuple[str, ...]) -> tuple[Scheme, ...]:
    """Every stored scheme in every permutation, and two levels of Strassen with itself."""
    images = [image for name in _names for image in symmetries(get(name))]
    strassen = get("strassen")
    images.append(strassen @ strassen)
    # Of images that cost the same, one is enough: the six of a cube, for one.
    unique: dict[tuple, Scheme] = {}
    for image in images:
        key = (image.format, image.rank, image.phi)
        kept = unique.setdefault(key, image)
        if image.additions.reduced < kept.additions.reduced:
            unique[key] = image
    return tuple(x for x in unique.values() if not x.is_classical)


def _fastest(
    problem: Problem, request: Request, backends: Sequence[Backend], rates_of: RatesOf
) -> Plan:
    kept: list[tuple[Backend, Candidate]] = []
    refused: list[Candidate] = []
    for backend in backends:
        rates = rates_of(backend, problem.dtype)
        schemes = []
        if backend.supports(problem) is None:
            for scheme in _decision_set(tuple(names())):
                reason = _refusal(problem, scheme, request.max_growth)
                if reason is None:
                    schemes.append(scheme)
                elif not reason.startswith("blocks"):
                    whole = (problem.M, problem.N, problem.K)
                    option = Option(backend.name, scheme, whole, 0)
                    refused.append(Candidate(option, seconds(problem, option, rates), reason))
        for option in backend.candidates(problem, schemes, request.workspace_limit):
            candidate = Candidate(option, seconds(problem, option, rates))
            limit = request.workspace_limit
            reason = None
            if limit is not None and option.workspace > limit:
                reason = f"workspace {option.workspace} > workspace_limit {limit}"
            elif option.scheme is not None:
                reason = _too_small(option.chunks, problem, option.scheme)
            if reason is not None:
                refused.append(Candidate(option, candidate.seconds, reason))
            else:
                kept.append((backend, candidate))
    if not kept:
        _check_limit(refused[-1].option, request)
    kept.sort(key=lambda pair: (pair[1].total, pair[1].option.growth))
    backend, best = kept[0]
    losers = [_lost(candidate, best) for _, candidate in kept[1:]]
    refused.sort(key=lambda candidate: candidate.total)
    classical = next((c for _, c in kept if c.option.scheme is None), best)
    why = (
        f"predicted {classical.total / best.total:.3f} x as fast as classical"
        if best.option.scheme is not None
        else "no scheme is predicted to be faster"
    )
    candidates = (best, *losers, *refused)
    return Plan(problem, backend, best.option, request.threads, why, best.seconds, candidates)


def _refusal(problem: Problem, scheme: Scheme, max_growth: float) -> str | None:
    reason = _unsuitable(problem, scheme)
    if reason is not None:
        return reason
    reason = _too_small((problem.M, problem.N, problem.K), problem, scheme)
    if reason is not None:
        return reason
    if not problem.is_exact and scheme.rms_growth > max_growth:
        return f"growth {scheme.rms_growth:.2f} > max_growth {max_growth:.2f}"
    return None


def _too_small(chunks: tuple[int, int, int], problem: Problem, scheme: Scheme) -> str | None:
    blas = problem.dtype.char in "fdFD"
    least = _SMALLEST_BLAS_BLOCK if blas else _SMALLEST_OTHER_BLOCK
    for size, parts in zip(chunks, (scheme.m, scheme.n, scheme.k), strict=True):
        if size < parts * least:
            return f"blocks would be smaller than {least}"
    return None


def _lost(candidate: Candidate, best: Candidate) -> Candidate:
    """Say which stages eat the saving of a candidate, or that another is just faster."""
    slower = (candidate.total - best.total) * 1e3
    reason = f"{slower:.2f} ms slower"
    stages = dict(candidate.seconds)
    multiply, in_best = stages.get("multiply", 0.0), dict(best.seconds).get("multiply", 0.0)
    if best.option.scheme is None and candidate.option.scheme is not None:
        saving = in_best - multiply
        combines = sum(time for name, time in candidate.seconds if name != "multiply")
        reason = f"combines {combines * 1e3:.2f} ms > saving {saving * 1e3:.2f} ms"
    return Candidate(candidate.option, candidate.seconds, reason)
