"""The record file: its entries, made from what was measured, and how it is read.

Its format is described by ``data/results.schema.json`` and in ``docs/benchmarks/format.md``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.ladder import coarser
from falcon._tools.files import read_file
from falcon._tools.timing import Estimate, Record

from .errors import wrong_beyond
from .system import describe_falcon
from .workloads import Case, data

FORMAT = "falcon-bench/3"
# The side that all others are compared with.
FALCON = "falcon"
PACKED = "falcon packed"  # with B packed beforehand
CLASSICAL = "falcon classical"
NUMPY = "numpy"


def schema() -> dict[str, Any]:
    """Return the JSON schema of the record file."""
    return data("results.schema")


def read(path: str | Path) -> dict[str, Any]:
    """Read a record file.

    Raises ValueError: it is no record file, or of another format.
    """
    try:
        document = json.loads(read_file(Path(path)))
    except ValueError:
        raise ValueError(f"{path} is not JSON, or too large") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is not a record file of format {FORMAT!r}")
    return document


# --- making one ----------------------------------------------------------------------------------

# Fields of a side that nothing is known of.
UNKNOWN: dict[str, Any] = {"library": "", "version": "", "kernel": "?", "threads": None,
                           "extra_bytes": None, "plan": None, "facts": {}}  # fmt: skip


def case_entry(
    case: Case,
    measured: Sequence[Record],
    about: dict[str, dict[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """Return a case as the file holds it.

    `measured`: falcon first, whose speed-ups over the others are computed; without it there are
    none.
    `about`: the fields of each side that differ from `UNKNOWN`, and `error`; without one,
    `correct`.
    `more`: the case's sessions, note, and sides that failed.
    """
    sides = {}
    for record in measured:
        side = {**UNKNOWN, **about[record.name]}
        growth = side["plan"]["growth"] if side["plan"] else 1.0
        if side["error"] is not None:
            side["correct"] = side["error"] <= wrong_beyond(case.dtype, case.shape.K, growth)
            side["error"] = float(f"{side['error']:.4g}")
        sides[record.name] = {
            **side,
            "seconds": list(record.seconds),
            "median": record.median,
            "gflops": round(case.shape.flops / record.median / 1e9, 2),
        }
    first, *others = measured
    return {
        "key": case.key,
        "workload": case.workload,
        "label": case.shape.label,
        "M": case.shape.M,
        "N": case.shape.N,
        "K": case.shape.K,
        "dtype": case.dtype,
        "rounds": len(first.seconds),
        "sides": sides,
        "speedups": {x.name: first.over(x).document() for x in others if first.name == FALCON},
        "disturbed": first.disturbed,
        **more,
    }


def plan_entry(plan: Any) -> dict[str, Any]:
    """Return the entry of falcon's plan; growth counts from sums in the operands' own type."""
    growth = plan.growth * coarser(plan)
    return {"backend": plan.backend.name, "scheme": plan.label,
            "workspace": plan.workspace, "growth": growth}  # fmt: skip


def panel_bytes(right: Any) -> int | None:
    """Return the bytes of B's panels; None if it is not packed."""
    return right.nbytes if isinstance(right, falcon.PackedOperand) else None


def empty(machine: dict[str, Any], threads: int) -> dict[str, Any]:
    """Return a record file in which nothing has been measured yet."""
    # `studies/crossover.py` fills the last list.
    lists: dict[str, Any] = {x: [] for x in ("peers", "sessions", "cases", "crossover")}
    return {"format": FORMAT, "machine": machine, "threads": threads, **lists, "peak": None}


def session() -> dict[str, Any]:
    """Return a session that begins now."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"started": now, "falcon": describe_falcon()}


def ratio(case: dict[str, Any], one: str, other: str) -> Estimate | None:
    """Return the speed of a side of the file over that of another; None: one is not in the case."""
    sides = case["sides"]
    if one not in sides or other not in sides:
        return None
    disturbed = case.get("disturbed", "")
    first, second = (Record(x, tuple(sides[x]["seconds"]), disturbed) for x in (one, other))
    return first.over(second)


def packed_memory(cases: Sequence[dict[str, Any]]) -> float:
    """Return the memory of packed weights, relative to that of the weights."""
    taken = sum(x["sides"][PACKED]["extra_bytes"] for x in cases)
    return taken / sum(x["K"] * x["N"] * dtype_of(x["dtype"]).itemsize for x in cases)


def estimate_of(entry: dict[str, Any], disturbed: str = "") -> Estimate:
    """Return the `Estimate` of a ratio in the file; `disturbed`: what its case says."""
    median, low, high, count = (entry[x] for x in ("median", "low", "high", "count"))
    return Estimate(median, low, high, count, disturbed)
