"""Rates to start with: shipped ones of this instruction set and type, scaled by a short probe.

``starting.json`` holds what `measure` found on the machines that were at hand. A product by
Strassen's algorithm under the engine's own clock (some 10 ms) tells how much faster or slower each
stage is here. To add a machine's rates: ``python -m falcon._cpu.starting >new.json`` there.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from falcon._core.dtypes import ENGINE, DType
from falcon._core.model import STAGES, seconds
from falcon._core.options import Options, thread_count
from falcon._core.plan import Option
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon.schemes import get

from . import _core
from .extension import seen
from .measure import measure
from .pool import kept_bytes
from .programs import engine_scheme

# Sizes and seconds of the probe: a run of about a third of the time, the best of what fits.
_SIZES, _STEP = (192, 768), 96
_SECONDS = 0.010
# The most by which a stage's ratio of measured to predicted seconds may differ from the median.
_APART = 2.0
# The speeds that are divided by the ratio of a stage.
_SCALED = {
    "multiply": ("multiply",),
    "combine": ("add", "bandwidth", "combine", "pack"),
    "combine H": ("update", "update_far", "store"),
}
# What comes from the kernel, not from the file.
_OF_THE_KERNEL = ("tile", "slice", "probe", "measured")
_FALLBACK = "float32"


def starting(problem: Problem, isa: str, *, probe: bool) -> Rates:
    """Return rates of the engine for the problem's type and threads where none were measured.

    Parameters
    ----------
    probe : bool
        Scale them by what a product takes here; else they are a function of the file alone.
    """
    operand, threads = problem.operand, problem.threads
    rates = _shipped(operand, threads, isa)
    if not probe:
        return rates
    found, predicted = _probe(operand, threads, isa, rates)
    ratios = {stage: found[stage] / max(predicted[stage], 1e-9) for stage in _SCALED}
    # If something else runs during the probe, stages seem to differ more than machines do.
    middle = median(ratios.values())
    slower = {stage: min(max(x, middle / _APART), middle * _APART) for stage, x in ratios.items()}
    scaled: dict[str, Any] = {
        name: getattr(rates, name) * slower["multiply"] for name in ("overhead", "disturbance")
    }
    for stage, names in _SCALED.items():
        for name in names:
            speed = getattr(rates, name)
            scaled[name] = (
                tuple(x / slower[stage] for x in speed)
                if isinstance(speed, tuple)
                else speed / slower[stage]
            )
    return replace(rates, **scaled)


def _shipped(operand: DType, threads: int, isa: str) -> Rates:
    """Return the rates of the nearest row: the type counts more than the instruction set."""
    kernel = _core.kernel_info(operand.engine, isa)
    row = min(
        _rows(),
        key=lambda x: (
            (x["dtype"] != operand.name) + (x["dtype"] not in (operand.name, _FALLBACK)),
            x["isa"] != isa,
            abs(x["threads"] - threads),
        ),
    )
    known = {x.name for x in fields(Rates)} - set(_OF_THE_KERNEL)
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in known
    }
    tile = (kernel["mr"], kernel["vlen"])
    return Rates(**values, tile=tile, slice=kernel["kc"], measured=False)


@cache
def _rows() -> list[dict[str, Any]]:
    path = Path(__file__).with_name("starting.json")
    rows: list[dict[str, Any]] = json.loads(path.read_bytes())
    return rows


def _probe(
    operand: DType, threads: int, isa: str, rates: Rates
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of the stages of a product by Strassen's algorithm: measured, and predicted."""
    end = perf_counter() + _SECONDS
    least, most = _SIZES
    run = _call(operand, threads, isa, least)
    run()
    small = max(run()["total"], 1e-6)
    size = least * (_SECONDS / 3 / small) ** (1 / 3)
    size = int(min(max(size, least), most)) // _STEP * _STEP
    run = _call(operand, threads, isa, size)
    runs = [run()]
    while perf_counter() < end or len(runs) < 2:
        runs.append(run())
    found = {name: min(_stages(x)[name] for x in runs[1:]) for name in _SCALED}
    problem = Problem.of((size,) * 3, operand, Options(threads=threads))
    option = Option("cpu", get("strassen"), (size,) * 3, 0, True)
    stages = dict(seconds(problem, option, rates))
    stages["combine"] = stages[STAGES[0]] + stages[STAGES[1]]
    return {name: max(x, 1e-7) for name, x in found.items()}, stages


def _stages(run: dict[str, Any]) -> dict[str, float]:
    """Seconds of the stages of a product, from the engine's clock."""
    threads = max(run["threads"], 1)
    combine, update = (run["combine_a"] + run["combine_b"]) / threads, run["update"] / threads
    rest = run["total"] - combine - update
    return {"multiply": rest, "combine": combine, "combine H": update}


def _call(operand: DType, threads: int, isa: str, size: int) -> Any:
    """Return a function that multiplies cubes of that size and returns the engine's profile."""
    scheme = engine_scheme(get("strassen"))
    call: dict[str, Any] = {"threads": threads, "isa": isa, "scheme": scheme}
    tiling, nbytes = _core.plan(size, size, size, operand.engine, limit=kept_bytes(), **call)
    a, b, c = (seen(np.ones((size, size), operand.numpy), operand) for _ in range(3))
    workspace = _core.Workspace(nbytes)
    return lambda: _core.gemm(a, b, c, blocking=tiling, workspace=workspace, profile=True, **call)


def record() -> str:
    """Measure every type on every instruction set that runs here; return rows for the file."""
    rows = []
    for isa in _core.supported_isas():
        for operand in ENGINE:
            for threads in sorted({1, thread_count()}):
                print(f"{isa} {operand.name}, {threads} threads", file=sys.stderr)
                found = asdict(measure(operand, threads, isa, kept_bytes(), thorough=False))
                for name in _OF_THE_KERNEL:
                    del found[name]
                head = {"isa": isa, "dtype": operand.name, "threads": threads}
                rows.append(json.dumps(head | {k: _short(v) for k, v in found.items()}))
    return "[\n" + ",\n".join(rows) + "\n]\n"


def _short(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_short(x) for x in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.stdout.write(record())
