"""The record file: made of what was measured, checked against its schema.

Its format is described by ``data/results.schema.json`` and in ``docs/benchmarks/format.md``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from falcon._core.options import thread_count
from falcon._core.timing import Estimate, Record, records_of
from falcon._front.info import numpy_blas

from .errors import wrong_beyond
from .stream import Stream
from .system import describe_falcon, describe_machine
from .workloads import Case, parse_shape

FORMAT = "falcon-bench/2"


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of the record file."""
    file = resources.files(__package__) / "data" / "results.schema.json"
    return json.loads(file.read_text(encoding="utf-8"))


def read(path: str | Path) -> dict[str, Any]:
    """Read a record file.

    Raises
    ------
    ValueError
        It is none, or of another format.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is not a record file of format {FORMAT!r}")
    return found


# --- making one ----------------------------------------------------------------------------------


def case_entry(
    case: Case,
    measured: Sequence[Record],
    about: dict[str, dict[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """Return a case as the file holds it.

    Parameters
    ----------
    case : Case
    measured : sequence of Record
        falcon first: it is what the speed-ups are of.
    about : dict of str to dict
        What else is known of each side: its error, and what differs from `_UNKNOWN`.
    more : dict
        Entries that differ from those of a case without sessions, failures and load.
    """
    sides = {}
    for record in measured:
        facts = {**_UNKNOWN, **about[record.name]}
        growth = facts["plan"]["growth"] if facts["plan"] else 1.0
        sides[record.name] = {
            **facts,
            "seconds": list(record.seconds),
            "median": record.median,
            "gflops": round(case.shape.flops / record.median / 1e9, 2),
            "error": float(f"{facts['error']:.4g}"),
            "correct": facts["error"] <= wrong_beyond(case.dtype, case.shape.K, growth),
        }
    first, *others = measured
    return {
        "key": case.key,
        "workload": case.workload,
        "label": case.shape.label,
        **case.shape.sizes(),
        "dtype": case.dtype,
        "rounds": len(first.seconds),
        "sessions": [0],
        "load": None,
        "sides": sides,
        "failed": {},
        "speedups": {x.name: first.over(x).document() for x in others},
        **more,
    }


_UNKNOWN = {"library": "", "version": "", "kernel": "?", "threads": None, "extra_bytes": None,
            "plan": None}  # fmt: skip


def plan_entry(plan: Any) -> dict[str, Any]:
    """Return what the file holds of falcon's plan."""
    return {"backend": plan.backend.name, "scheme": plan.option.label,
            "workspace": plan.workspace, "growth": plan.growth}  # fmt: skip


def here(cases: list[dict[str, Any]], threads: int | None) -> dict[str, Any]:
    """Return the record file of cases that were measured in this process."""
    session = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "falcon": describe_falcon(),
        "load": None,
        "self_check": None,
    }
    nothing: dict[str, Any] = {"stages": [], "errors": [], "crossover": [], "peak": None}
    return {"format": FORMAT, "machine": {**describe_machine(), "numpy_blas": numpy_blas()},
            "threads": thread_count(threads), "peers": [], "sessions": [session], "cases": cases,
            **nothing}  # fmt: skip


def document(stream: Stream) -> dict[str, Any]:
    """Put together what a stream holds; cases that have no round yet are left out."""
    header = stream.lines[0]["header"]
    sessions = []
    for line in stream.of("session"):
        number = line["session"]
        after = next((x["load"] for x in stream.of("ended") if x["ended"] == number), None)
        sessions.append(
            {
                "started": line["started"],
                "falcon": line["falcon"],
                "load": {"before": line["load"], "after": after},
                "self_check": line["self_check"],
            }
        )
    peers = [{**x["found"], "tried": x["tried"]} for x in stream.of("identity")]
    known = {x["peer"]: x for x in peers}
    cases = []
    for key, label in zip(header["cases"], header["labels"], strict=True):
        case = _case(stream, key, label, known)
        if case is not None:
            cases.append(case)
    found: dict[str, Any] = {
        "format": FORMAT,
        "machine": header["machine"],
        "threads": header["threads"],
        "peers": peers,
        "sessions": sessions,
        "cases": cases,
    }
    tasks = stream.of("task")
    for kind in ("stages", "errors", "crossover", "peak"):
        found[kind] = [entry for x in tasks if x["kind"] == kind for entry in x["found"]]
    found["peak"] = found["peak"][0] if found["peak"] else None
    return found


def _case(
    stream: Stream, key: str, label: str, known: dict[str, dict[str, Any]]
) -> dict[str, Any] | None:
    rounds = [x for x in stream.of("round") if x["round"] == key]
    prepared = [x for x in stream.of("prepared") if x["prepared"] == key]
    if not rounds:
        return None
    workload, sizes, dtype = key.rsplit(" ", 2)
    case = Case(workload, replace(parse_shape(sizes), label=label), dtype)
    # The last preparation that a round followed: figures of one and the same process.
    last = [x for x in prepared if x["in"] == rounds[-1]["in"]][-1]["sides"]
    about = {}
    for name, first in last.items():
        if "failed" not in first:
            identity = known[name]
            about[name] = {
                "library": identity["library"],
                "version": identity["version"],
                "kernel": identity["kernels"].get(dtype, "?"),
                "threads": identity["threads"],
                "error": first["error"],
                "extra_bytes": first["extra_bytes"],
                "plan": first.get("plan"),
            }
    done = [x for x in stream.of("done") if x["done"] == key]
    return case_entry(
        case,
        [x for x in records_of([x["seconds"] for x in rounds]) if x.name in about],
        about,
        sessions=sorted({x["in"] for x in rounds}),
        load={"before": prepared[0]["load"], "after": done[-1]["load"] if done else None},
        failed={name: x["failed"] for name, x in last.items() if "failed" in x},
    )


def estimate_of(entry: dict[str, Any]) -> Estimate:
    """Return a ratio of the file."""
    return Estimate(*(entry[name] for name in ("median", "low", "high", "count")))
