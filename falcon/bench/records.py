"""The record file: its entries, made from what was measured, and how it is read.

Its format is described by ``data/results.schema.json`` and in ``docs/benchmarks/format.md``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from falcon._core.options import thread_count
from falcon._core.timing import Estimate, Record
from falcon._front.info import numpy_blas

from .errors import wrong_beyond
from .system import describe_falcon, describe_machine
from .workloads import Case

FORMAT = "falcon-bench/2"
# The side that all others are compared with.
FALCON = "falcon"
PACKED = "falcon packed"  # with B packed beforehand
# What falcon measured of itself in earlier files; `studies/crossover.py` fills its list.
KINDS = ("stages", "errors", "crossover")


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of the record file."""
    file = resources.files(__package__) / "data" / "results.schema.json"
    return json.loads(file.read_text(encoding="utf-8"))


def read(path: str | Path) -> dict[str, Any]:
    """Read a record file.

    Raises ValueError: it is no record file, or of another format.
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

    `measured`: falcon first, whose speed-ups over the others are computed; without it there are
    none.
    `about`: further facts of each side: its error, and what differs from `_UNKNOWN`.
    `more`: entries that replace those of a case in one session without failures and load.
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
        "speedups": {x.name: first.over(x).document() for x in others if first.name == FALCON},
        **more,
    }


_UNKNOWN = {"library": "", "version": "", "kernel": "?", "threads": None, "extra_bytes": None,
            "plan": None}  # fmt: skip


def plan_entry(plan: Any) -> dict[str, Any]:
    """Return the entry of falcon's plan."""
    return {"backend": plan.backend.name, "scheme": plan.label,
            "workspace": plan.workspace, "growth": plan.growth}  # fmt: skip


def empty(machine: dict[str, Any], threads: int) -> dict[str, Any]:
    """Return a record file in which nothing has been measured yet."""
    lists: dict[str, Any] = {x: [] for x in ("peers", "sessions", "cases", *KINDS)}
    return {"format": FORMAT, "machine": machine, "threads": threads, **lists, "peak": None}


def session(load: dict[str, Any] | None, self_check: dict[str, Any] | None) -> dict[str, Any]:
    """Return a session that begins now."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"started": now, "falcon": describe_falcon(), "load": load, "self_check": self_check}


def here(cases: list[dict[str, Any]], threads: int | None) -> dict[str, Any]:
    """Return the record file of cases that were measured in this process."""
    machine = {**describe_machine(), "numpy_blas": numpy_blas()}
    found = empty(machine, thread_count(threads))
    return {**found, "sessions": [session(None, None)], "cases": cases}


def estimate_of(entry: dict[str, Any]) -> Estimate:
    """Return the `Estimate` of a ratio in the file."""
    return Estimate(*(entry[name] for name in ("median", "low", "high", "count")))
