"""`Methods`: what is asked of backends about a problem's methods, in one of the ways to multiply.

Limits of the caller, and lower bounds of predicted times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from falcon._core.bound import growth_of_sums, proved_factor
from falcon._core.centring import classical_scheme
from falcon._core.dtypes import DType
from falcon._core.formulas import Counts
from falcon._core.model import bounds
from falcon._core.options import Options
from falcon._core.plan import Backend, Candidate, Method, Plan
from falcon._core.policy import USUAL_COPIES, Policy, panel_bytes
from falcon._core.problem import Problem
from falcon._tools.lazy import lazy

from .rates import rates, source


class Way(NamedTuple):
    """A backend, and the row as which it multiplies the operands; None: their own type."""

    backend: Backend
    compute_type: DType | None = None
    price: float = 1.0  # by what predicted times are multiplied before they are compared
    over: float | None = None  # a library's predicted seconds over those of falcon's kernels
    # Where an error is named: the largest growth (None: `max_growth`), and worst case of a method.
    growth: float | None = None
    worst: float = inf


def within_limit(method: Method, options: Options) -> bool:
    """Whether the method's workspace keeps `workspace_limit`."""
    return options.workspace_limit is None or method.workspace <= options.workspace_limit


def panels_fit(
    problem: Problem, counts: Any, options: Options, compute_type: DType | None = None
) -> bool:
    """Whether the panels of a packed B keep `memory_limit`; of another B, there are none.

    `counts`: a scheme, or what has its `rank`, `k` and `n`; None: the classical algorithm.
    """
    limit = options.memory_limit
    if limit is None:
        limit = int(USUAL_COPIES * problem.K * problem.N * problem.operand.itemsize)
    return not problem.packed or panel_bytes(problem, counts, compute_type) <= limit


def judge(problem: Problem, method: Method, way: Way, rates: Any, options: Options) -> Candidate:
    """Predict a method's time, and refuse it where it breaks a limit."""
    candidate = way.backend.predicted(problem, method, rates)
    reason = _why_refused(problem, method, way, options)
    return replace(candidate, refused=reason, allowed=False) if reason else candidate


def _why_refused(problem: Problem, method: Method, way: Way, options: Options) -> str:
    backend, most = way.backend, options.max_growth if way.growth is None else way.growth
    if method.growth > most and not problem.is_exact:
        left = "" if way.growth is None else f" that error {options.error:g} leaves"
        return f"growth {method.growth:.2f} > max_growth {most:.2f}{left}"
    if way.worst < inf:
        guarded = not method.is_classical
        plan = Plan(problem, backend, method, "", guarded=guarded, options=options)
        if (worst := proved_factor(plan)) > way.worst:
            return f"may err by {worst:.1e}, and no sample is compared"
    if not within_limit(method, options):
        return f"workspace {method.workspace} > workspace_limit {options.workspace_limit}"
    if not (
        method.is_classical or panels_fit(problem, method.scheme, options, method.compute_type)
    ):
        mib = panel_bytes(problem, method.scheme, method.compute_type) / 2**20
        return f"panels of {mib:.1f} MiB > memory_limit"
    if problem.headroom and not method.is_classical:
        rounded_up = 1 + method.scheme.k * method.again[2] / problem.K  # blocks of every pass
        growth = growth_of_sums(method.scheme) * rounded_up
        if growth > problem.headroom:
            return f"sums grow {growth:.1f} times, and are exact up to {problem.headroom:.1f}"
    scheme, least = method.scheme, backend.policy(problem).smallest_chunk
    if scheme is not None and scheme.rank > 1:
        n_blocks = (scheme.m, scheme.n, scheme.k)
        if any(size < part * least for size, part in zip(method.chunks, n_blocks, strict=True)):
            return f"blocks would be smaller than {least}"
    return ""


