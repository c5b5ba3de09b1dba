"""Text output of record files: tables, verdicts, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from falcon._core.text import format_table
from falcon._core.timing import LEAST_PAIRS, Estimate, Record, geometric_mean

from .records import FALCON, PACKED, estimate_of
from .system import BUSY

INTERVAL = "± distance to the farther end of its 95 % confidence interval; * not known to 2 %"
# The table has the rates of all sides if there are at most this many besides falcon.
_MOST_RATED = 4


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason not to trust a record file; `severe`: a wrong result, or all of the file."""

    text: str
    severe: bool


def doubts(found: dict[str, Any]) -> list[Doubt]:
    """Return the reasons not to trust a record file."""
    said = []
    if found["machine"].get("numpy_held"):
        said.append(Doubt(found["machine"]["numpy_held"], False))
    for x in found["cases"]:
        for name, side in x["sides"].items():
            if not side["correct"]:
                text = f"WRONG RESULT: {name} on {x['key']}, relative error {side['error']:.1e}"
                said.append(Doubt(text, True))
        for name, reason in x["failed"].items():
            said.append(Doubt(f"{name} failed on {x['key']}: {reason}", True))
    for i, session in enumerate(found["sessions"], 1):
        check = session["self_check"]
        if check and not check["passed"]:
            text = (
                f"session {i}: NumPy against itself came out at {check['median']:.3f}, not within "
                "2 % of 1.00: this machine is too noisy for figures to be trusted"
            )
            said.append(Doubt(text, True))
    busy = [x["key"] for x in found["cases"] if x["load"] and _is_busy(x["load"]["before"])]
    if busy:
        text = (
            f"other processes took more than {100 * BUSY:.0f} % of the processors before "
            f"{len(busy)} of {len(found['cases'])} cases: {_some(busy)}"
        )
        said.append(Doubt(text, False))
    estimates = [
        (f"{x['label']} {x['key']}".strip(), *y)
        for x in found["cases"]
        for y in x["speedups"].items()
    ]
    unknown = [
        f"{key} ({name} to {100 * estimate['uncertainty']:.1f} %)"
        for key, name, estimate in estimates
        if not estimate["known"]
    ]
    if unknown:
        text = (
            f"{len(unknown)} of {len(estimates)} ratios not known to 2 %, or from fewer than "
            f"{LEAST_PAIRS} pairs: {_some(unknown)}; repeat when the machine is quiet, or with a "
            "larger --case-seconds"
        )
        said.append(Doubt(text, False))
    return said


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if names[3:] else "")


def _is_busy(load: dict[str, Any]) -> bool:
    """Whether other work took more of the processors than `BUSY`."""
    return (load["busy"] or 0) + (load["stolen"] or 0) > BUSY


