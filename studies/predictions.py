"""Predicted and measured times, stage by stage: ``python studies/predictions.py [MxNxK ...]``.

For each shape: the choice of "auto", the candidate that is predicted to be the fastest, whatever
its growth, the classical algorithm, and Strassen's. They run in turn, timed by the engine's own
clock. A summary says how far the predicted stages are off, and what it costs to take the candidate
of least growth among those within 3 % of the fastest.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import geometric_mean, median

import numpy as np
from common import operands, shapes_of, show

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import dtype_of
from falcon._core.model import seconds
from falcon._core.options import thread_count
from falcon._cpu import _core
from falcon._cpu.extension import isa
from falcon._cpu.pool import kept_bytes
from falcon._cpu.programs import engine_scheme
from falcon._tools.timing import Estimate, Side, interleave
from falcon.decision.rates import rates as rates_for

# Short K (two), short N, odd sizes, short M, and a usual shape.
SHAPES = ("5000x5000x512", "2048x2048x256", "5000x512x5000", "3001x2999x3003", "1187x4928x2565",
          "2048x2048x2048")  # fmt: skip
# Names of the classical stages, and of the corresponding stages of an LCMA.
SAME = {"pack A": "combine A", "pack B": "combine B", "store C": "combine H"}
STAGES = ("combine A", "combine B", "multiply", "combine H")
# The errors of stages with a smaller share of the time are left out: they decide nothing.
LEAST_SHARE = 0.04


# The engine's names of stages.
ENGINE = {"combine_a": "combine A", "combine_b": "combine B", "gemm": "multiply",
          "update": "combine H", "wait": "wait"}  # fmt: skip


class StageProfile:
    """Multiplies with the engine's own clock on; keeps what each call took, stage by stage."""

    def __init__(self, a, b, scheme, threads):
        (M, K), N = a.shape, b.shape[1]
        how = {"threads": threads, "isa": isa(), "scheme": engine_scheme(scheme)}
        how |= {"limit": kept_bytes(), "is_blocked": True}
        layout = _core.plan(M, N, K, dtype_of(a.dtype).engine, **how)
        self.call = layout, a, b, np.empty((M, N), a.dtype)
        self.workspace = _core.Workspace(layout.nbytes)
        self.runs = []

    def seconds(self, calls):
        """Return the seconds of the fastest of some calls, which is kept."""
        how = {"workspace": self.workspace, "profile": True}
        found = [_core.gemm(*self.call, **how) for _ in range(calls)]
        self.runs.append(min(found, key=lambda run: run["total"]))
        return max(self.runs[-1]["total"], 1e-9)

    def stages(self):
        """Return the medians of the kept calls, in seconds, each the mean over its threads."""
        return {
            name: median(run[key] / run["threads"] for run in self.runs)
            for key, name in ENGINE.items()
        }


@dataclass
class Compared:
    """A candidate's seconds, predicted and measured, by stage and in total."""

    shape: tuple
    name: str
    growth: float
    predicted: dict
    measured: dict
    total: float
    over_choice: Estimate

    @property
    def expected(self):
        return sum(self.predicted.values())

    @property
    def errors(self):
        """Predicted over measured time, less 1, of the stages that count and of the total."""
        return {"all": self.expected / self.total - 1} | {
            name: self.predicted[name] / x - 1
            for name, x in self.measured.items()
            if x > LEAST_SHARE * self.total
        }


def compare(shape, dtype, case_seconds):
    """Measure the candidates of a shape; the choice comes first."""
    a, b, _ = operands(shape, dtype)
    plan = falcon.plan(a, b, backend="cpu")
    kept = {
        x.method.label: x for x in plan.candidates if x.allowed and not x.method.large_workspace
    }
    fastest = min(kept.values(), key=lambda x: x.total).method.label
    wanted = dict.fromkeys((plan.method.label, fastest, "classical", "strassen"))
    options = [kept[x].method if x in kept else plan.method for x in wanted
               if x in kept or x == plan.method.label]  # fmt: skip
    profiles = [StageProfile(a, b, x.scheme, plan.threads) for x in options]
    sides = [Side(x.label, y.seconds, 0.02) for x, y in zip(options, profiles, strict=True)]
    records = interleave(sides, seconds=case_seconds)
    rates = rates_for(plan.backend, plan.problem, available_backends())
    found = []
    for method, stages, record in zip(options, profiles, records, strict=True):
        told = {SAME.get(k, k): x for k, x in seconds(plan.problem, method, rates) if k != "norms"}
        took = stages.stages()
        took["multiply"] += took.pop("wait")
        over = records[0].over(record)
        found.append(Compared(shape, method.label, method.growth, told, took, record.median, over))
    return found


def table(found):
    """Print a line per candidate: predicted and measured milliseconds of each stage."""
    rows = [("shape", "candidate", "growth", *STAGES, "all", "error", "time over the choice's")]
    for x in found:
        cells = [f"{x.predicted[s] * 1e3:.2f} / {x.measured[s] * 1e3:.2f}" for s in STAGES]
        whole = f"{x.expected * 1e3:.2f} / {x.total * 1e3:.2f}"
        error = f"{x.errors['all']:+.1%}"
        shape = "x".join(map(str, x.shape))
        rows.append((shape, x.name, f"{x.growth:.2f}", *cells, whole, error, x.over_choice))
    show(rows, left=2)


def summary(groups):
    """Median absolute errors, and what the rule of least growth costs (1: nothing)."""
    errors = {}
    for x in (x for group in groups for x in group):
        for name, error in x.errors.items():
            errors.setdefault(name, []).append(abs(error))
    found = {f"error of {name}, median": median(x) for name, x in errors.items()}
    # The second of a group is the fastest by prediction, where that is not the choice.
    pairs = [group[:2] for group in groups if len(group) > 1]
    ruled = [(x, y) for x, y in pairs if y.expected < x.expected and y.growth > x.growth]
    found["shapes in which less growth was taken"] = len(ruled)
    if ruled:
        gains = [1 / fastest.over_choice.median for _, fastest in ruled]
        found["time of the choice over the fastest's, mean"] = geometric_mean(gains)
        ratios = [choice.growth / fastest.growth for choice, fastest in ruled]
        found["growth of the choice over the fastest's, mean"] = geometric_mean(ratios)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", help="M,N,K or MxNxK (default: six)")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--case-seconds", type=float, default=8.0, help="after five rounds")
    options = parser.parse_args()
    threads = thread_count(options.threads)
    with falcon.config(threads=threads, arithmetic="native"):
        shapes = shapes_of(options.shapes, SHAPES)
        groups = [compare(x, options.dtype, options.case_seconds) for x in shapes]
    table([x for group in groups for x in group])
    print("\npredicted / measured, ms\n")
    for name, value in summary(groups).items():
        print(f"{name:<60}{value:.4g}")


if __name__ == "__main__":
    main()
