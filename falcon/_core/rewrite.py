"""`Rewrite`: how a product is computed as other products, its parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .bound import error_bound
from .problem import Problem
from .runner import Runner


@dataclass(frozen=True, slots=True)
class Part:
    """One of the products that a product is made of: rows of A, columns of B, a slice of K."""

    plan: Any  # a Plan
    rows: slice = field(default_factory=partial(slice, None))
    columns: slice = field(default_factory=partial(slice, None))
    inner: slice = field(default_factory=partial(slice, None))


@dataclass(frozen=True)
class Rewrite:
    """How a product is made of others, the `parts` of its plan.

    A value without arrays and functions, pickled with the plan: equal ones have equal bytes.
    `falcon.decision.rewrites` has the table of them.
    """

    def runner(self, plan: Any) -> Runner:
        """Return what runs the parts, and what stands between them."""
        raise NotImplementedError

    def fitted(self, plan: Any, problem: Problem) -> Any:
        """Return the plan for operands that lie as those of a problem, or as many."""
        parts = tuple(replace(x, plan=x.plan.fitted(problem)) for x in plan.parts)
        return replace(plan, problem=problem, parts=parts)

    def error_bound(self, plan: Any, a: np.ndarray, b: np.ndarray, proved: bool) -> np.ndarray:
        """Return an error bound for each entry: by default that of a product that is no other."""
        return error_bound(plan, a, b, proved)

    def promised(self, plan: Any) -> float | None:
        """Return the largest error over the norms that it promises; None: that of the method."""
        return None

    def most_error(self, plan: Any) -> float | None:
        """Return the same for operands of any lines."""
        return None

    def pack(self, plan: Any, b: Any) -> Any:
        """Return the payload of a packed B."""
        raise TypeError(f"no b is packed for {plan.label}")

    def told(self, plan: Any) -> Iterable[str]:
        """Return what the plan says of its parts, line by line."""
        return ()
