"""What the caller asked for, and whether an option keeps to it."""

from __future__ import annotations

from dataclasses import dataclass

from falcon._core.plan import Candidate, Option, Rates
from falcon._core.problem import Problem
from falcon.schemes import Scheme

from .candidates import smallest_block
from .model import seconds


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


def within_limit(option: Option, request: Request) -> bool:
    """Whether the option's workspace is one that the caller allows."""
    return request.workspace_limit is None or option.workspace <= request.workspace_limit


def judge(problem: Problem, request: Request, option: Option, rates: Rates) -> Candidate:
    """Predict an option's time, and refuse it where it breaks a limit."""
    reason = ""
    if not within_limit(option, request):
        reason = f"workspace {option.workspace} > workspace_limit {request.workspace_limit}"
    elif option.scheme is not None:
        scheme, least = option.scheme, smallest_block(problem)
        parts = (scheme.m, scheme.n, scheme.k)
        if any(size < part * least for size, part in zip(option.chunks, parts, strict=True)):
            reason = f"blocks would be smaller than {least}"
    return Candidate(option, seconds(problem, option, rates), reason, not reason)