def side_names(cases: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of the sides of some cases, falcon first."""
    return list(dict.fromkeys(name for x in cases for name in x["sides"]))


def choice(case: dict[str, Any], side: str = FALCON) -> str:
    """Return what falcon chose: scheme and backend."""
    plan = case["sides"].get(side, {}).get("plan") or {"scheme": "?", "backend": "?"}
    return f"{plan['scheme']} ({plan['backend']})"


# Relative half width of a mean's interval beyond which no side is called the fastest.
_NO_VERDICT = 0.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the cases of one workload and dtype."""

    group: str
    cases: int
    # Per side that all cases have: geometric mean of falcon's speed-ups over it, and the relative
    # half width of the mean's interval.
    means: dict[str, tuple[float, float]]
    held: str = ""  # whether NumPy was held to older kernels, in words

    def winner(self) -> str:
        """Return in a few words which side is the fastest."""
        name, (mean, uncertainty) = min(self.means.items(), key=lambda x: x[1][0])
        if uncertainty > _NO_VERDICT:
            return "not known: too few pairs or too much noise"
        if abs(mean - 1) <= uncertainty * mean:
            return f"falcon and {name}, equal within the uncertainty"
        if mean > 1:
            best = "numpy (best kernels)" in self.means
            note = f" ({self.held})" if self.held and not best else ""
            return f"falcon, {mean:.3f} times as fast as {name}{note}"
        return f"{name}, {1 / mean:.3f} times as fast as falcon"


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Return a verdict per workload and dtype, without falcon's own classical path."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for x in found["cases"]:
        groups.setdefault(f"{x['workload']}, {x['dtype']}", []).append(x)
    judged = []
    for group, cases in groups.items():
        means = {
            name: geometric_mean(estimate_of(x["speedups"][name]) for x in cases)
            for name in cases[0]["speedups"]
            if not name.startswith(FALCON) and all(name in x["speedups"] for x in cases)
        }
        if means:
            held = found["machine"].get("numpy_held", "")
            judged.append(Verdict(group, len(cases), means, held))
    return judged


def format_cases(cases: Sequence[dict[str, Any]], *, first: str = FALCON) -> str:
    """Return the table of some cases, with geometric means.

    `first`: the side whose rate and whose speed-ups over the others are printed.
    """
    sides = side_names(cases)
    others = [name for name in sides if name != first]
    rated = [first, *others] if len(others) <= _MOST_RATED else [first]
    versus = [f"vs {name}" for name in others]
    head = ("workload", "M x N x K", "dtype", "falcon chose", *rated, *versus, "RMS error",
            "others'", "MiB", "pairs", "")  # fmt: skip
    rows: list[tuple[str, ...]] = [head]
    estimates: dict[str, list[Estimate]] = {name: [] for name in others}
    for x in cases:
        measured = {k: Record(k, tuple(side["seconds"])) for k, side in x["sides"].items()}
        ratios = []
        for name in others:
            if name in measured and first in measured:
                estimates[name].append(measured[first].over(measured[name]))
                ratios.append(str(estimates[name][-1]))
            else:
                ratios.append("-")
        mine = x["sides"].get(first, {"error": np.nan, "plan": None})
        rates = (f"{x['sides'][k]['gflops']:.1f}" if k in x["sides"] else "-" for k in rated)
        errors = [x["sides"][name]["error"] for name in others if name in x["sides"]]
        rows.append(
            (
                x["label"] or x["workload"],
                f"{x['M']} x {x['N']} x {x['K']}",
                x["dtype"],
                choice(x, first if first in (FALCON, PACKED) else FALCON),
                *rates,
                *ratios,
                f"{mine['error']:.1e}",
                f"{min(errors, default=np.nan):.1e}",
                f"{mine['plan']['workspace'] / 2**20:.0f}" if mine["plan"] else "-",
                str(x["rounds"]),
                "",
            )
        )
    means = ["-"] * len(others)
    for i, name in enumerate(others):
        if estimates[name]:
            mean, uncertainty = geometric_mean(estimates[name])
            means[i] = f"{mean:.3f} ±{mean * uncertainty:.3f}"
    rows.append(("geometric mean", "", "", "", *("" for _ in rated), *means, *[""] * 5))
    note = (
        f"{', '.join(rated)}: effective GFLOP/s (2MNK/time), median; vs X: median of X's time over "
        f"that of {first},\npair by pair, {INTERVAL};\n"
        "others': smallest error of the other sides; MiB: planned workspace"
    )
    return f"{format_table(rows, left=4)}\n{note}"


def format_sides(case: dict[str, Any]) -> str:
    """Return the table of a case's sides: rates, over the best library's, and errors."""
    sides = case["sides"]
    records = {name: Record(name, tuple(x["seconds"])) for name, x in sides.items()}
    libraries = [x for name, x in records.items() if not name.startswith(FALCON)]
    best = min(libraries, key=lambda x: x.median, default=None)
    classical = sides.get(f"{FALCON} classical", {}).get("error")
    rows = [
        ("side", "GFLOP/s", f"over {best.name if best else '-'}", "RMS error", "of classical's")
    ]
    for name, x in sides.items():
        over = str(records[name].over(best)) if best else "-"
        share = f"{x['error'] / classical:.2f}" if classical else "-"
        rows.append((name, f"{x['gflops']:.0f}", over, f"{x['error']:.1e}", share))
    return format_table(rows)


def format_peers(found: Sequence[dict[str, Any]]) -> str:
    """Return the table of peers, and a line of those that are absent with how to install them."""
    rows = [("peer", "library", "version", "threads", "kernels")]
    absent = "; ".join(f"{x['peer']} ({x['absent']})" for x in found if x["absent"])
    for x in found:
        if not x["absent"]:
            kernels = f"{by_dtype(x['kernels'])}  {format_settings(x['environment'])}".rstrip()
            rows.append((x["peer"], x["library"], x["version"], str(x["threads"] or "?"), kernels))
    return format_table(rows, left=3) + (f"\nabsent: {absent}" if absent else "")


def format_settings(environment: dict[str, dict[str, str]]) -> str:
    """Return the variables that were set."""
    return by_dtype({k: " ".join(f"{x}={y}" for x, y in v.items()) for k, v in environment.items()})


def by_dtype(words: dict[str, str]) -> str:
    """Return what is known per type, only once if it is the same for every one."""
    if len(set(words.values())) <= 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{dtype}: {word}" for dtype, word in words.items())
