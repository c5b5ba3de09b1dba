"""``bench --gpu``: every case beside cuBLAS and torch, in a run that can be resumed.

Each case is printed and written to the file when it is done.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

from falcon._core.options import thread_count
from falcon._core.timing import interleave
from falcon._gpu import device

from . import asked, gpu, records, tables
from .run import Run, resume
from .system import describe_machine
from .workloads import Case, Shape

_SIZES = (4096, 8192, 16384)
# Options of falcon.gemm that apply to a GPU; threads and backend are those of the host.
_OPTIONS = ("scheme", "arithmetic", "max_growth", "workspace_limit")


def run(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Measure what is asked for, or resume it; print it and keep it in a file."""
    wanted = {name: falcon_options[name] for name in _OPTIONS}
    shapes = asked.given_shapes(options) or [Shape(n, n, n) for n in _SIZES]
    names = asked.dtypes(options) or ["float32"]
    cases = [Case("given", shape, name) for shape in shapes for name in names]

    def what() -> dict[str, Any]:
        machine = {**describe_machine(), "gpu": gpu.describe()}
        return {"machine": machine, "threads": thread_count(), "rounds": options.rounds,
                "cases": [x.key for x in cases], "options": str(wanted)}  # fmt: skip

    return resume(options, what, lambda kept: _measure(kept, cases, wanted, options), _show)


def _measure(
    kept: Run, cases: list[Case], wanted: dict[str, Any], options: argparse.Namespace
) -> bool:
    """Measure what is left until the time is up; return whether all of it succeeded."""
    deadline = time.monotonic() + (options.time_budget or float("inf"))
    if not options.json:
        about = kept.found["machine"]["gpu"]
        print(", ".join(f"{name} {x}" for name, x in about.items()), flush=True)
    kept.found["sessions"].append(records.session(None, None))
    timing = partial(interleave, rounds=options.rounds, seconds=options.case_seconds)

    def measure(case: Case) -> dict[str, Any]:
        found = gpu.measure(case, wanted, timing)
        if not options.json:
            print(f"\n{tables.format_cases([found])}", flush=True)
        return found

    return kept.measure(kept.left(cases), measure, deadline, is_lost=device.is_lost)


def _show(found: dict[str, Any]) -> None:
    cases = found["cases"]
    if cases:
        packed = tables.format_cases(cases, first="falcon packed")
        print(f"\n{tables.format_cases(cases)}\n\nwith B packed beforehand:\n\n{packed}")
