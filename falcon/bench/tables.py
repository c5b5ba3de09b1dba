"""Text output of record files: tables, verdicts, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from falcon._core.dtypes import dtype_of
from falcon._tools.text import format_table
from falcon._tools.timing import CLEAR, EQUAL, LEAST_PAIRS, Estimate, geometric_mean

from .records import CLASSICAL, FALCON, estimate_of, ratio

INTERVAL = "± distance to the farther end of its 95 % confidence interval"
NO_INTERVAL = (
    f"?: fewer than {LEAST_PAIRS} pairs, or disturbed;\na mean is that of the ratios that are "
    "decided, if three quarters of them are"
)
# The part of some ratios that must be decided for a mean: the others are rather close to 1.
_MOST = 0.75


def doubts(document: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return what is wrong with a record file, and what else is a reason not to trust it."""
    held = document["machine"].get("numpy_held")
    wrong, others = [], [held] if held else []
    ratios, open_ones, disturbed = 0, [], []
    threads: dict[str, None] = {}  # sides that had another number of them
    for x in document["cases"]:
        by_blas = dtype_of(x["dtype"]).has_blas  # NumPy's loops for other types have one thread
        for name, side in x["sides"].items():
            if by_blas and side["threads"] not in (None, document["threads"]):
                threads[f"{name} {side['threads']}"] = None
            if not side["correct"]:
                what = f"WRONG RESULT: {name} on {x['key']}"
                wrong.append(f"{what}, relative error {side['error']}")
        wrong += [f"{name} failed on {x['key']}: {why}" for name, why in x["failed"].items()]
        key = f"{x['label']} {x['key']}".strip()
        if why := x.get("disturbed"):
            disturbed.append(f"{key}: {why}")
        for name, y in x["speedups"].items():
            ratios += 1
            found = estimate_of(y, x.get("disturbed", ""))
            if found.verdict == "undecided" and not found.disturbed:
                open_ones.append(f"{key} ({name}, {interval(found)})")
    if threads:
        others.append(f"not all sides had {document['threads']} threads: {', '.join(threads)}")
    if disturbed:
        others.append(
            f"other programs disturbed {len(disturbed)} of {len(document['cases'])} products, "
            f"whose ratios within {CLEAR:g} are undecided: {_some(disturbed, '; ')}; measure them "
            "again when the machine is quiet"
        )
    if open_ones:
        varies = max((x.get("varies", 1.0) for x in document["sessions"]), default=1.0)
        said = (
            f"; equal products took up to {varies:.1f} times as long here" if varies > 1.1 else ""
        )
        others.append(
            f"{len(open_ones)} of {ratios} ratios are undecided, or from fewer than "
            f"{LEAST_PAIRS} pairs: {_some(open_ones, ', ')}"
            f"{said}; a larger --case-seconds decides more"
        )
    return wrong, others


def _some(words: list[str], between: str) -> str:
    return between.join(words[:3]) + (" ..." if words[3:] else "")


def interval(found: Estimate) -> str:
    """Return the interval of a ratio in words."""
    if found.count < 2:
        return "one pair"
    return f"{found.low:.2f} to {found.high:.2f}"


