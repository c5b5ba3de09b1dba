"""Runs that can be stopped and resumed: the unfinished file is rewritten after every case."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import records, tables
from .workloads import Case

# Exit status of a run that its time budget ended: not a failure, but not complete either.
INCOMPLETE = 3


class Run:
    """The results so far, on disk and in `found`, which becomes the record file.

    `path`: None keeps it in memory only.
    `asked`: what is to be measured, and on which machine. A file of another run is refused; on a
    GPU the host does not matter, but the GPU, its driver and all versions do.
    Raises ValueError: the file holds another run, or no run at all.
    """

    def __init__(self, path: Path | None, asked: dict[str, Any]) -> None:
        self.path = path
        # As JSON stores it, to be compared with the request in the file.
        self._asked = json.loads(json.dumps(_compared(asked)))
        self._failed: list[str] = []
        self.found = records.empty(asked["machine"], asked["threads"])
        if path is None or not path.exists():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            self.found, before = held["found"], held["asked"]
            self._failed = held.get("failed", [])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is not a run of falcon bench") from None
        if before != self._asked:
            raise ValueError(
                f"{path} was begun with other cases, peers or settings; resume with the same "
                "arguments, or discard it with --fresh"
            )

    def left(self, cases: list[Case]) -> list[Case]:
        """Return the cases that are not measured yet, those that failed last."""
        done = {x["key"] for x in self.found["cases"]}
        return sorted((x for x in cases if x.key not in done), key=lambda x: x.key in self._failed)

    def measure(
        self,
        cases: list[Case],
        measure: Callable[[Case], dict[str, Any]],
        deadline: float,
        seconds: Callable[[Case], float] = lambda _: 0.0,
        is_lost: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Measure cases, at least one; return whether all of them are there.

        `measure`: returns the entry of a case. One that fails is left out, with a warning.
        `deadline`: in terms of `time.monotonic`.
        `seconds`: guesses how long a case takes: one that exceeds the deadline is not begun.
        `is_lost`: whether all cases after one that failed would fail too.
        """
        complete = True
        for at, case in enumerate(cases):
            if at and time.monotonic() + seconds(case) > deadline:
                return False
            try:
                self.found["cases"].append(measure(case))
            except (MemoryError, RuntimeError) as error:  # of a library, or a device's memory
                print(f"warning: {case.key} failed: {error}", file=sys.stderr, flush=True)
                complete = False
                self._failed.append(case.key)
            self.save()
            if not complete and is_lost():
                break
        return complete

    def save(self) -> None:
        """Replace the file as a whole."""
        if self.path is not None:
            part = self.path.with_name(self.path.name + "~")
            held = {"asked": self._asked, "found": self.found, "failed": self._failed}
            part.write_text(json.dumps(held), encoding="utf-8")
            part.replace(self.path)


def _compared(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what two pieces of a run must have in common."""
    machine = asked["machine"]
    if "gpu" not in machine:
        return asked
    return {**asked, "threads": 0, "machine": {x: machine[x] for x in ("gpu", "python", "numpy")}}


def resume(
    options: argparse.Namespace,
    asked: Callable[[], dict[str, Any]],
    measure: Callable[[Run], bool],
    show: Callable[[dict[str, Any]], None],
) -> int:
    """Measure what is left of a run, print it and keep it in a file.

    `options`: with `output`, the record file, `fresh` and `json`.
    `asked`: returns what is to be measured, and on which machine.
    `measure`: measures what a `Run` lacks; returns whether it is complete.
    `show`: prints the tables of a record file.
    Returns int: the exit status: 1 for a wrong result, `INCOMPLETE`, or 0.
    """
    output: Path | None = options.output
    part = output.with_name(output.name + ".part") if output else None
    if output and part and options.fresh:
        output.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
    if output and output.exists():
        print(f"{output} is complete; --fresh measures again", file=sys.stderr)
        found, complete = records.read(output), True
    else:
        kept = Run(part, asked())
        complete, found = measure(kept), kept.found
        if output and part and complete:
            output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            part.unlink()
    status = finish(found, options, show)
    if not complete:
        how = "the same command resumes it" if output else "with -o FILE it could resume"
        print(f"the run is not complete; {how}", file=sys.stderr)
    return status or (0 if complete else INCOMPLETE)


def finish(
    found: dict[str, Any], options: argparse.Namespace, show: Callable[[dict[str, Any]], None]
) -> int:
    """Print a record file, or its tables, and warnings; return 1 if a result is wrong."""
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)
    for doubt in tables.doubts(found):
        print(f"warning: {doubt.text}", file=sys.stderr)
    return int(any(not side["correct"] for x in found["cases"] for side in x["sides"].values()))
