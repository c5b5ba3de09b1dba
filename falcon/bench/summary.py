"""What `bench` prints of falcon beside NumPy: a table of 100 columns, a row per product.

`tables` prints all sides; ``bench -v`` shows both.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from falcon._tools.text import format_table
from falcon._tools.timing import EQUAL, Estimate

from .records import CLASSICAL, FALCON, NUMPY, PACKED, packed_memory, ratio
from .tables import NO_INTERVAL, interval, mean_of, ratio_cell

_WIDTH = 100


def covers(document: dict[str, Any]) -> bool:
    """Whether a record file compares falcon with NumPy alone."""
    names = {name for x in document["cases"] for name in x["sides"]}
    return not document["peers"] and {FALCON, NUMPY} <= names <= {
        FALCON, PACKED, CLASSICAL, NUMPY
    }  # fmt: skip


def format_summary(cases: list[dict[str, Any]]) -> str:
    """Return the table: a row per product, and means of those with as many rows."""
    dtypes = list(dict.fromkeys(x["dtype"] for x in cases))
    rows: list[tuple[str, ...]] = [
            ("", "", "falcon", "NumPy", "falcon", "packed", "error", ""),
            (", ".join(dtypes), "MxNxK", "GFLOP/s", "GFLOP/s", "/ NumPy", "/ NumPy", "/ NumPy's",
             "chosen")]  # fmt: skip
    failed = []
    for x in cases:
        name = x["label"] or x["workload"]
        if len(dtypes) > 1:
            name += f" {x['dtype']}"
        failed += [f"{name}: {side} failed: {why}" for side, why in x["failed"].items()]
        mine, numpy = (x["sides"].get(side) for side in (FALCON, NUMPY))
        errors = [y["error"] for y in (mine, numpy) if y]
        rows.append((
            name, f"{x['M']}x{x['N']}x{x['K']}",
            *(f"{y['gflops']:.1f}" if y else "" for y in (mine, numpy)),
            *map(ratio_cell, (_over_numpy([x], side) for side in (FALCON, PACKED))),
            _times(errors[0] / errors[1]) if len(errors) == 2 and all(errors) else "",
            mine["plan"]["scheme"] if mine and mine["plan"] else "",
        ))  # fmt: skip
    groups = {f"{count} rows": [x for x in cases if x["M"] == count] for count in _rows(cases)}
    for what, some in {**groups, "all": cases}.items() if len(cases) > 1 else ():
        means = map(ratio_cell, (_over_numpy(some, side) for side in (FALCON, PACKED)))
        rows.append(("mean", what, "", "", *means, "", ""))
    used = [i for i in range(len(rows[0])) if i == 1 or any(y[i] for y in rows[2:])]
    lines = format_table([[y[i] for i in used] for y in rows], left=2).splitlines()
    lines = [x if len(x) <= _WIDTH else f"{x[: _WIDTH - 3].rstrip()}..." for x in lines]
    note = (
        "GFLOP/s: 2MNK / time. / NumPy: median ratio of speeds, pair by pair, and half the width\n"
        f"of its 95 % interval; {NO_INTERVAL}"
    )
    return "\n".join([*lines, *failed, note])


def answer(document: dict[str, Any]) -> str:
    """Return, in one line, how fast falcon is on this machine.

    Before it, by whose rates falcon chose, if not by this machine's, what schemes gain over its own
    kernels, and what packed weights do.
    """
    cases = document["cases"]
    mine, packed = (_over_numpy(cases, side) for side in (FALCON, PACKED))
    what = "layer" if packed else "product"
    what = f"this {what}" if len(cases) == 1 else f"these {what}s"
    held = document["machine"].get("numpy_held")
    line = f"on this machine falcon multiplies {what} {_speed(mine)}{f'; {held}' if held else ''}"
    lines = [line]
    if packed:
        memory = packed_memory([x for x in cases if PACKED in x["sides"]])
        text = f"with weights packed {_speed(packed)}; for {memory:.2f} times their memory"
        lines.insert(0, text)
    plans = (x["sides"].get(FALCON, {}).get("plan") for x in cases)
    schemes = [x for x, y in zip(cases, plans, strict=True) if y and "classical" not in y["scheme"]]
    if own := _over(schemes, FALCON, CLASSICAL):
        lines.insert(0, f"its schemes run {_speed(own, 'the speed of its classical kernels')}")
    if other := document["machine"].get("rates_of"):
        told = f"its choices are by rates of another machine ({other}): this one's are not shipped;"
        lines[:0] = [told, "python -m falcon tune measures them (a minute), for better choices"]
    return "\n".join(lines)


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:.1e}"


def _speed(found: list[Estimate], other: str = "NumPy's speed") -> str:
    """Return the mean of some ratios over another speed in words, with its verdict."""
    mean, some = mean_of(found)
    if mean is None:
        return f"at an undecided speed: {some}"
    verdict = mean.verdict
    if verdict == "as fast":
        verdict = f"as fast, within {100 * (EQUAL - 1):.0f} %"
    return f"at {interval(mean)} times {other}: {verdict}{some}"


def _rows(cases: list[dict[str, Any]]) -> list[int]:
    """Return the numbers of rows that several cases have, if there is more than one number."""
    counts = Counter(x["M"] for x in cases)
    return [x for x, count in counts.items() if count > 1] if len(counts) > 1 else []


def _over_numpy(cases: list[dict[str, Any]], side: str) -> list[Estimate]:
    return _over(cases, side, NUMPY)


def _over(cases: list[dict[str, Any]], side: str, other: str) -> list[Estimate]:
    """Return the speed of a side relative to another, in each case that has both."""
    return [found for x in cases if (found := ratio(x, side, other)) is not None]