def side_names(cases: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of the sides of some cases, falcon first."""
    return list(dict.fromkeys(name for x in cases for name in x["sides"]))


def verdicts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return each workload and dtype, and which side is the fastest.

    Falcon's other sides do not count, nor those that some of the cases lack.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for x in document["cases"]:
        groups.setdefault(f"{x['workload']}, {x['dtype']}", []).append(x)
    judged = []
    for group, cases in groups.items():
        over = {
            name: [estimate_of(x["speedups"][name], x.get("disturbed", "")) for x in cases]
            for name in cases[0]["speedups"]
            if not name.startswith(FALCON) and all(name in x["speedups"] for x in cases)
        }
        if over:
            judged.append((group, _fastest(over, document["machine"].get("numpy_held", ""))))
    return judged


def mean_of(found: Sequence[Estimate]) -> tuple[Estimate | None, str]:
    """Return a ratio, or the mean of those that are decided, if most are (`_MOST`); None: no mean.

    Returns also of how many it is, or why there is none.
    """
    verdicts, count = Counter(x.verdict for x in found), len(found)
    decided = count - verdicts["undecided"]
    if not any(x.count >= LEAST_PAIRS for x in found):
        return None, f"no product has {LEAST_PAIRS} pairs"
    if count == 1:
        return None if found[0].doubt else found[0], found[0].doubt
    if decided < _MOST * count:
        return None, ", ".join(f"{x} {verdict}" for verdict, x in verdicts.most_common())
    return geometric_mean(found), f" ({decided} of {count} products)" if decided < count else ""


def _fastest(over: dict[str, list[Estimate]], held: str) -> str:
    """Return in a few words which side is the fastest.

    `over`: falcon's speed-ups over each side; `held`: whether NumPy was held to older kernels, in
    words.
    """
    means = {name: mean_of(found) for name, found in over.items()}
    known = [(mean.median, name, mean, some) for name, (mean, some) in means.items() if mean]
    if len(known) < len(means):  # the fastest may be one without a mean
        return f"undecided: {next(why for mean, why in means.values() if not mean)}"
    _, name, mean, some = min(known)
    if mean.verdict == "undecided":
        return f"undecided: falcon at {interval(mean)} of the speed of {name}{some}"
    if mean.verdict == "as fast":
        return f"falcon and {name}, within {100 * (EQUAL - 1):.0f} %{some}"
    if mean.verdict == "faster":
        note = f" ({held})" if held and "numpy (best kernels)" not in means else ""
        return f"falcon, {mean.median:.3f} times as fast as {name}{note}{some}"
    return f"{name}, {1 / mean.median:.3f} times as fast as falcon{some}"


def describe_machine(document: dict[str, Any]) -> str:
    """Return in a line the machine of a record file, and NumPy's kernels there."""
    machine = document["machine"]
    if "gpu" in machine:
        return ", ".join(" ".join(x) for x in machine["gpu"].items())
    line = f"{machine['cpu']}, {document['threads']} threads"
    if "numpy_blas" in machine:
        line += f"; numpy {machine['numpy']} with {machine['numpy_blas']}"
    return line


def text(document: dict[str, Any]) -> str:
    """Return all that a record file says."""
    parts = [describe_machine(document)]
    if document["peers"]:
        parts.append(format_peers(document["peers"]))
    if document["cases"]:
        parts.append(format_cases(document["cases"]))
    parts.append("\n".join(f"fastest, {group}: {won}" for group, won in verdicts(document)))
    return "\n\n".join(filter(None, parts))


def format_cases(cases: Sequence[dict[str, Any]]) -> str:
    """Return the table of some cases, a row per side, with geometric means of all cases."""
    libraries = [_fastest_library(x) for x in cases]
    best = libraries[0] if len(set(libraries)) == 1 else "the fastest library"
    titles = list(
        dict.fromkeys(name for x in cases for y in x["sides"].values() for name in y["facts"])
    )
    # Rows of the table, and lines between them.
    rows: list[tuple[str, ...] | str] = [
        ("", "ms", "GFLOP/s", "falcon over it", f"it over {best or '-'}", "RMS error",
         "of classical's", "MiB planned", "MiB taken", *titles, "chosen")
    ]  # fmt: skip
    over: dict[str, tuple[list[Estimate], list[Estimate]]] = {}
    note = ""
    for x, library in zip(cases, libraries, strict=True):
        if x["note"] != note:
            note = x["note"]
            rows.append(f"\n{note}")
        size = f"{x['M']} x {x['N']} x {x['K']} {x['dtype']}"
        rows.append(f"{x['label'] or x['workload']}, {size}, {x['rounds']} pairs")
        classical = x["sides"].get(CLASSICAL, {}).get("error")
        for name, y in x["sides"].items():
            ratios = []
            for at, (one, other) in enumerate(((FALCON, name), (name, library))):
                found = None if one == other else ratio(x, one, other)
                if found is not None:
                    over.setdefault(name, ([], []))[at].append(found)
                ratios.append(ratio_cell([found] if found else []))
            facts = (y["facts"].get(title, "") for title in titles)
            rows.append((
                f"  {name}", f"{1e3 * y['median']:.4g}", f"{y['gflops']:.1f}", *ratios,
                "" if y["error"] is None else f"{y['error']:.1e}",
                f"{y['error'] / classical:.2f}" if classical and y["error"] is not None else "",
                _mib(y["plan"] and y["plan"]["workspace"]),
                _mib(y["extra_bytes"]),
                *(z if isinstance(z, str) else f"{z:.4g}" for z in facts),
                f"{y['plan']['scheme']} ({y['plan']['backend']})" if y["plan"] else "",
            ))  # fmt: skip
        rows += [f"  {name} failed: {why}" for name, why in x["failed"].items()]
    if len(cases) > 1 and len({x["workload"] for x in cases}) == 1:
        rows.append("geometric mean")
        for name, both in over.items():
            means = map(ratio_cell, both)
            rows.append((f"  {name}", "", "", *means, *[""] * (len(rows[0]) - 5)))
    cells = [x for x in rows if isinstance(x, tuple)]
    used = [i for i in range(len(cells[0])) if i == 0 or any(x[i] for x in cells[1:])]
    table = iter(format_table([[x[i] for i in used] for x in cells]).splitlines())
    lines = [x if isinstance(x, str) else next(table) for x in rows]
    note = (
        "GFLOP/s: effective (2MNK/time), median; falcon over it, it over a library: median ratio "
        f"of speeds, pair by pair,\n{INTERVAL}; {NO_INTERVAL};\n"
        "MiB: workspace, and memory beyond A, B and C"
    )
    return "\n".join([*lines, note])


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.0f}"


def ratio_cell(found: list[Estimate]) -> str:
    """Return a ratio in a table's cell, or the mean of several (`mean_of`)."""
    if len(found) == 1:
        return str(found[0]) if found[0].is_judged else f"{found[0].median:.3f} ±?"
    return str(mean_of(found)[0] or "")


def _fastest_library(case: dict[str, Any]) -> str:
    """Return the name of the fastest side that is not falcon's; empty if there is none."""
    medians = {k: x["median"] for k, x in case["sides"].items() if not k.startswith(FALCON)}
    return min(medians, key=lambda x: medians[x], default="")


def format_peers(peers: Sequence[dict[str, Any]]) -> str:
    """Return the table of peers, and a line for each that is absent with how to install it."""
    rows = [("peer", "library", "version", "threads", "kernels")]
    absent = (f"\nabsent: {x['absent']}" for x in peers if x["absent"])
    for x in peers:
        if not x["absent"]:
            threads = str(x["threads"] or "?")
            rows.append((x["peer"], x["library"], x["version"], threads, kernels_of(x)))
    return format_table(rows, left=3) + "".join(absent)


def kernels_of(peer: dict[str, Any]) -> str:
    """Return a peer's kernels, per type if they differ, and the variables that were set."""
    kernels = peer["kernels"]
    if len({*kernels.values()}) > 1:
        told = "; ".join(f"{dtype}: {kernel}" for dtype, kernel in kernels.items())
    else:
        told = next(iter(kernels.values()), "")
    some = [*peer["environment"].values()][:1]  # the same for all types
    return " ".join([told, *(f"{x}={y}" for variables in some for x, y in variables.items())])
