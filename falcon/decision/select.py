"""The choice: best predicted time within max_growth and workspace_limit, and why others lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from falcon._plan import Backend, Candidate, Option, Plan, Rates
from falcon._problem import Problem
from falcon.schemes import Scheme, get, names, symmetries

from .model import STAGES, Facts, seconds, stage_seconds

# Below these sizes no LCMA has ever paid and measuring the machine would cost more than it saves.
# NumPy's integer products run without BLAS, a hundred times slower: there LCMAs pay early.
SMALLEST_BLAS = 512
# Nor below this much work: at 600 and at 777 x 555 x 999 Strassen on falcon's own kernels ran at
# 0.93 of NumPy, at 1024 at 1.04.
_SMALLEST_BLAS_FLOPS = 1.9e9
_SMALLEST_OTHER = 96
# Blocks below these sizes leave the products too small for BLAS to reach the speed that was
# measured at 1024 (at 128 OpenBLAS is down to about 0.8 of it).
_SMALLEST_BLAS_BLOCK = 128
_SMALLEST_OTHER_BLOCK = 32
# Schemes about which a backend is asked at a time, best predicted time first. The first lot covers
# what `Plan.explain` shows; further ones are needed where chunks or refusals change the order.
_LOT = 12


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
    if _has_blas(problem) and problem.flops < _SMALLEST_BLAS_FLOPS:
        return f"2MNK is below {_SMALLEST_BLAS_FLOPS:.1e}: too small for any LCMA"
    return None


def _hopeless(problem: Problem, request: Request, backends: Sequence[Backend]) -> str | None:
    """Say why nothing need be compared (nor measured), if so."""
    reason = _too_small(problem)
    if reason is not None:
        return reason
    reasons = [backend.supports(problem) for backend in backends]
    if all(reasons):
        return reasons[0]
    contest = _contest()
    if len(backends) == 1 and not (contest.fits(problem) & contest.keeps(problem, request)).any():
        return f"no scheme keeps max_growth {request.max_growth:.2f}"
    return None


def _has_blas(problem: Problem) -> bool:
    return problem.dtype.char in "fdFD"


def _classical(
    problem: Problem,
    request: Request,
    backends: Sequence[Backend],
    rates_of: RatesOf,
    why: str,
) -> Plan:
    """Choose among the classical algorithms of the backends."""
    options = [(x, x.candidates(problem, (), request.workspace_limit)[0]) for x in backends]
    fitting = [(x, option) for x, option in options if _within_limit(option, request)]
    if not fitting:
        raise _limit_error(options[0][1], request)
    # The last backend of the table, NumPy, has the least overhead and needs no measuring.
    backend, option = fitting[-1]
    if len(fitting) > 1 and _too_small(problem) is None:
        times = [
            sum(time for _, time in seconds(problem, option, rates_of(x, problem)))
            for x, option in fitting
        ]
        backend, option = fitting[times.index(min(times))]
    return Plan(problem, backend, option, why)


def _within_limit(option: Option, request: Request) -> bool:
    return request.workspace_limit is None or option.workspace <= request.workspace_limit


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
        if len(options) > 1:
            return Plan(problem, backend, options[1], "asked for")
    raise ValueError(
        f"workspace_limit is {request.workspace_limit} bytes; scheme {scheme.name!r} cannot "
        f"multiply {problem} within it"
    )


@dataclass(frozen=True)
class _Contest:
    """The schemes that compete, and what decides among them as arrays over the schemes."""

    schemes: tuple[Scheme, ...]
    facts: Facts
    growth: np.ndarray
    integral: np.ndarray

    def fits(self, problem: Problem) -> np.ndarray:
        """Whose blocks are large enough and whose coefficients suit the dtype."""
        least = _smallest_block(problem)
        fits = np.full(len(self.schemes), True) if not problem.is_exact else self.integral
        for size, parts in zip(
            (problem.M, problem.N, problem.K),
            (self.facts.m, self.facts.n, self.facts.k),
            strict=True,
        ):
            fits = fits & (parts * least <= size)
        return fits

    def keeps(self, problem: Problem, request: Request) -> np.ndarray:
        """Whose rounding errors grow within the limit."""
        return (self.growth <= request.max_growth) | problem.is_exact


def _contest() -> _Contest:
    # Of schemes that cost the same the first competes: "strassen" rather than "2x2x2:7".
    order = sorted(names(), key=lambda name: (name[0].isdigit(), name))
    return _contest_of(tuple(get(name) for name in order))


@lru_cache(maxsize=1)  # a registered scheme makes a new one
def _contest_of(stored: tuple[Scheme, ...]) -> _Contest:
    """Every stored scheme in every permutation, and two levels of Strassen with itself."""
    images = [image for scheme in stored for image in symmetries(scheme)]
    strassen = get("strassen")
    images.append(strassen @ strassen)
    # Of images that cost the same, one is enough: the six of a cube, for one. How the additions
    # are spread over the three combines may differ: at most 0.4 % of the time, over thousands of
    # random shapes and machines.
    unique: dict[tuple, Scheme] = {}
    for image in images:
        key = (image.format, image.rank, image.phi, image.is_integral)
        kept = unique.setdefault(key, image)
        if image.additions.reduced < kept.additions.reduced:
            unique[key] = image
    schemes = tuple(x for x in unique.values() if not x.is_classical)
    growth = np.array([x.rms_growth for x in schemes])
    integral = np.array([x.is_integral for x in schemes])
    return _Contest(schemes, Facts.of(schemes), growth, integral)


def _fastest(
    problem: Problem, request: Request, backends: Sequence[Backend], rates_of: RatesOf
) -> Plan:
    kept: list[tuple[Backend, Candidate]] = []
    refused: list[Candidate] = []
    for backend in backends:
        rates = rates_of(backend, problem)
        for candidate in _compare(problem, request, backend, rates):
            if candidate.refused:
                refused.append(candidate)
            else:
                kept.append((backend, candidate))
    if not kept:
        raise _limit_error(next(x.option for x in refused if x.option.scheme is None), request)
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
    return Plan(problem, backend, best.option, why, best.seconds, candidates)


def _compare(
    problem: Problem, request: Request, backend: Backend, rates: Rates
) -> Iterable[Candidate]:
    """Predict every scheme's time; let the backend work out those that may be the fastest.

    What a backend adds to the prediction (chunks) only costs time, so schemes whose time on the
    whole problem is already longer than the best one's need not be worked out.
    """
    contest, limit = _contest(), request.workspace_limit
    whole = (problem.M, problem.N, problem.K)
    classical = _judged(problem, request, backend.candidates(problem, (), limit)[0], rates)
    yield classical
    fastest = np.inf if classical.refused else classical.total
    # A backend fuses Combine H or not, whatever the scheme.
    fused = classical.option.fused_output
    stages = np.stack(stage_seconds(problem, contest.facts, rates, whole, fused=fused))
    total = stages.sum(0)
    rows = stages.T.tolist()

    def roughly(x: int, refused: str = "") -> Candidate:
        option = Option(backend.name, contest.schemes[x], whole, 0, fused)
        return Candidate(option, tuple(zip(STAGES, rows[x], strict=True)), refused)

    supported = backend.supports(problem) is None
    fits, keeps = contest.fits(problem) & supported, contest.keeps(problem, request)
    for x in np.flatnonzero(fits & ~keeps).tolist():
        reason = f"growth {contest.growth[x]:.2f} > max_growth {request.max_growth:.2f}"
        yield roughly(x, reason)
    order = np.lexsort((contest.growth, total))
    order = order[(fits & keeps)[order]]
    for start in range(0, order.size, _LOT):
        if fastest < total[order[start]]:
            for x in order[start:].tolist():
                yield roughly(x)
            return
        lot = {id(contest.schemes[x]): x for x in order[start : start + _LOT].tolist()}
        schemes = [contest.schemes[x] for x in lot.values()]
        for option in backend.candidates(problem, schemes, limit)[1:]:
            candidate = _judged(problem, request, option, rates)
            lot.pop(id(option.scheme), None)
            if not candidate.refused:
                fastest = min(fastest, candidate.total)
            yield candidate
        for x in lot.values():
            yield roughly(x, f"cannot keep workspace_limit {limit}")


def _judged(problem: Problem, request: Request, option: Option, rates: Rates) -> Candidate:
    """Predict an option's time, and refuse it where it breaks a limit."""
    reason = ""
    if not _within_limit(option, request):
        reason = f"workspace {option.workspace} > workspace_limit {request.workspace_limit}"
    elif option.scheme is not None:
        scheme, least = option.scheme, _smallest_block(problem)
        parts = (scheme.m, scheme.n, scheme.k)
        if any(size < part * least for size, part in zip(option.chunks, parts, strict=True)):
            reason = f"blocks would be smaller than {least}"
    return Candidate(option, seconds(problem, option, rates), reason)


def _smallest_block(problem: Problem) -> int:
    return _SMALLEST_BLAS_BLOCK if _has_blas(problem) else _SMALLEST_OTHER_BLOCK


def _lost(candidate: Candidate, best: Candidate) -> Candidate:
    """Say which stages eat the saving of a candidate, or that another is just faster."""
    slower = (candidate.total - best.total) * 1e3
    reason = f"{slower:.2f} ms slower" if slower else "as fast, but errors grow no less"
    if best.option.scheme is None and candidate.option.scheme is not None:
        multiply = dict(candidate.seconds)["multiply"]
        saving, combines = best.total - multiply, candidate.total - multiply
        reason = f"combines {combines * 1e3:.2f} ms > saving {saving * 1e3:.2f} ms"
    return Candidate(candidate.option, candidate.seconds, reason)
