"""How fast the schemes of a format are: ``python -m falcon schemes 3x4x5``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import falcon
from falcon._backends import available_backends
from falcon._core.plan import Candidate
from falcon._front.tune import compare
from falcon.decision.rates import rates
from falcon.decision.select import preferred
from falcon.schemes import Scheme

from .workloads import Shape


def shape_of(scheme: Scheme, size: int) -> Shape:
    """Return sizes near `size` that the format divides."""
    m, k, n = (max(1, round(size / x)) * x for x in scheme.format)
    return Shape(m, n, k, scheme.name)


class Speeds(NamedTuple):
    """How fast the schemes of a format are at one shape, and what "auto" chooses there."""

    shape: Shape
    speeds: list[str]  # time of falcon's classical path over that of each scheme
    chosen: str  # label of what "auto" chooses among all schemes
    # Label of the best scheme of this format; None if "auto" considers none of them.
    best: str | None


def speeds(found: Sequence[Scheme], size: int, rounds: int = 0) -> Speeds:
    """Predict the speeds of schemes of one format in float32, or measure them in `rounds`."""
    shape = shape_of(found[0], size)
    backends = available_backends()
    known = {x.name: x for x in backends}
    wanted: list[str | Scheme] = ["auto", "classical", *found]
    auto, classical, *plans = (
        falcon.plan((shape.M, shape.K), (shape.K, shape.N), "float32", scheme=x) for x in wanted
    )
    if rounds:
        sides = [Candidate(x.option, ()) for x in (classical, *plans)]
        first, *others = compare(classical, sides, rounds)
        told = [str(x.record.over(first.record)) for x in others]
    else:
        times = []
        for plan in (classical, *plans):
            backend, problem = known[plan.backend.name], plan.problem
            rated = rates(backend, problem, backends)
            times.append(backend.predicted(problem, plan.option, rated).total)
        told = [f"{times[0] / x:.3f}" for x in times[1:]]
    mine = [
        x
        for x in auto.candidates
        if x.allowed and x.option.scheme and x.option.scheme.format == found[0].format
    ]
    policy = known[auto.backend.name].policy(auto.problem)
    best = preferred(mine, policy).option.label if mine else None
    return Speeds(shape, told, auto.option.label, best)
