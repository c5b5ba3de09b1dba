"""A rewrite of an afternoon, which falcon does not know: the upper and the lower half of C."""

from dataclasses import dataclass, replace

import numpy as np

from falcon._core.plan import Part, Plan
from falcon._core.rewrite import Rewrite
from falcon._core.runner import Runner

ROWS = 74  # of the products that are cut


def fits(problem, options):
    return problem.M == ROWS and options.modulus is None


@dataclass(frozen=True)
class Halves(Rewrite):
    def runner(self, plan):
        return Stacked([(x.plan.runner, x.rows) for x in plan.parts])

    def error_bound(self, plan, a, b, proved):
        some = [x.plan.error_bound(a[x.rows], b, proved=proved) for x in plan.parts]
        return np.concatenate(some)

    def told(self, plan):
        for x in plan.parts:
            yield f"rows {x.rows.start} to {x.rows.stop}: {x.plan.label}"


class Stacked(Runner):
    def __init__(self, parts):
        self._parts = parts

    def _bind_matrices(self, a, b, c, out, alpha, beta, mirror):
        def of(rows, *arrays):
            a, c, out = (None if x is None else x[rows] for x in arrays)
            return a, b, c, out

        made = [(y, x.bind(*of(y, a, c, out), alpha, beta)) for x, y in self._parts]

        def run(a, b, c, out, mirror=None):
            for rows, product in made:
                product(a[rows], b, None if c is None else c[rows], out[rows])

        return run


def plan(problem, options, backends, plan_for):
    return _of(problem, options, lambda x: plan_for(x, options, backends))


def plan_packed(problem, packed, options, plan_for):
    return _of(problem, options, lambda x: plan_for(x, packed, options))


def _of(problem, options, planned):
    half = planned(replace(problem, M=ROWS // 2))
    parts = tuple(Part(half, rows=slice(x, x + ROWS // 2)) for x in (0, ROWS // 2))
    method = replace(half.method, name=f"halves by {half.label}", layout=())
    about = {"options": options, "parts": parts, "rewrite": Halves()}
    return Plan(problem, half.backend, method, "it has so many rows", **about)
