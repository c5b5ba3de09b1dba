"""The limits that a caller sets (growth, workspace), and lower bounds of predicted times."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from falcon._core.backend import Backend
from falcon._core.bound import growth_of_sums
from falcon._core.dtypes import DType
from falcon._core.formulas import Counts
from falcon._core.model import bounds
from falcon._core.options import Options
from falcon._core.plan import Candidate, Method
from falcon._core.policy import USUAL_COPIES, panel_bytes
from falcon._core.problem import Problem


def within_limit(method: Method, options: Options) -> bool:
    """Whether the method's workspace keeps `workspace_limit`."""
    return options.workspace_limit is None or method.workspace <= options.workspace_limit


def panels_fit(
    problem: Problem, counts: Any, options: Options, operand: DType | None = None
) -> bool:
    """Whether the panels of a packed B keep `memory_limit`; of another B, there are none.

    `counts`: a scheme, or what has its `rank`, `k` and `n`; None: the classical algorithm.
    """
    limit = options.memory_limit
    if limit is None:
        limit = int(USUAL_COPIES * problem.K * problem.N * problem.operand.itemsize)
    return not problem.packed or panel_bytes(problem, counts, operand) <= limit


def judge(
    problem: Problem, method: Method, backend: Backend, rates: Any, options: Options
) -> Candidate:
    """Predict a method's time, and refuse it where it breaks a limit."""
    found = backend.predicted(problem, method, rates)
    reason = _why_refused(problem, method, backend, options)
    return replace(found, refused=reason, allowed=False) if reason else found


def _why_refused(problem: Problem, method: Method, backend: Backend, options: Options) -> str:
    if method.growth > options.max_growth and not problem.is_exact:
        return f"growth {method.growth:.2f} > max_growth {options.max_growth:.2f}"
    if not within_limit(method, options):
        return f"workspace {method.workspace} > workspace_limit {options.workspace_limit}"
    if not (method.is_classical or panels_fit(problem, method.scheme, options, method.operand)):
        mib = panel_bytes(problem, method.scheme, method.operand) / 2**20
        return f"panels of {mib:.1f} MiB > memory_limit"
    if problem.room and not method.is_classical:
        rounded_up = 1 + method.scheme.k * method.again[2] / problem.K  # blocks of every pass
        growth = growth_of_sums(method.scheme) * rounded_up
        if growth > problem.room:
            return f"sums grow {growth:.1f} times, and are exact up to {problem.room:.1f}"
    scheme, least = method.scheme, backend.policy(problem).smallest_chunk
    if scheme is not None:
        parts = (scheme.m, scheme.n, scheme.k)
        if any(size < part * least for size, part in zip(method.chunks, parts, strict=True)):
            return f"blocks would be smaller than {least}"
    return ""


def least_seconds(
    problem: Problem,
    schemes: tuple[Counts, ...],
    backend: Backend,
    rates: Any,
    *,
    fused: bool,
    limit: float = inf,
) -> list[tuple[float, int]]:
    """Return `falcon._core.model.bounds` where that is the backend's model; else 0 for each."""
    if not backend.policy(problem).common_model:
        return [(0.0, at) for at in range(len(schemes))]
    return bounds(problem, schemes, rates, fused=fused, limit=limit)
