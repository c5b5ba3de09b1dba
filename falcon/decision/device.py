"""The choice for operands in a device's memory: by the backend's own model of its stages."""

from __future__ import annotations

from collections.abc import Iterable

from falcon._core.backend import DeviceBackend
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .candidates import scheme_candidates
from .request import Request

# Below these sizes launches take longer than an LCMA could save.
_SMALLEST = 1024
_SMALLEST_BLOCK = 256
# A scheme must be predicted to be this much faster: what the model may err by.
_MARGIN = 1.02


def select_on_device(problem: Problem, request: Request, backend: DeviceBackend) -> Plan:
    """Choose a scheme for `problem`, whose operands are where `backend` works.

    Raises
    ------
    ValueError
        Nothing that may run keeps the workspace limit.
    """
    limit = request.workspace_limit
    classical = backend.candidates(problem, (None,), limit)[0]
    if isinstance(request.scheme, Scheme):
        options = backend.candidates(problem, (request.scheme,), limit)
        if not options:
            raise _limit_error(problem, request.scheme.name, None, request)
        return Plan(problem, backend, options[0], "asked for")
    if limit is not None and classical.workspace > limit:
        raise _limit_error(problem, "classical", classical, request)
    reason = "asked for" if request.scheme == "classical" else _too_small(problem)
    if reason is not None:
        return Plan(problem, backend, classical, reason)
    return _fastest(problem, request, backend, classical)


def _too_small(problem: Problem) -> str | None:
    if min(problem.M, problem.N, problem.K) < _SMALLEST:
        return f"a dimension is below {_SMALLEST}: too small for any LCMA"
    return None


def _fastest(problem: Problem, request: Request, backend: DeviceBackend, classical: Option) -> Plan:
    plain = backend.predicted(problem, classical)
    options = backend.candidates(problem, _suited(problem), request.workspace_limit)
    kept, refused = [plain], []
    for option in options:
        found = backend.predicted(problem, option)
        if option.growth > request.max_growth:
            reason = f"growth {option.growth:.2f} > max_growth {request.max_growth:.2f}"
            refused.append(Candidate(option, found.seconds, reason, allowed=False))
        else:
            kept.append(found)
    kept.sort(key=lambda x: (x.total * (1.0 if x is plain else _MARGIN), x.option.growth))
    best = kept[0]
    losers = [_lost(x, best, plain) for x in kept[1:]]
    refused.sort(key=lambda x: x.total)
    why = (
        f"predicted {plain.total / best.total:.3f} x as fast as classical"
        if best is not plain
        else f"no scheme is predicted to be {_MARGIN:.2f} x as fast"
    )
    candidates = (best, *losers, *refused)
    guarded = best is not plain
    return Plan(problem, backend, best.option, why, best.seconds, lambda: candidates, guarded)


def _lost(candidate: Candidate, best: Candidate, plain: Candidate) -> Candidate:
    gap = (candidate.total - best.total) * 1e3
    reason = f"{gap:.3f} ms slower"
    if best is plain and gap <= 0:
        reason = f"less than {_MARGIN:.2f} x as fast"
    return Candidate(candidate.option, candidate.seconds, reason)


def _suited(problem: Problem) -> Iterable[Scheme]:
    """Yield the schemes whose blocks are large enough."""
    for scheme in scheme_candidates().schemes:
        sizes = zip((problem.M, problem.K, problem.N), scheme.format, strict=True)
        if all(size >= parts * _SMALLEST_BLOCK for size, parts in sizes):
            yield scheme


def _limit_error(
    problem: Problem, label: str, option: Option | None, request: Request
) -> ValueError:
    needs = "" if option is None else f"; it needs {option.workspace}"
    return ValueError(
        f"workspace_limit is {request.workspace_limit} bytes; {label} multiplication of {problem} "
        f"cannot keep it{needs}"
    )
