"""The pictures of a report, one function each, drawn with matplotlib from a record file.

A function returns None if the file has no data for it. To add one: a line in `FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from falcon.bench.records import FALCON, estimate_of
from falcon.bench.tables import side_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, the same for all pictures, so that a page shows their text in one size.
_WIDTH = 12.0
# Of sides in the order of the file: Okabe and Ito's colours, which all kinds of colour vision tell
# apart, then others; with markers that differ.
_STYLES = (
    ("#d55e00", "o"), ("#e69f00", "s"), ("#0072b2", "^"), ("#56b4e9", "v"), ("#009e73", "D"),
    ("#cc79a7", "P"), ("#4d4d4d", "X"), ("#8c510a", "<"), ("#5e3c99", ">"), ("#b2182b", "h"),
    ("#01665e", "*"),
)  # fmt: skip
_SETTINGS: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.numpoints": 1,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "falcon",  # the same file gives the same picture
}


@contextmanager
def style() -> Iterator[None]:
    """Draw without a screen, in falcon's style."""
    import matplotlib as mpl

    mpl.use("Agg")
    with mpl.rc_context(_SETTINGS):
        yield


def _looks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return colour and marker of each side, falcon first."""
    styles = zip(side_names(document["cases"]), cycle(_STYLES), strict=False)
    return {name: {"color": colour, "marker": marker} for name, (colour, marker) in styles}


def columns(groups: list[str], height: float) -> tuple[Figure, list[Axes]]:
    """Return a panel per group, side by side."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(groups), figsize=(_WIDTH, height), squeeze=False)
    return figure, list(axes[0])


def legend(figure: Figure, more: Iterable[tuple[Any, str]] = ()) -> None:
    """Put one legend of all panels below them."""
    shown: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    shown |= {label: handle for handle, label in more}
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=4)


def dtypes_of(items: list[dict[str, Any]]) -> list[str]:
    """Return the dtypes of some entries, each once."""
    return list(dict.fromkeys(x["dtype"] for x in items))


def _label(x: dict[str, Any]) -> str:
    square = x["M"] == x["N"] == x["K"]
    sizes = f"{x['M']}³" if square else f"{x['M']} × {x['N']} × {x['K']}"
    return f"{x['label']}  {sizes}" if x.get("label") else sizes


def rates(document: dict[str, Any]) -> Figure | None:
    """Effective GFLOP/s against the size of squares, with the measured peak."""
    squares = [x for x in document["cases"] if x["M"] == x["N"] == x["K"]]
    dtypes = [d for d in dtypes_of(squares) if sum(x["dtype"] == d for x in squares) > 1]
    if not dtypes:
        return None
    figure, axes = columns(dtypes, 4.8)
    looks = _looks(document)
    for axis, dtype in zip(axes, dtypes, strict=True):
        cases = sorted((x for x in squares if x["dtype"] == dtype), key=lambda x: x["M"])
        for name, look in looks.items():
            points = [(x["M"], x["sides"][name]["gflops"]) for x in cases if name in x["sides"]]
            if points:
                own = name == FALCON
                axis.plot(*zip(*points, strict=True), label=name, linewidth=2.6 if own else 1.3,
                          markersize=7 if own else 5, zorder=4 if own else 3, **look)  # fmt: skip
        peaks = (document["peak"] or {"gflops": ()})["gflops"]  # of each instruction set
        if of_dtype := [x["gflops"] for x in peaks if x["dtype"] == dtype]:
            axis.axhline(max(of_dtype), color="black", linestyle="--", linewidth=1.2,
                         label="measured peak")  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_xticks([x["M"] for x in cases], [x["M"] for x in cases])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set(title=dtype, xlabel="M = N = K")
    axes[0].set_ylabel("effective GFLOP/s (2MNK / time)")
    legend(figure)
    return figure


def speedups(document: dict[str, Any]) -> Figure | None:
    """Falcon's speed-up over each other side, a panel per dtype and a line per shape."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    cases = document["cases"]
    looks = _looks(document)
    looks.pop(FALCON, None)
    if not looks:
        return None
    groups = {d: [x for x in cases if x["dtype"] == d] for d in dtypes_of(cases)}
    figure, grid = plt.subplots(
        len(groups), 1, figsize=(_WIDTH, 1.2 + 0.5 * len(cases) + 0.6 * len(groups)), sharex=True,
        squeeze=False, height_ratios=[len(x) + 0.6 for x in groups.values()],
    )  # fmt: skip
    for axis, (dtype, part) in zip(grid[:, 0], groups.items(), strict=True):
        for y in range(1, len(part), 2):
            axis.axhspan(y - 0.5, y + 0.5, color="#f4f4f4", zorder=0)
        axis.set_yticks(range(len(part)), [_label(x) for x in part])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(dtype)
        for i, (name, look) in enumerate(looks.items()):
            shift = (i - (len(looks) - 1) / 2) * 0.72 / len(looks)
            points = [(y + shift, estimate_of(x["speedups"][name]))
                      for y, x in enumerate(part) if name in x["speedups"]]  # fmt: skip
            for known, colour in ((True, look["color"]), (False, "white")):
                some = [x for x in points if x[1].known == known]
                ends = [(x.median - x.low, x.high - x.median) for _, x in some]
                axis.errorbar([x.median for _, x in some], [y for y, _ in some], linestyle="none",
                              xerr=np.reshape(ends, (-1, 2)).T, markersize=5.5,
                              markerfacecolor=colour, **look)  # fmt: skip
        axis.axvline(1, color="black", linewidth=1)
    grid[-1, 0].set_xlabel("speed-up of falcon (right of 1: falcon is faster)")
    legend(figure, [(Line2D([], [], linestyle="none", **x), name) for name, x in looks.items()])
    return figure


# File name, title, what it shows and how to read it, how it is drawn.
FIGURES: tuple[tuple[str, str, str, Callable[[dict[str, Any]], Figure | None]], ...] = (
    ("rates", "Speed against size",
     "Effective GFLOP/s means 2MNK divided by the time, however many operations the algorithm "
     "really does; an LCMA may exceed the peak of classical products: the rate of the micro-kernel "
     "alone, on panels in L1 (in older records: of multiply-adds on registers).",
     rates),
    ("speedups", "Speed-up over each library",
     "Median of the ratio of times, pair by pair, with its 95 % confidence interval; hollow: not "
     "known to 2 %.", speedups),
)  # fmt: skip
