"""The pictures of a report, one function each, drawn with matplotlib from a record file.

A function returns None if the file has no data for it. To add one: a line in `FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from falcon._core.dtypes import of
from falcon._core.timing import Estimate

from .records import estimate_of
from .tables import side_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, the same for all pictures, so that a page shows their text in one size.
_WIDTH = 12.0
# Okabe and Ito's colours, which all kinds of colour vision tell apart, with markers that differ.
_STYLES = {
    "falcon": ("#d55e00", "o"),
    "falcon classical": ("#e69f00", "s"),
    "numpy": ("#0072b2", "^"),
    "numpy (best kernels)": ("#56b4e9", "v"),
    "mkl": ("#009e73", "D"),
    "torch": ("#cc79a7", "P"),
    "onednn": ("#4d4d4d", "X"),
}
_OTHERS = (("#8c510a", "<"), ("#5e3c99", ">"), ("#b2182b", "h"), ("#01665e", "*"))
_STAGES = {
    "combine A": "#56b4e9",
    "combine B": "#0072b2",
    "multiply": "#e69f00",
    "combine H": "#009e73",
    "wait": "#999999",
}
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


def _look(name: str, names: list[str]) -> dict[str, Any]:
    unknown = [x for x in names if x not in _STYLES]
    colour, marker = _STYLES.get(name) or _OTHERS[unknown.index(name) % len(_OTHERS)]
    return {"color": colour, "marker": marker}


def _columns(groups: list[str], height: float) -> tuple[Figure, list[Axes]]:
    """Return a panel per group, side by side."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(groups), figsize=(_WIDTH, height), squeeze=False)
    return figure, list(axes[0])


def _by_case(
    cases: list[dict[str, Any]], inches: float
) -> tuple[Figure, list[tuple[Axes, list[dict[str, Any]]]]]:
    """Return a figure and, per dtype, axes with a line per case; the axes share one scale."""
    import matplotlib.pyplot as plt

    groups = {d: [x for x in cases if x["dtype"] == d] for d in _dtypes_of(cases)}
    height = 1.2 + inches * len(cases) + 0.6 * len(groups)
    figure, grid = plt.subplots(
        len(groups), 1, figsize=(_WIDTH, height), sharex=True, squeeze=False,
        height_ratios=[len(x) + 0.6 for x in groups.values()],
    )  # fmt: skip
    for axis, (dtype, part) in zip(grid[:, 0], groups.items(), strict=True):
        for y in range(1, len(part), 2):
            axis.axhspan(y - 0.5, y + 0.5, color="#f4f4f4", zorder=0)
        axis.set_yticks(range(len(part)), [_label(x) for x in part])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(dtype)
    return figure, list(zip(grid[:, 0], groups.values(), strict=True))


def _legend(figure: Figure, more: Iterable[tuple[Any, str]] = (), columns: int = 4) -> None:
    """Put one legend of all panels below them."""
    shown: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    shown |= {label: handle for handle, label in more}
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=columns)


def _dtypes_of(items: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(x["dtype"] for x in items))


def _peak(found: dict[str, Any], dtype: str) -> float | None:
    """Return the measured peak of the fastest instruction set."""
    rates = [x["gflops"] for x in (found["peak"] or {"gflops": ()})["gflops"]
             if x["dtype"] == dtype]  # fmt: skip
    return max(rates, default=None)


