"""Rates to start with: shipped ones of this instruction set and type, scaled by a short probe.

``starting.json`` holds what `measure` found on the machines that were at hand. A classical product
(some 20 ms) tells how much faster or slower this machine is: the time that it takes over the time
that the rates predict, relative to the same quotient on the machine of the rates. All rates are
scaled by it. (Separate factors for sums and updates were tried: they run in caches in a short
probe, of which a virtual machine gets more or less from one minute to the next, by factors of 3.)
Where other programs disturb all runs on several threads, a product on one thread is probed too.

To add a machine's rates: ``python -m falcon._cpu.starting >new.json`` there (a quarter of an hour).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from falcon._core.dtypes import ENGINE, DType
from falcon._core.model import seconds
from falcon._core.options import Options, thread_count
from falcon._core.plan import Option
from falcon._core.probe import RUN_SECONDS, probed, size_of, wait_for_threads
from falcon._core.problem import Problem
from falcon._core.rates import Rates

from . import _core
from .extension import seen
from .measure import measure
from .pool import kept_bytes

# Least and largest size of the probe.
_SIZES = 192, 768
# The speeds, and the times, of `Rates`.
_SPEEDS = "multiply", "add", "bandwidth", "combine", "pack", "update", "update_far", "store"
_TIMES = "overhead", "disturbance"
# What comes from the kernel, not from the file.
_OF_THE_KERNEL = ("tile", "slice", "probe", "measured")
_FALLBACK = "float32"
# Probes of which `record` takes the least disturbed.
_PROBES = 7


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
    slower = _slower(operand, threads, isa)
    scaled: dict[str, Any] = {name: getattr(rates, name) * slower for name in _TIMES}
    for name in _SPEEDS:
        speed = getattr(rates, name)
        many = isinstance(speed, tuple)
        scaled[name] = tuple(x / slower for x in speed) if many else speed / slower
    return replace(rates, **scaled)


def _slower(operand: DType, threads: int, isa: str) -> float:
    """Return how much slower this machine is than that of the rates."""
    found, disturbed = _probe(operand, threads, isa, _shipped(operand, threads, isa))
    slower = found / _row(operand, threads, isa)["probed"]
    # Threads wait for each other, so that the loss of one CPU delays them all; one thread runs
    # undisturbed for some milliseconds even where every CPU is busy. Either can only be too slow.
    return min(slower, _slower(operand, 1, isa)) if disturbed and threads > 1 else slower


def _shipped(operand: DType, threads: int, isa: str) -> Rates:
    """Return the rates of the nearest row: the type counts more than the instruction set."""
    kernel, row = _core.kernel_info(operand.engine, isa), _row(operand, threads, isa)
    known = {x.name for x in fields(Rates)} - set(_OF_THE_KERNEL)
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in known
    }
    tile = (kernel["mr"], kernel["vlen"])
    return Rates(**values, tile=tile, slice=kernel["kc"], measured=False)


def _row(operand: DType, threads: int, isa: str) -> dict[str, Any]:
    return min(
        _rows(),
        key=lambda x: (
            (x["dtype"] != operand.name) + (x["dtype"] not in (operand.name, _FALLBACK)),
            x["isa"] != isa,
            abs(x["threads"] - threads),
        ),
    )


@cache
def _rows() -> list[dict[str, Any]]:
    path = Path(__file__).with_name("starting.json")
    rows: list[dict[str, Any]] = json.loads(path.read_bytes())
    return rows


def _probe(operand: DType, threads: int, isa: str, rates: Rates) -> tuple[float, bool]:
    """Measured over predicted seconds of a classical product, and whether it was disturbed."""
    size = size_of(RUN_SECONDS, rates.multiply, *_SIZES)
    wait_for_threads()
    found = probed(_call(operand, threads, isa, size))
    problem = Problem.of((size,) * 3, operand, Options(threads=threads))
    option = Option("cpu", None, (size,) * 3, 0, True)
    predicted = sum(x for _, x in seconds(problem, option, rates))
    return found.seconds / predicted, found.disturbed


def _call(operand: DType, threads: int, isa: str, size: int) -> Callable[[], float]:
    """Return a function that multiplies cubes of that size and returns the engine's seconds."""
    call: dict[str, Any] = {"threads": threads, "isa": isa, "scheme": None}
    tiling, nbytes = _core.plan(size, size, size, operand.engine, limit=kept_bytes(), **call)
    a, b, c = (seen(x, operand) for x in np.ones((3, size, size), operand.numpy))
    workspace = _core.Workspace(nbytes)
    call |= {"blocking": tiling, "workspace": workspace, "profile": True}
    return lambda: float(_core.gemm(a, b, c, **call)["total"])


def record() -> str:
    """Measure every type on every instruction set that runs here; return rows for the file."""
    rows = []
    for isa in _core.supported_isas():
        for operand in ENGINE:
            for threads in sorted({1, thread_count()}):
                print(f"{isa} {operand.name}, {threads} threads", file=sys.stderr)
                rates = measure(operand, threads, isa, kept_bytes(), thorough=True)
                probes = [_probe(operand, threads, isa, rates) for _ in range(_PROBES)]
                row = asdict(rates)
                row["probed"] = min(x for x, _ in probes)
                for name in _OF_THE_KERNEL:
                    del row[name]
                head = {"isa": isa, "dtype": operand.name, "threads": threads}
                rows.append(json.dumps(head | {k: _short(v) for k, v in row.items()}))
    return "[\n" + ",\n".join(rows) + "\n]\n"


def _short(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_short(x) for x in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.stdout.write(record())
