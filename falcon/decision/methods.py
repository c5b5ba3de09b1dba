"""`Methods`: the ways to multiply a problem, each with the classical algorithm and schemes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from falcon._core.backend import Backend
from falcon._core.lazy import lazy
from falcon._core.options import Options
from falcon._core.plan import Candidate, Method
from falcon._core.policy import Policy
from falcon._core.problem import Problem

from .limits import judge
from .rates import rates, source
from .ways import Way


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
        return rates(way.backend, self.problem, self.backends, way.operand)

    def source(self, way: Way) -> str:
        """Say where these rates come from."""
        return source(way.backend, self.problem, self.backends, way.operand)

    def methods_of(self, way: Way, scheme: Any) -> list[Method]:
        """Return the options of a way for a scheme; None is the classical algorithm."""
        limit = self.options.workspace_limit
        return way.backend.candidates(self.problem, (scheme,), limit, way.operand)

    def predicted(self, way: Way, method: Method) -> Candidate:
        """Predict a method's time, and refuse it where it breaks a limit."""
        judged = judge(self.problem, method, way.backend, self.rates(way), self.options)
        return judged if way.price == 1 else replace(judged, price=way.price)

    def way_of(self, method: Method) -> Way:
        """Return the way of a method."""
        return next(
            x for x in self.ways if (x.backend.name, x.operand) == (method.backend, method.operand)
        )
