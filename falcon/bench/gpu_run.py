"""``bench --gpu``: the stages of every case, then every case beside cuBLAS, in a resumable run.

Each case is printed and written to the file when it is done, and a run that was stopped resumes
after the last one. Stages come first, small shapes first, so that even a short time on a GPU shows
where the time goes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from falcon._core.options import thread_count

from . import asked, gpu, gpu_stages, records, tables
from .here import Effort
from .peer_run import INCOMPLETE
from .run import Run
from .system import describe_machine
from .workloads import Case, Shape

_SIZES = (4096, 8192, 16384)
# Options of falcon.gemm that apply to a GPU; threads and backend are those of the host.
_OPTIONS = ("scheme", "max_growth", "workspace_limit")


def run(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Measure what is asked for, or resume it; print it and keep it in a file."""
    wanted = {name: falcon_options[name] for name in _OPTIONS}
    shapes = asked.given_shapes(options) or [Shape(n, n, n) for n in _SIZES]
    names = asked.dtypes(options) or ["float32"]
    cases = [Case("given", shape, name) for name in names for shape in shapes]
    output, part = asked.files(options)
    if output and output.exists():
        print(f"{output} is complete; --fresh measures again", file=sys.stderr)
        return _end(options, records.read(output), complete=True)
    machine = {**describe_machine(), "gpu": gpu.describe()}
    kept = Run(part, {"machine": machine, "threads": thread_count(), "rounds": options.rounds,
                      "cases": [x.key for x in cases], "options": str(wanted)})  # fmt: skip
    if not options.json:
        print(", ".join(f"{name} {x}" for name, x in machine["gpu"].items()), flush=True)
    kept.found["sessions"].append(records.session(None, None))
    effort = Effort(options.rounds, options.case_seconds)
    complete = _pieces(kept, _tasks(cases, wanted, effort, kept, options), options)
    if output and part and complete:
        output.write_text(json.dumps(kept.found, indent=1) + "\n", encoding="utf-8")
        part.unlink()
    return _end(options, kept.found, complete=complete)


def _tasks(
    cases: list[Case], wanted: dict[str, Any], effort: Effort, kept: Run, options: Any
) -> dict[str, Callable[[], str]]:
    """Return the pieces by name, in order; each keeps its result and returns a table of it."""

    def stages(case: Case) -> str:
        found = gpu.stages(case, wanted)
        kept.found["stages"].append(found)
        return gpu_stages.format_stages(found)

    def whole(case: Case) -> str:
        found = gpu.measure(case, wanted, effort)
        kept.put_case(found)
        return tables.format_cases([found])

    pieces: dict[str, Callable[[], str]] = {}
    if options.only != "peers":
        for x in sorted(cases, key=lambda x: x.shape.flops):
            pieces[f"stages {x.key}"] = lambda x=x: stages(x)  # type: ignore[misc]
    if options.only != "own":
        pieces |= {x.key: lambda x=x: whole(x) for x in cases}  # type: ignore[misc]
    return pieces


def _pieces(kept: Run, pieces: dict[str, Callable[[], str]], options: argparse.Namespace) -> bool:
    """Run what is left until the time is up; return whether all of it succeeded."""
    deadline = time.monotonic() + (options.time_budget or float("inf"))
    left = [key for key in pieces if key not in kept.done]
    complete = True
    for at, key in enumerate(left):
        if at > 0 and time.monotonic() > deadline:
            return False
        try:
            shown = pieces[key]()
        except (MemoryError, RuntimeError) as error:  # of the device's memory or a library
            print(f"warning: {key} failed: {error}", file=sys.stderr, flush=True)
            complete = False
            continue
        kept.finish(key)
        if not options.json:
            print(f"\n{shown}", flush=True)
    return complete


def _end(options: argparse.Namespace, found: dict[str, Any], *, complete: bool) -> int:
    """Print the results; return the exit status, 1 if one is wrong."""
    cases = found["cases"]
    if options.json:
        print(json.dumps(found, indent=1))
    elif cases:
        packed = tables.format_cases(cases, first="falcon packed")
        print(f"\n{tables.format_cases(cases)}\n\nwith B packed beforehand:\n\n{packed}")
    for doubt in tables.doubts(found):
        print(f"warning: {doubt.text}", file=sys.stderr)
    if not complete:
        how = "the same command resumes it" if options.output else "with -o FILE it could resume"
        print(f"the run is not complete; {how}", file=sys.stderr)
    wrong = any(not side["correct"] for x in cases for side in x["sides"].values())
    return 1 if wrong else 0 if complete else INCOMPLETE
