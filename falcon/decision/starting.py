"""Rates to start with: shipped ones, scaled by what a small product takes here.

``starting.json`` holds what `Backend.measure` found on the machines that were at hand. Uniform
factors do not change which scheme a backend prefers; what decides is how fast the backends are
relative to each other. So the same product is run by all of them in turn, on one thread, in the
same milliseconds: 256 x 256 x 256 fits a core's own cache and takes less than a time slice, and the
fastest runs are the same to 2 % while other programs stream memory or keep every CPU busy (Zen 4).

A disturbance only slows: of what the first five processes of a machine find, the fastest counts for
each backend (`learned.py`); later ones do not probe. Until then, a backend that seems a third
slower than its record, relative to another whose record is known too, was disturbed.

To add a machine's rates: ``python studies/starting_rates.py >new.json`` there (ten minutes), and
merge its rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from falcon._core.backend import Backend
from falcon._core.dtypes import DType
from falcon._core.options import Options
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.rates import Rates

from .machine import cpu_family

# Size of the probe's product.
_SIZE = 256
# Least number of rounds, and seconds; a backend that needs more than the last number for a run is
# not probed.
_ROUNDS, _SECONDS, _TOO_SLOW = 4, 0.005, 0.005
# How much slower than the others a backend may seem, relative to its record, before this many
# processes have probed; later ones no longer do.
_BELIEVED, PROBED = 1.33, 5
# Kernels of OpenBLAS that are those of another row.
_SAME_KERNELS = {"Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX", "Zen": "Haswell"}
# Types whose rates stand for those of others, with a BLAS and without.
_BY_BLAS = "float32"
_BY_LOOPS = "int64"


def starting(backend: Backend, problem: Problem) -> Rates | None:
    """Return the shipped rates for the problem's type and threads; None on a GPU: it is measured.

    They are those of the nearest row, as if all threads were as fast as its own.
    """
    row = _row(backend, problem.operand, problem.threads)
    if row is None:
        return None
    names = {x.name for x in fields(Rates)}
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in names
    }
    return Rates(**values).slower(row["threads"] / problem.threads)


def probed(backends: Sequence[Backend], operand: DType) -> dict[str, float]:
    """Return how much slower than the shipped rates each backend is here, on one thread.

    The time of a small product over the predicted one, relative to the same quotient where the
    rates were recorded. Takes some milliseconds. Backends without fast kernels for the type are
    left out.
    """
    one, calls, recorded = Problem.of((_SIZE,) * 3, operand, Options(threads=1)), {}, {}
    for x in backends:
        row, rates = _row(x, operand, 1), starting(x, one)
        if row is not None and rates is not None:
            call = Call(x, operand, rates)
            if call.predicted < _TOO_SLOW:
                calls[x.name], recorded[x.name] = call, row.get("probed", 1.0)
    start, rounds = perf_counter(), 0
    while calls and (rounds < _ROUNDS or perf_counter() - start < _SECONDS):
        for call in calls.values():
            call.run()
        rounds += 1
    return {name: x.fastest / x.predicted / recorded[name] for name, x in calls.items()}


class Call:
    """The probe's product on one thread, and the seconds of its fastest run."""

    def __init__(self, backend: Backend, operand: DType, rates: Rates) -> None:
        problem = Problem.of((_SIZE,) * 3, operand, Options(threads=1))
        option = backend.candidates(problem, (None,), None)[0]
        self._plan = Plan(problem, backend, option, "")
        self._arrays = np.ones((3, _SIZE, _SIZE), operand.left.numpy)
        self.predicted = backend.predicted(problem, option, rates).total
        self.fastest = inf

    def run(self) -> None:
        """Run it once."""
        a, b, out = self._arrays
        start = perf_counter()
        self._plan.execute(a, b, None, out)
        self.fastest = min(self.fastest, perf_counter() - start)


def believed(
    slower: dict[str, float], processes: int, backends: Sequence[Backend], operand: DType
) -> dict[str, float]:
    """Return what some processes' probes found, without what only a disturbance can explain."""
    known = [x.name for x in backends if x.name in slower and _is_known(x, operand)]
    if processes >= PROBED or len(known) < 2:
        return slower
    most = _BELIEVED * min(slower[x] for x in known)
    return {**slower, **{x: min(slower[x], most) for x in known}}


def _is_known(backend: Backend, operand: DType) -> bool:
    """Whether a machine with the same kernels was recorded."""
    row = _row(backend, operand, 1)
    return (
        row is not None and row["kernels"] == kernels_of(backend) and row["dtype"] == operand.name
    )


def kernels_of(backend: Backend) -> str:
    """Return the kernels that a backend runs, by the name that rows have."""
    return _SAME_KERNELS.get(backend.kernels(), backend.kernels())


@cache
def _rows() -> list[dict[str, Any]]:
    path = Path(__file__).with_name("starting.json")
    rows: list[dict[str, Any]] = json.loads(path.read_bytes())
    return rows


def _row(backend: Backend, operand: DType, threads: int) -> dict[str, Any] | None:
    return _nearest(backend.name, kernels_of(backend), operand, threads)


@cache
def _nearest(backend: str, kernels: str, operand: DType, threads: int) -> dict[str, Any] | None:
    """Return the nearest row: the type counts more than kernels, these more than the CPU."""
    cpu, part = cpu_family(), operand.part
    instead = part.name if part is not None else _BY_BLAS if operand.has_blas else _BY_LOOPS
    return min(
        (x for x in _rows() if x["backend"] == backend),
        key=lambda x: (
            (x["dtype"] != operand.name) + (x["dtype"] not in (operand.name, instead)),
            x["kernels"] != kernels,
            x["cpu"] != cpu,
            abs(x["threads"] - threads),
        ),
        default=None,
    )