def least_seconds(
    problem: Problem,
    schemes: tuple[Counts, ...],
    backend: Backend,
    rates: Any,
    *,
    limit: float = inf,
    most_bytes: int | None = None,
    compute_type: DType | None = None,
) -> list[tuple[float, int]]:
    """Return `falcon._core.model.bounds` where that is the backend's model; else 0 for each.

    `most_bytes`: those of a workspace; `compute_type`: as which elements are multiplied.
    """
    policy = backend.policy(problem)
    if not policy.common_model:
        return [(0.0, at) for at in range(len(schemes))]
    about: dict[str, float] = {"limit": limit}
    if most_bytes is not None and policy.holds_panels:
        row = compute_type or problem.operand
        # Each of a scheme's complex products is three of real parts.
        element = row.panel_bytes * (1.5 if row.is_complex else 1.0)
        about |= {"room": most_bytes / element, "least": policy.smallest_chunk}
        is_narrow = problem.result.itemsize < problem.accumulator.itemsize
        if is_narrow and not problem.is_exact:  # C is rounded once, not by each pass over K
            about["most"] = 1.0
    return bounds(problem, schemes, rates, **about)


@dataclass
class Methods:
    """What is asked of the backends about a problem's methods."""

    problem: Problem
    options: Options
    ways: Sequence[Way]  # as `ways` returns them
    backends: Sequence[Backend]  # all that run here

    @lazy
    def policy(self) -> Policy:
        """That of the best backend: there is one for all methods of a problem."""
        return self.ways[0].backend.policy(self.problem)

    def rates(self, way: Way) -> Any:
        """Return the rates by which methods of a way are predicted."""
        return rates(way.backend, self.problem, self.backends, way.compute_type)

    def source(self, way: Way) -> str:
        """Say where these rates come from."""
        return source(way.backend, self.problem, self.backends, way.compute_type)

    @lazy
    def library(self) -> Way | None:
        """The library, where its classical algorithm competes with what falcon's kernels run."""
        p, library = self.problem, next((x for x in self.ways if x.backend.is_library), None)
        if library is None or self.own is None or (library is self.ways[0] and not library.over):
            return None
        other = p.device is not None or p.packed or p.symmetric or p.is_wide
        centred = classical_scheme(p, self.options, None)  # no library centres
        return library if p.operand.has_blas and not other and centred is None else None

    @lazy
    def own(self) -> Way | None:
        """The way of falcon's kernels, in the operands' own arithmetic; None: there is none."""
        own = (x for x in self.ways if not x.backend.is_library and x.compute_type is None)
        return next(own, None)

    @lazy
    def classical_seconds(self) -> float:
        """Of falcon's kernels in that way, by the model that predicts the schemes."""
        assert self.own is not None
        usual = self.own.backend.candidates(self.problem, (None,), None)[0]
        return self.own.backend.predicted(self.problem, usual, self.rates(self.own)).total

    def methods_of(self, way: Way, scheme: Any) -> list[Method]:
        """Return the options of a way for a scheme; None is the classical algorithm."""
        candidates, limit = way.backend.candidates, self.options.workspace_limit
        if scheme is None:
            centred = classical_scheme(self.problem, self.options, way.compute_type)
            why_not = centred and way.backend.why_classical_only(
                self.problem, centred, way.compute_type
            )
            some = (centred,) if centred and not why_not else ()
            found = candidates(self.problem, some, limit, way.compute_type)
            if found:  # else the limit leaves no room for it
                return found
        return candidates(self.problem, (scheme,), limit, way.compute_type)

    def predicted(self, way: Way, method: Method) -> Candidate:
        """Predict a method's time, and refuse it where it breaks a limit."""
        judged = judge(self.problem, method, way, self.rates(way), self.options)
        if way is self.library and way.over is not None and method.is_classical:
            judged = replace(judged, seconds=(("multiply", way.over * self.classical_seconds),))
        return judged if way.price == 1 else replace(judged, price=way.price)

    def way_of(self, method: Method) -> Way:
        """Return the way of a method."""
        return next(
            x
            for x in self.ways
            if (x.backend.name, x.compute_type) == (method.backend, method.compute_type)
        )