def _sizes(axis: Any, sizes: list[int]) -> None:
    """Label a logarithmic axis with the sizes that were measured."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(sizes))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda x, _: f"{x:.0f}")


def _label(x: dict[str, Any]) -> str:
    square = x["M"] == x["N"] == x["K"]
    sizes = f"{x['M']}³" if square else f"{x['M']} × {x['N']} × {x['K']}"
    return f"{x['label']}  {sizes}" if x.get("label") else sizes


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _with_interval(estimate: Estimate) -> str:
    return f"{estimate.median:.2f} ±{estimate.uncertainty * estimate.median:.2f}"


def rates(found: dict[str, Any]) -> Figure | None:
    """Effective GFLOP/s against the size of squares, with the measured peak."""
    squares = [x for x in found["cases"] if x["M"] == x["N"] == x["K"]]
    dtypes = [d for d in _dtypes_of(squares) if sum(x["dtype"] == d for x in squares) > 1]
    if not dtypes:
        return None
    figure, axes = _columns(dtypes, 4.8)
    names = side_names(squares)
    for axis, dtype in zip(axes, dtypes, strict=True):
        cases = sorted((x for x in squares if x["dtype"] == dtype), key=lambda x: x["M"])
        for name in names:
            points = [(x["M"], x["sides"][name]["gflops"]) for x in cases if name in x["sides"]]
            if points:
                own = name == "falcon"
                axis.plot(*zip(*points, strict=True), label=name, linewidth=2.6 if own else 1.3,
                          markersize=7 if own else 5, zorder=4 if own else 3,
                          **_look(name, names))  # fmt: skip
        peak = _peak(found, dtype)
        if peak:
            axis.axhline(peak, color="black", linestyle="--", linewidth=1.2,
                         label="measured multiply-add peak")  # fmt: skip
        axis.set_xscale("log", base=2)
        _sizes(axis.xaxis, [x["M"] for x in cases])
        axis.set_ylim(bottom=0)
        axis.set(title=dtype, xlabel="M = N = K")
    axes[0].set_ylabel("effective GFLOP/s (2MNK / time)")
    _legend(figure)
    return figure


def speedups(found: dict[str, Any]) -> Figure | None:
    """Falcon's speed-up over each other side, per shape, with its interval."""
    names = [name for name in side_names(found["cases"]) if name != "falcon"]
    if not names:
        return None
    step = 0.72 / len(names)
    figure, panels = _by_case(found["cases"], 0.5)
    for axis, part in panels:
        for i, name in enumerate(names):
            points = [(y, estimate_of(x["speedups"][name]))
                      for y, x in enumerate(part) if name in x["speedups"]]  # fmt: skip
            for known in (True, False):
                some = [(y, p) for y, p in points if p.known == known]
                heights = [y + (i - (len(names) - 1) / 2) * step for y, _ in some]
                look = _look(name, names)
                axis.errorbar(
                    [p.median for _, p in some], heights, linestyle="none", markersize=5.5,
                    xerr=np.reshape([(p.median - p.low, p.high - p.median) for _, p in some],
                                    (-1, 2)).T,
                    markerfacecolor=look["color"] if known else "white",
                    label=name if some and known else None, **look,
                )  # fmt: skip
        axis.axvline(1, color="black", linewidth=1)
    panels[-1][0].set_xlabel("speed-up of falcon (right of 1: falcon is faster)")
    _legend(figure, [_marker(name, names) for name in names])
    return figure


def _marker(name: str, names: list[str]) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", **_look(name, names)), name


