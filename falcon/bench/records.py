"""The record file: made from a stream, checked against its schema, printed, compared.

Its format is described by ``data/results.schema.json`` and in ``docs/benchmarks/format.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib import resources
from math import exp, log
from pathlib import Path
from typing import Any

from falcon._core.text import format_table

from .measure import Spread
from .stream import Stream
from .suite import speedups, wrong_beyond
from .workloads import parse_shape

FORMAT = "falcon-bench/1"


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
    for kind in ("stages", "errors", "crossover"):
        found[kind] = [x["found"] for x in tasks if x["kind"] == kind]
    found["peak"] = next((x["found"] for x in tasks if x["kind"] == "peak"), None)
    return found


def _case(
    stream: Stream, key: str, label: str, known: dict[str, dict[str, Any]]
) -> dict[str, Any] | None:
    rounds = [x for x in stream.of("round") if x["round"] == key]
    prepared = [x for x in stream.of("prepared") if x["prepared"] == key]
    if not rounds:
        return None
    workload, sizes, dtype = key.rsplit(" ", 2)
    shape = parse_shape(sizes)
    flops = 2.0 * shape.M * shape.N * shape.K
    sides, failed = {}, {}
    # The last preparation that a round followed: figures of one and the same process.
    last = [x for x in prepared if x["in"] == rounds[-1]["in"]][-1]
    for name, first in last["sides"].items():
        if "failed" in first:
            failed[name] = first["failed"]
            continue
        seconds = [x["seconds"][name] for x in rounds if name in x["seconds"]]
        spread = Spread.of(seconds)
        identity, plan = known[name], first.get("plan")
        growth = plan["growth"] if plan else 1.0
        sides[name] = {
            "library": identity["library"],
            "version": identity["version"],
            "kernel": identity["kernels"].get(dtype, "?"),
            "threads": identity["threads"],
            "seconds": seconds,
            "median": spread.median,
            "q1": spread.q1,
            "q3": spread.q3,
            "gflops": round(flops / spread.median / 1e9, 2),
            "error": float(f"{first['error']:.4g}"),
            "correct": first["error"] <= wrong_beyond(dtype, shape.K, growth),
            "extra_bytes": first["extra_bytes"],
            "plan": plan,
        }
    ratios = speedups([x["seconds"] for x in rounds])
    done = [x for x in stream.of("done") if x["done"] == key]
    return {
        "key": key,
        "workload": workload,
        "label": label,
        "M": shape.M,
        "N": shape.N,
        "K": shape.K,
        "dtype": dtype,
        "threads": stream.lines[0]["header"]["threads"],
        "rounds": len(rounds),
        "sessions": sorted({x["in"] for x in rounds}),
        "load": {"before": prepared[0]["load"], "after": done[-1]["load"] if done else None},
        "sides": sides,
        "failed": failed,
        "speedups": {
            name: {**asdict(x), "uncertainty": round(x.uncertainty, 5), "stable": x.stable}
            for name, x in ratios.items()
        },
    }


def warnings(found: dict[str, Any]) -> list[str]:
    """Say what speaks against trusting a record file, in sentences."""
    from .system import is_busy

    said = []
    for i, session in enumerate(found["sessions"], 1):
        check = session["self_check"]
        if not check["passed"]:
            said.append(
                f"session {i}: NumPy against itself came out at {check['median']:.3f}, not within "
                "2 % of 1.00: this machine is too noisy for figures to be trusted"
            )
    busy = [x["key"] for x in found["cases"] if is_busy(x["load"]["before"])]
    if busy:
        said.append(
            f"other processes took more than 10 % of the processors before {len(busy)} of "
            f"{len(found['cases'])} cases: {', '.join(busy[:3])}{' ...' if busy[3:] else ''}"
        )
    unstable = [
        f"{x['key']} ({name} to {100 * spread['uncertainty']:.1f} %)"
        for x in found["cases"]
        for name, spread in x["speedups"].items()
        if not spread["stable"]
    ]
    if unstable:
        said.append(f"ratios not known to 2 %, or from under 5 pairs: {', '.join(unstable)}")
    for x in found["cases"]:
        for name, side in x["sides"].items():
            if not side["correct"]:
                said.append(
                    f"WRONG RESULT: {name} on {x['key']}, relative error {side['error']:.1e}"
                )
        for name, reason in x["failed"].items():
            said.append(f"{name} failed on {x['key']}: {reason}")
    return said


def format_cases(found: dict[str, Any]) -> str:
    """Return the table of a record file: falcon's rate, and its speed-up over each other side."""
    cases = found["cases"]
    names = list(dict.fromkeys(name for x in cases for name in x["speedups"]))
    head = ("workload", "M x N x K", "dtype", "falcon chose", "GFLOP/s",
            *(f"vs {name}" for name in names), "pairs", "")  # fmt: skip
    rows = [head]
    for x in cases:
        side = x["sides"].get("falcon", {})
        plan = side.get("plan") or {"scheme": "?", "backend": "?"}
        ratios = []
        for name in names:
            spread = x["speedups"].get(name)
            ratios.append("-" if spread is None else _ratio(spread))
        rows.append(
            (
                x["label"] or x["workload"],
                f"{x['M']} x {x['N']} x {x['K']}",
                x["dtype"],
                f"{plan['scheme']} ({plan['backend']})",
                f"{side.get('gflops', 0):.1f}",
                *ratios,
                str(x["rounds"]),
                "",
            )
        )
    means = []
    for name in names:
        logs = [log(x["speedups"][name]["median"]) for x in cases if name in x["speedups"]]
        means.append(f"{exp(sum(logs) / len(logs)):.3f}")
    rows.append(("geometric mean", "", "", "", "", *means, "", ""))
    note = (
        "GFLOP/s: effective (2MNK/time); vs X: median of X's time over falcon's, pair by pair, "
        "± half its interval of confidence (1.57 IQR/sqrt(pairs)); * not known to 2 %"
    )
    return f"{format_table(rows, left=4)}\n{note}"


