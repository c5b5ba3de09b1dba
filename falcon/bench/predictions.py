"""Predicted and measured times, stage by stage: ``python -m falcon.bench.predictions``.

For each shape: the choice of "auto", the candidate that is predicted to be the fastest, whatever
its growth, the classical algorithm, and Strassen's. They run in turn, timed by the engine's own
clock. A summary says how far the predicted stages are off, and what it costs to take the candidate
of least growth among those within 3 % of the fastest.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import falcon
from falcon._backends import available_backends
from falcon._core.model import seconds
from falcon._core.options import thread_count
from falcon._core.plan import Option, Plan
from falcon._core.text import format_table
from falcon._core.timing import Estimate, Side, interleave
from falcon._cpu.profile import StageProfile
from falcon._front.tune import measure_machine
from falcon.decision import profile
from falcon.decision.machine import entry

from .workloads import Shape, operands, parse_shapes

# Short K (two), short N, odd sizes, short M, and a usual shape.
_SHAPES = ("5000x5000x512", "2048x2048x256", "5000x512x5000", "3001x2999x3003", "1187x4928x2565",
           "2048x2048x2048")  # fmt: skip
_ROUNDS, _SECONDS = 5, 8.0
# Names of the classical stages, and of the corresponding stages of an LCMA.
_SAME = {"pack A": "combine A", "pack B": "combine B", "store C": "combine H"}
_STAGES = ("combine A", "combine B", "multiply", "combine H")
# The errors of stages with a smaller share of the time are left out: they decide nothing.
_LEAST_SHARE = 0.04


@dataclass(frozen=True)
class Compared:
    """A candidate's seconds, predicted and measured, by stage and in total."""

    shape: str
    name: str
    growth: float
    predicted: dict[str, float]
    measured: dict[str, float]
    total: float
    over_choice: Estimate

    @property
    def errors(self) -> dict[str, float]:
        """Predicted over measured time, less 1, of the stages that count and of the total."""
        whole = sum(self.predicted.values()) / self.total - 1
        return {"all": whole} | {
            name: self.predicted[name] / x - 1
            for name, x in self.measured.items()
            if x > _LEAST_SHARE * self.total
        }


def compare(shape: Shape, dtype: str) -> list[Compared]:
    """Measure the candidates of a shape; the choice comes first."""
    plan = falcon.plan((shape.M, shape.K), (shape.K, shape.N), dtype, backend="cpu")
    a, b = operands(shape, np.dtype(dtype), seed=1)
    options = _options(plan)
    profiles = {x.label: StageProfile(a, b, x.scheme, plan.threads) for x in options}
    sides = [Side(name, x.seconds, 0.02) for name, x in profiles.items()]
    records = interleave(sides, _ROUNDS, seconds=_SECONDS)
    rates = profile(available_backends()).rates[entry("cpu", plan.problem)]
    found = []
    for option, record in zip(options, records, strict=True):
        told = {_SAME.get(k, k): x for k, x in seconds(plan.problem, option, rates)}
        took = profiles[option.label].summary()["stages"]
        took["multiply"] += took.pop("wait")
        over = records[0].over(record)
        found.append(
            Compared(str(shape), option.label, option.growth, told, took, record.median, over)
        )
    return found


def _options(plan: Plan) -> list[Option]:
    """The choice, the fastest by prediction, the classical algorithm and Strassen's."""
    kept = [x for x in plan.candidates if x.allowed and not x.option.is_roomy]
    fastest = min(kept, key=lambda x: x.total).option
    named = {x.option.label: x.option for x in kept}
    choice = named.get(plan.option.label, plan.option)
    wanted = [choice, fastest, named.get("classical"), named.get("strassen")]
    return list({x.label: x for x in wanted if x is not None}.values())


def table(found: list[Compared]) -> str:
    """Return a line per candidate: predicted and measured milliseconds of each stage."""
    rows: list[tuple[str, ...]] = [
        ("shape", "candidate", "growth", *_STAGES, "all", "error", "time over the choice's")
    ]
    for x in found:
        cells = [f"{x.predicted[s] * 1e3:.2f} / {x.measured[s] * 1e3:.2f}" for s in _STAGES]
        whole = f"{sum(x.predicted.values()) * 1e3:.2f} / {x.total * 1e3:.2f}"
        error = f"{x.errors['all']:+.1%}"
        rows.append((x.shape, x.name, f"{x.growth:.2f}", *cells, whole, error, str(x.over_choice)))
    return format_table(rows, left=2)


def summary(groups: list[list[Compared]]) -> dict[str, float]:
    """Median absolute errors, and what the rule of least growth costs (1: nothing)."""
    errors: dict[str, list[float]] = {}
    for x in (x for group in groups for x in group):
        for name, error in x.errors.items():
            errors.setdefault(name, []).append(abs(error))
    found = {f"error of {name}, median": median(x) for name, x in errors.items()}
    # The second of a group is the fastest by prediction, where that is not the choice.
    pairs = [group[:2] for group in groups if len(group) > 1 and _is_rule(group)]
    found["shapes in which less growth was taken"] = float(len(pairs))
    if pairs:
        gains = [1 / other.over_choice.median for _, other in pairs]
        found["time of the choice over the fastest's, mean"] = float(np.exp(np.mean(np.log(gains))))
        ratios = [choice.growth / other.growth for choice, other in pairs]
        found["growth of the choice over the fastest's, mean"] = float(
            np.exp(np.mean(np.log(ratios)))
        )
    return found


def _is_rule(group: list[Compared]) -> bool:
    """Whether another candidate than the choice was predicted to be faster."""
    choice, other = (sum(x.predicted.values()) for x in group[:2])
    return other < choice and group[1].growth > group[0].growth


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m falcon.bench.predictions",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("shapes", nargs="*", default=_SHAPES, help="M,N,K or MxNxK (default: six)")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", metavar="FILE", help="write the measurements to FILE")
    options = parser.parse_args(arguments)
    with falcon.config(threads=thread_count(options.threads)):
        measure_machine([options.dtype], [thread_count(options.threads)], lambda _: None)
        groups = [compare(x, options.dtype) for x in parse_shapes(list(options.shapes))]
    print(table([x for group in groups for x in group]))
    print("\npredicted / measured, ms\n")
    for name, value in summary(groups).items():
        print(f"{name:<60}{value:.4g}")
    if options.json:
        _write(options.json, groups)
    return 0


def _write(path: str, groups: list[list[Compared]]) -> None:
    records: list[dict[str, Any]] = [
        {**_document(x), "errors": x.errors} for group in groups for x in group
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"summary": summary(groups), "records": records}, file, indent=1)


def _document(x: Compared) -> dict[str, Any]:
    """Return a comparison as it is written to JSON."""
    return {**x.__dict__, "over_choice": x.over_choice.document()}


if __name__ == "__main__":
    sys.exit(main())