def crossover(found: dict[str, Any]) -> Figure | None:
    """The best scheme's speed-up over falcon's classical path, over (M = N, K)."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patches import Patch, Rectangle

    cells = found["crossover"]
    dtypes = _dtypes_of(cells)
    if not dtypes:
        return None
    values = [max(y["median"] for y in x["speedups"].values()) for x in cells]
    norm = TwoSlopeNorm(1.0, min(0.7, *values), max(1.3, *values))
    figure, axes = _columns(dtypes, 5.2)
    for axis, dtype in zip(axes, dtypes, strict=True):
        part = [x for x in cells if x["dtype"] == dtype]
        sizes = sorted({x["M"] for x in part})
        inner = sorted({x["K"] for x in part})
        image = np.full((len(inner), len(sizes)), np.nan)
        for x in part:
            column, row = sizes.index(x["M"]), inner.index(x["K"])
            name = max(x["speedups"], key=lambda name: x["speedups"][name]["median"])
            best = estimate_of(x["speedups"][name])
            # A ratio whose interval includes 1 has the colour of 1.
            level = abs(best.median - 1) <= best.uncertainty * best.median
            image[row, column] = 1.0 if level else best.median
            short = {"strassen": "S", "strassen@strassen": "S@S"}.get(name, name)
            dark = abs(float(norm(image[row, column])) - 0.5) > 0.36
            text = _with_interval(best).replace(" ", "\n")
            axis.text(column, row, f"{text}\n{short}", ha="center", va="center", fontsize=8.5,
                      color="white" if dark else "#555555" if level else "black")  # fmt: skip
            if x["chosen"] != "classical":
                axis.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False,
                                         edgecolor="black", linewidth=1.8))  # fmt: skip
        shown = axis.imshow(image, norm=norm, cmap="PuOr_r", origin="lower", aspect="auto")
        axis.set_xticks(range(len(sizes)), map(str, sizes))
        axis.set_yticks(range(len(inner)), map(str, inner))
        axis.grid(visible=False)
        axis.set(title=dtype, xlabel="M = N", ylabel="K")
    bar = figure.colorbar(shown, ax=axes, label="speed-up over falcon's classical path")
    bar.outline.set_visible(False)
    frame = Patch(fill=False, edgecolor="black", linewidth=1.8)
    nothing = Patch(alpha=0)
    _legend(figure, [(frame, "falcon chooses an LCMA by itself"), (nothing, "S: Strassen"),
                     (nothing, "S@S: two levels of it")])  # fmt: skip
    return figure


def stages(found: dict[str, Any]) -> Figure | None:
    """Where the time of a call goes, per shape and scheme, relative to the classical call."""
    items = [x for x in found["stages"] if "stages" in x]
    dtypes = _dtypes_of(items)
    if not dtypes:
        return None
    count = max(sum(x["dtype"] == d for x in items) for d in dtypes)
    figure, axes = _columns(dtypes, 1.6 + 0.3 * count)
    for axis, dtype in zip(axes, dtypes, strict=True):
        groups: dict[str, list[dict[str, Any]]] = {}
        for x in items:
            if x["dtype"] == dtype:
                groups.setdefault(_label(x), []).append(x)
        heights: list[float] = []
        labels: list[str] = []
        longest = 1.0
        for at, (label, group) in enumerate(groups.items()):
            classical = next((x for x in group if x["scheme"] == "classical"), group[0])["total"]
            for x in group:
                y, left = len(heights) + 0.6 * at, 0.0
                # As long as its median ratio to classical says; the stages share that length.
                ratio = 1 / x["speedup"]["median"] if "speedup" in x else x["total"] / classical
                scale = ratio / sum(x["stages"].values())
                for name, colour in _STAGES.items():
                    share = scale * x["stages"].get(name, 0.0)
                    axis.barh(y, share, left=left, height=0.8, color=colour, label=name)
                    left += share
                longest = max(longest, left)
                text = _milliseconds(x["total"])
                if "speedup" in x and x["scheme"] != "classical":
                    text += f", {_with_interval(estimate_of(x['speedup']))} times as fast"
                axis.text(max(left, 1) + 0.01, y, text, va="center", fontsize=8.5)
                heights.append(y)
                labels.append(f"{label}  {x['scheme'].replace('strassen', 'S')}")
        axis.set_yticks(heights, labels, fontsize=9)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.axvline(1, color="black", linewidth=1)
        # Room for the text beside the longest bar.
        room = 1.65 if any("speedup" in x for x in items) else 1.25
        axis.set_xlim(0, room * longest)
        axis.set(title=dtype, xlabel="time, relative to classical on the same shape")
    _legend(figure, columns=len(_STAGES))
    return figure


def errors(found: dict[str, Any]) -> Figure | None:
    """Relative RMS error against size per scheme: measured, and predicted by the growth."""
    from matplotlib.lines import Line2D

    items = found["errors"]
    dtypes = _dtypes_of(items)
    if not dtypes:
        return None
    figure, axes = _columns(dtypes, 5.2)
    schemes = list(dict.fromkeys(name for x in items for name in x["measured"]))
    looks = [*_STYLES.values(), *_OTHERS]
    for axis, dtype in zip(axes, dtypes, strict=True):
        part = sorted((x for x in items if x["dtype"] == dtype), key=lambda x: x["size"])
        sizes = [x["size"] for x in part]
        for i, name in enumerate(schemes):
            colour, marker = looks[i % len(looks)]
            axis.plot(sizes, [x["measured"][name] for x in part], color=colour, marker=marker,
                      linestyle="none", label=name)  # fmt: skip
            predicted = [x["measured"]["classical"] * x["growth"][name] for x in part]
            axis.plot(sizes, predicted, color=colour, linewidth=1.1,
                      linestyle="-" if name == "classical" else "--")  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        _sizes(axis.xaxis, sizes)
        axis.grid(which="minor", axis="y", color="#eeeeee")
        axis.set(title=dtype, xlabel="M = N = K")
    axes[0].set_ylabel("RMS error relative to the RMS of C")
    dashed = Line2D([], [], color="black", linestyle="--")
    _legend(figure, [(dashed, "predicted: classical error × growth")])
    return figure


def memory(found: dict[str, Any]) -> Figure | None:
    """Memory that each library uses beyond operands and result, and what falcon planned."""
    cases = [x for x in found["cases"]
             if any(y["extra_bytes"] for y in x["sides"].values())]  # fmt: skip
    names = side_names(cases)
    if not cases:
        return None
    figure, panels = _by_case(cases, 0.36)
    for axis, part in panels:
        for y, x in enumerate(part):
            size = of(x["dtype"]).itemsize
            operands = size * (x["M"] * x["K"] + x["K"] * x["N"] + x["M"] * x["N"]) / 2**20
            axis.plot([operands], [y], marker="|", markersize=16, color="black", linestyle="none",
                      label="A, B and C themselves")  # fmt: skip
            plan = (x["sides"].get("falcon") or {}).get("plan")
            if plan and plan["workspace"]:
                axis.plot([plan["workspace"] / 2**20], [y], marker="o", markersize=11,
                          color="#d55e00", markerfacecolor="none", linestyle="none",
                          label="falcon, planned")  # fmt: skip
        for name in names:
            points = [
                (max(x["sides"][name]["extra_bytes"] / 2**20, 1.0), y)
                for y, x in enumerate(part)
                if name in x["sides"] and x["sides"][name]["extra_bytes"] is not None
            ]
            if points:
                axis.plot(*zip(*points, strict=True), linestyle="none", markersize=6, label=name,
                          **_look(name, names))  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    panels[-1][0].set_xlabel(
        "peak memory of a call beyond A, B and C, MiB (less than 1 is drawn at 1)"
    )
    _legend(figure)
    return figure


# File name, title, what it shows and how to read it, how it is drawn.
FIGURES: tuple[tuple[str, str, str, Callable[[dict[str, Any]], Figure | None]], ...] = (
    ("rates", "Speed against size",
     "Effective GFLOP/s means 2MNK divided by the time, however many operations the algorithm "
     "really does; an LCMA may exceed the peak of the multiply-add units, which is measured on "
     "registers alone.",
     rates),
    ("speedups", "Speed-up over each library",
     "Median of the ratio of times, pair by pair, with its 95 % confidence interval; hollow: not "
     "known to 2 %.", speedups),
    ("crossover", "Where an LCMA pays",
     "Speed-up of the better of two schemes over falcon's own classical path, ± distance to the "
     "farther end of its confidence interval; grey on white where that includes 1. Frames show "
     "where falcon's own choice, among many more schemes, is an LCMA.",
     crossover),
    ("stages", "Where the time goes",
     "Time per stage of falcon's own kernels, mean over the threads, median of interleaved calls "
     "(S: Strassen, S@S: two levels). Combine H is the update of C; in the classical algorithm "
     "Combine A and B are packing.", stages),
    ("errors", "Rounding errors",
     "Measured on sampled rows against higher precision (normally distributed operands); the lines "
     "are the prediction: the classical error times the scheme's growth.", errors),
    ("memory", "Memory of a call",
     "Peak memory of a call beyond A, B and C: growth of the library's process, "
     "and buffers kept from earlier calls.", memory),
)  # fmt: skip