def _ratio(spread: dict[str, Any]) -> str:
    mark = "" if spread["stable"] else "*"
    return f"{spread['median']:.3f} ±{spread['uncertainty'] * spread['median']:.3f}{mark}"


def changes(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Tell what changed between two record files beyond the noise of both.

    Compared are the speed-ups over each other side, because they do not depend on how fast the
    machine happened to be, and falcon's time itself. A change counts if it exceeds both intervals
    of confidence together, and 2 %.
    """
    lines = []
    for name in ("cpu", "cpus", "system", "numpy"):
        if old["machine"].get(name) != new["machine"].get(name):
            lines.append(f"{name}: {old['machine'].get(name)} -> {new['machine'].get(name)}")
    versions = [{x["peer"]: (x["version"], x["absent"]) for x in y["peers"]} for y in (old, new)]
    for name in sorted(versions[0].keys() & versions[1].keys()):
        before, after = (x[name][1] or x[name][0] for x in versions)
        if before != after:
            lines.append(f"{name}: {before} -> {after}")
    cases = [{x["key"]: x for x in y["cases"]} for y in (old, new)]
    rows = [("case", "compared with", "old", "new", "change", "noise", "")]
    compared = 0
    for key, case in cases[1].items():
        if key not in cases[0]:
            continue
        for name, before, after in _comparable(cases[0][key], case):
            compared += 1
            change = after.median / before.median - 1
            noise = (before.uncertainty**2 + after.uncertainty**2) ** 0.5
            if abs(change) > max(noise, 0.02):
                word = "faster" if (change > 0) != (name == "seconds") else "slower"
                rows.append((key, name, f"{before.median:.4g}", f"{after.median:.4g}",
                             f"{100 * change:+.1f} %", f"{100 * noise:.1f} %", word))  # fmt: skip
    if len(rows) > 1:
        lines.append(format_table(rows, left=2))
    lines.append(
        f"{len(rows) - 1} of {compared} figures changed beyond the noise and 2 %; 'seconds' are "
        "falcon's own and vary with the machine's speed, the others are speed-ups over that side"
    )
    for i, word in ((0, "old"), (1, "new")):
        only = cases[i].keys() - cases[1 - i].keys()
        if only:
            lines.append(f"only in the {word} file: {', '.join(sorted(only))}")
    return "\n".join(lines)


def _comparable(old: dict[str, Any], new: dict[str, Any]) -> Iterable[tuple[str, Spread, Spread]]:
    for name in new["speedups"]:
        if name in old["speedups"]:
            yield name, _spread(old["speedups"][name]), _spread(new["speedups"][name])
    times = [x["sides"].get("falcon", {}).get("seconds") for x in (old, new)]
    if all(times):
        yield "seconds", Spread.of(times[0]), Spread.of(times[1])


def _spread(found: dict[str, Any]) -> Spread:
    return Spread(*(found[name] for name in ("median", "q1", "q3", "count")))
