"""The one search: over schemes, kinds of arithmetic and backends, for the least predicted time.

Lower bounds prune: schemes are evaluated (chunks, workspace, exact prediction) in ascending order
of their lower bounds, until none is left that could still win. The table of `Plan.explain`, with
all the others, is built on demand (`explain.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop
from math import inf
from typing import Any

from falcon._core.centring import CENTRED
from falcon._core.ladder import is_bound
from falcon._core.options import Options
from falcon._core.plan import Backend, Candidate, Method, Plan
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon._tools.locks import importing
from falcon.schemes import Scheme

from .candidates import scheme_candidates
from .methods import Methods, Way, least_seconds, panels_fit, within_limit
from .store import Fastest
from .ways import finer, ways

# A scheme with more workspace than usual must save 1.5 % of another scheme's time.
_ROOM_PRICE = 1.015


@dataclass
class Search(Methods):
    """The search for the best method."""

    kept: list[Candidate] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)  # of those kept, see `_ranked`
    refused: list[Candidate] = field(default_factory=list)

    def plan(self) -> Plan:
        """Choose; symmetric products are multiplied whole (`rewrites` cuts them)."""
        options = self.options
        if isinstance(options.scheme, Scheme):
            return self._requested(options.scheme)
        first = self._first_within()
        reason = {x: self._why_classical(x) for x in first}
        with_schemes = first
        library, own = self.library, self.own
        if library and own and first[0] is self.ways[0] and reason[first[0]] is None:
            with_schemes = [own, *first[1:]]
            first = [*dict.fromkeys([first[0], own, library]), *first[1:]]
            reason[own] = self._why_classical(own)
        if len(first) == 1 and reason[first[0]] is not None:
            return self._classical(first[0], str(reason[first[0]]))
        for way in first:
            for method in self.methods_of(way, None):
                self._add(way, method)
        compared = self._compare([x for x in with_schemes if reason[x] is None])
        if not self.kept:
            raise self._limit_error(self.refused[0].method)
        best = preferred(self.kept, self.policy)
        why = reason[first[0]] or self.policy.no_gain
        if not compared and reason[first[0]] is None:
            why = f"no scheme is within max_growth {options.max_growth:.2f}"
        why = self._why(best) or why
        del self.kept[:], self.weights[:], self.refused[:]  # the plan keeps its search
        return self._chosen(best, why)

    def _first_within(self) -> list[Way]:
        """Return a way for each arithmetic: the first whose classical algorithm keeps the limit."""
        first: dict[Any, Way] = {}
        for compute_type in dict.fromkeys(x.compute_type for x in self.ways):
            some = [x for x in self.ways if x.compute_type is compute_type]
            if self.options.workspace_limit is not None and len(some) > 1:
                fits = (x for x in some if within_limit(self.methods_of(x, None)[0], self.options))
                first[compute_type] = next(fits, some[0])
            else:
                first[compute_type] = some[0]
        return list(first.values())

    def _why_classical(self, way: Way) -> str | None:
        """Return why no schemes need be compared in a way; None: they are."""
        if self.options.scheme == "classical":
            return "requested"
        too_small = self.policy.why_too_small(self.problem)
        return too_small or way.backend.why_classical_only(self.problem, None, way.compute_type)

    def _classical(self, way: Way, why: str) -> Plan:
        """Return the plan of the classical algorithm, which nothing competes with."""
        method = self.methods_of(way, None)[0]
        if not within_limit(method, self.options):
            raise self._limit_error(method)
        times: tuple[tuple[str, float], ...] = ()
        rates = ""
        if self.problem.symmetric and self.problem.device is None:
            times = way.backend.predicted(self.problem, method, self.rates(way)).seconds
            rates = self.source(way)
        why += _few_rows(method)
        about: dict[str, Any] = {"options": self.options, "rates": rates}
        about["higher"] = self._higher(way)
        return Plan(self.problem, way.backend, method, why, times, **about)

    def _limit_error(self, method: Method) -> ValueError:
        return ValueError(
            f"workspace_limit is {self.options.workspace_limit} bytes; {method.label} "
            f"multiplication on backend {method.backend} needs at least {method.workspace} (beta, "
            "an overlapping out or an out of another dtype takes a buffer of the size of C)"
        )

    def _requested(self, scheme: Scheme) -> Plan:
        problem, options = self.problem, self.options
        reason = None
        if problem.operand.is_exact and not scheme.is_integral:
            reason = "it has fractional coefficients and the dtype is exact"
        reasons = [x.backend.why_classical_only(problem, None, x.compute_type) for x in self.ways]
        able = [x for x, why in zip(self.ways, reasons, strict=True) if why is None]
        if reason is not None or not able:
            reason = reason or reasons[0]
            raise TypeError(f"scheme {scheme.name!r} cannot multiply {problem}: {reason}")
        found = [(x, some[0]) for x in able if (some := self.methods_of(x, scheme))]
        if len(found) > 1:  # the ways are in the order of their classical products
            found.sort(key=lambda x: self.predicted(*x).total)
        if found:
            way, method = found[0]
            return Plan(problem, way.backend, method, "requested", options=options)
        unlimited = (x.backend.candidates(problem, (scheme,), None, x.compute_type) for x in able)
        usual = [method.workspace for some in unlimited for method in some]
        needed = f"; without a limit it takes {min(usual)} bytes" if usual else ""
        raise ValueError(
            f"workspace_limit is {options.workspace_limit} bytes; scheme {scheme.name!r} cannot "
            f"keep it with {problem}{needed}"
        )

    def _add(self, way: Way, method: Method) -> float:
        """Predict a method; return the seconds by which it is compared, inf beyond a limit."""
        candidate = self.predicted(way, method)
        if candidate.refused:
            self.refused.append(candidate)
            return inf
        self.kept.append(candidate)
        self.weights.append(_ranked(candidate, self.policy))
        return self.weights[-1]

    def _compare(self, compared: Sequence[Way]) -> bool:
        """Evaluate the schemes that may be the fastest; return whether there were any."""
        problem, policy, any_suited = self.problem, self.policy, False
        fastest = min(self.weights, default=inf)
        # Without the common model options have their own growth.
        most = inf
        if policy.common_model:
            limits = (x.growth for x in compared)
            some = [self.options.max_growth if x is None else x for x in limits]
            most = max(some, default=self.options.max_growth)
        suited, facts = scheme_candidates().suited_to(problem, policy, most)
        by_bound: list[tuple[float, int]] = []  # bounds; the scheme of a way, the ways in turn
        for number, way in enumerate(compared):
            bounds = least_seconds(
                problem,
                facts,
                way.backend,
                self.rates(way),
                limit=fastest,
                most_bytes=self.options.workspace_limit,
                compute_type=way.compute_type,
            )
            by_bound += (
                (
                    x * way.price * policy.price(facts[at], suited[at].rms_growth),
                    number * len(suited) + at,
                )
                for x, at in bounds
            )
            any_suited = bool(suited)
        heapify(by_bound)
        while by_bound and by_bound[0][0] <= fastest:
            number, at = divmod(heappop(by_bound)[1], len(suited))
            way = compared[number]
            if not panels_fit(problem, facts[at], self.options, way.compute_type):
                continue
            for method in self.methods_of(way, suited[at].scheme):
                fastest = min(fastest, self._add(way, method))
        return any_suited

    def _why(self, best: Candidate) -> str:
        """Say what the choice gains over the classical algorithm, and over the own arithmetic."""
        compute_type = best.method.compute_type
        alike = [x for x in self.kept if x.method.compute_type is compute_type]
        classical = [x for x in alike if _has_no_scheme(x.method)]
        told = []
        if not _has_no_scheme(best.method):
            told.append("the only candidate within the limits")
            if classical:
                near = min(classical, key=lambda x: x.total)
                name = f"{near.method.backend} classical" if self.library else "classical"
                told = [f"predicted {near.total / best.total:.3f} x as fast as {name}"]
        others = [x.total for x in self.kept if x.method.compute_type is not compute_type]
        if others and compute_type is not self.ways[0].compute_type:
            taken = ", taken where a sum may exceed 53 bits," if self.problem.is_exact else ""
            longer = min(others) / best.total
            told.append(f"{self.problem.operand} arithmetic{taken} {longer:.2f} x as long")
        return "; ".join(told) + (_few_rows(best.method) if told else "")

    def _chosen(self, best: Candidate, why: str, *, tuned: bool = False) -> Plan:
        """Return the plan of the choice; the table of all candidates is built on demand."""

        def table() -> tuple[Candidate, ...]:
            with importing():
                from .explain import candidates

            return tuple(scaled(x, self.problem.count) for x in candidates(self, best))

        way = self.way_of(best.method)
        return Plan(
            self.problem,
            way.backend,
            best.method,
            why,
            scaled(best, self.problem.count).seconds,
            table,
            guarded=not best.method.is_classical and not self.problem.is_exact,
            optional=not self.problem.reproducible
            and (not best.method.is_classical or best.method.splits > 1),
            options=self.options,
            tuned=tuned,
            rates="" if tuned else self.source(way),
            higher=self._higher(way),
        )

    def _higher(self, way: Way) -> Callable[[], Plan] | None:
        """Return what plans by more accurate arithmetic, where an error is named; None: no one."""
        if not is_bound(self.problem, self.options):
            return None
        problem = replace(self.problem, packed=False)
        how = problem, self.options, self.backends, way
        return partial(finer_plan, *how) if finer(*how) else None

    def stored(self, stored: Fastest) -> Plan | None:
        """Return the plan of a choice that was stored; None where it cannot run in the limits."""
        choice = stored.choice
        for way in self.ways:
            try:
                scheme = choice.make()
            except ValueError:  # the file was made by hand
                return None
            if way.backend.name != choice.backend or (
                scheme is not None
                and way.backend.why_classical_only(self.problem, scheme, way.compute_type)
                is not None
            ):
                continue
            for method in self.methods_of(way, scheme):
                candidate = self.predicted(way, method)
                how = "" if method.arithmetic is None else method.arithmetic.name
                about = method.large_workspace, method.product, how
                same = about == (choice.large_workspace, choice.product, choice.arithmetic)
                if same and not candidate.refused:
                    return self._chosen(candidate, stored.why, tuned=True)
        return None


def finer_plan(problem: Problem, options: Options, backends: Sequence[Backend], than: Way) -> Plan:
    """Return the plan of more accurate arithmetic than that of a way."""
    return Search(problem, options, finer(problem, options, backends, than), backends).plan()


def _has_no_scheme(method: Method) -> bool:
    return method.is_classical or method.scheme is CENTRED


def _few_rows(method: Method) -> str:
    return "; few rows, and no copy of B is made in memory" if method.b_in_place else ""


def search_for(problem: Problem, options: Options, backends: Sequence[Backend]) -> Search:
    """Return the search for a problem; parameters as of `decide`."""
    return Search(problem, options, ways(problem, options, backends), backends)


def scaled(candidate: Candidate, count: int) -> Candidate:
    """Return a candidate with the seconds of a batch of so many products."""
    times = tuple((name, time * count) for name, time in candidate.seconds)
    return candidate if count == 1 else replace(candidate, seconds=times)


def compared_seconds(candidate: Candidate, policy: Policy) -> float:
    """Return the seconds by which candidates are compared: errors and memory have their prices."""
    method = candidate.method
    return candidate.total * candidate.price * policy.price(method.scheme, method.growth)


def _ranked(candidate: Candidate, policy: Policy) -> float:
    """Return the seconds by which schemes are compared with one another."""
    price = _ROOM_PRICE if candidate.method.large_workspace else 1.0
    return compared_seconds(candidate, policy) * price


def preferred(kept: Sequence[Candidate], policy: Policy) -> Candidate:
    """Return the best of some candidates: the least seconds with all prices, then fewest levels.

    The classical algorithm wins unless the gain is worth the risk of a wrong prediction.
    """
    best = min(kept, key=lambda x: (_ranked(x, policy), x.method.growth, x.method.levels))
    classical = [x for x in kept if x.method.is_classical]
    safe = min(classical, key=lambda x: compared_seconds(x, policy), default=best)
    gains = compared_seconds(best, policy) * policy.least_gain <= compared_seconds(safe, policy)
    return best if gains else safe
