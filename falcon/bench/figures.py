"""The pictures of a report, one function each, drawn with matplotlib from a record file.

A function returns None where the file holds nothing for its picture. To add one: a line in
`FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
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


def _panels(count: int, size: tuple[float, float], **options: Any) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, count, figsize=(size[0] * count, size[1]), squeeze=False, **options
    )
    return figure, list(axes[0])


def _names(cases: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for x in cases for name in x["sides"]))


def _dtypes_of(items: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(x["dtype"] for x in items))


def _peak(found: dict[str, Any], dtype: str) -> float | None:
    """Return the measured peak of the fastest instruction set."""
    rates = [x["gflops"] for x in (found["peak"] or {"gflops": ()})["gflops"]
             if x["dtype"] == dtype]  # fmt: skip
    return max(rates) if rates else None


def _sizes(axis: Any, sizes: list[int]) -> None:
    """Label a logarithmic axis with the sizes that were measured."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(sizes))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda x, _: f"{x:.0f}")


def rates(found: dict[str, Any]) -> Figure | None:
    """Effective GFLOP/s against the size of squares, with the measured peak."""
    squares = [x for x in found["cases"] if x["M"] == x["N"] == x["K"]]
    dtypes = [d for d in _dtypes_of(squares) if sum(x["dtype"] == d for x in squares) > 1]
    if not dtypes:
        return None
    figure, axes = _panels(len(dtypes), (6.2, 4.6))
    names = _names(squares)
    for axis, dtype in zip(axes, dtypes, strict=True):
        cases = sorted((x for x in squares if x["dtype"] == dtype), key=lambda x: x["M"])
        for name in reversed(names):
            points = [(x["M"], x["sides"][name]["gflops"]) for x in cases if name in x["sides"]]
            if points:
                own = name == "falcon"
                axis.plot(*zip(*points, strict=True), label=name, linewidth=2.6 if own else 1.3,
                          markersize=7 if own else 5, **_look(name, names))  # fmt: skip
        peak = _peak(found, dtype)
        if peak:
            axis.axhline(peak, color="black", linestyle="--", linewidth=1.2)
            axis.annotate(f"measured multiply-add peak, {peak:.0f}", (0.01, peak), (0, 3),
                          xycoords=("axes fraction", "data"), textcoords="offset points",
                          fontsize=9)  # fmt: skip
        axis.set_xscale("log", base=2)
        _sizes(axis.xaxis, [x["M"] for x in cases])
        axis.set_ylim(bottom=0)
        axis.margins(y=0.12)
        axis.set(title=f"{dtype}, {found['threads']} threads", xlabel="M = N = K",
                 ylabel="effective GFLOP/s (2MNK / time)")  # fmt: skip
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center",
                  ncols=min(4, len(labels)))  # fmt: skip
    return figure


def _label(x: dict[str, Any]) -> str:
    square = x["M"] == x["N"] == x["K"]
    sizes = f"{x['M']}³" if square else f"{x['M']} × {x['N']} × {x['K']}"
    return f"{x['label']}  {sizes}" if x["label"] else sizes


def speedups(found: dict[str, Any]) -> Figure | None:
    """Falcon's speed-up over each other side, per shape, with quartiles."""
    cases = found["cases"]
    dtypes = _dtypes_of(cases)
    if not dtypes:
        return None
    names = [name for name in _names(cases) if name != "falcon"]
    rows = [[x for x in cases if x["dtype"] == d] for d in dtypes]
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(
        len(dtypes), 1, figsize=(9.2, 1.2 + 0.44 * len(cases) + 0.8 * len(dtypes)), sharex=True,
        squeeze=False, height_ratios=[len(x) + 0.6 for x in rows],
    )  # fmt: skip
    step = 0.72 / max(len(names), 1)
    for axis, part, dtype in zip(grid[:, 0], rows, dtypes, strict=True):
        for i, name in enumerate(names):
            points = [(y, x["speedups"][name]) for y, x in enumerate(part) if name in x["speedups"]]
            if not points:
                continue
            middle = [p["median"] for _, p in points]
            whiskers = [[p["median"] - p["q1"] for _, p in points],
                        [p["q3"] - p["median"] for _, p in points]]  # fmt: skip
            heights = [y + (i - (len(names) - 1) / 2) * step for y, _ in points]
            axis.errorbar(middle, heights, xerr=whiskers, linestyle="none", capsize=0,
                          markersize=5.5, label=name, **_look(name, names))  # fmt: skip
        axis.axvline(1, color="black", linewidth=1)
        for y in range(1, len(part), 2):
            axis.axhspan(y - 0.5, y + 0.5, color="#f4f4f4", zorder=0)
        axis.set_yticks(range(len(part)), [_label(x) for x in part])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(f"{dtype}: time of the other over falcon's, median and quartiles")
    grid[-1, 0].set_xlabel("speed-up of falcon (right of 1: falcon is faster)")
    shown = {x: y for axis in grid[:, 0] for y, x in zip(*axis.get_legend_handles_labels(),
                                                         strict=True)}  # fmt: skip
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4)
    return figure


def crossover(found: dict[str, Any]) -> Figure | None:
    """The best scheme's speed-up over falcon's classical path, over (M = N, K)."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patches import Rectangle

    cells = found["crossover"]
    dtypes = _dtypes_of(cells)
    if not dtypes:
        return None
    values = [max(y["median"] for y in x["speedups"].values()) for x in cells]
    norm = TwoSlopeNorm(1.0, min(0.7, *values), max(1.3, *values))
    figure, axes = _panels(len(dtypes), (6.4, 4.8))
    for axis, dtype in zip(axes, dtypes, strict=True):
        part = [x for x in cells if x["dtype"] == dtype]
        sizes = sorted({x["M"] for x in part})
        inner = sorted({x["K"] for x in part})
        image = np.full((len(inner), len(sizes)), np.nan)
        for x in part:
            column, row = sizes.index(x["M"]), inner.index(x["K"])
            best = max(x["speedups"], key=lambda name: x["speedups"][name]["median"])
            image[row, column] = x["speedups"][best]["median"]
            short = {"strassen": "S", "strassen@strassen": "S@S"}.get(best, best)
            dark = abs(float(norm(image[row, column])) - 0.5) > 0.36
            axis.text(column, row, f"{image[row, column]:.2f}\n{short}", ha="center", va="center",
                      fontsize=8.5, color="white" if dark else "black")  # fmt: skip
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
    figure.suptitle("The faster of Strassen (S) and two levels of it (S@S);\n"
                    "framed: falcon chooses an LCMA by itself", fontsize=11)  # fmt: skip
    return figure


def stages(found: dict[str, Any]) -> Figure | None:
    """Where the time of a call goes, per shape and scheme, relative to the classical call."""
    items = [x for x in found["stages"] if "stages" in x]
    dtypes = _dtypes_of(items)
    if not dtypes:
        return None
    count = max(sum(x["dtype"] == d for x in items) for d in dtypes)
    figure, axes = _panels(len(dtypes), (6.6, 1.6 + 0.3 * count), sharey=False)
    for axis, dtype in zip(axes, dtypes, strict=True):
        part = [x for x in items if x["dtype"] == dtype]
        shapes = list(dict.fromkeys((x["M"], x["N"], x["K"]) for x in part))
        heights: list[float] = []
        labels: list[str] = []
        y = 0.0
        for shape in shapes:
            group = [x for x in part if (x["M"], x["N"], x["K"]) == shape]
            classical = next((x["total"] for x in group if x["scheme"] == "classical"),
                             group[0]["total"])  # fmt: skip
            for x in group:
                left = 0.0
                for name, colour in _STAGES.items():
                    share = x["stages"].get(name, 0.0) / classical
                    axis.barh(y, share, left=left, height=0.8, color=colour,
                              label=name if not heights else None)  # fmt: skip
                    left += share
                axis.text(
                    max(left, 1) + 0.01, y, f"{1e3 * x['total']:.3g} ms", va="center", fontsize=8.5
                )
                sizes = {"label": "", "M": shape[0], "N": shape[1], "K": shape[2]}
                heights.append(y)
                labels.append(f"{_label(sizes)}  {x['scheme']}")
                y += 1
            y += 0.6
        axis.set_yticks(heights, labels, fontsize=9)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.axvline(1, color="black", linewidth=1)
        axis.set_xlim(0, 1.32)
        axis.set(title=dtype, xlabel="time, relative to classical on the same shape")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


def errors(found: dict[str, Any]) -> Figure | None:
    """Relative RMS error against size per scheme: measured, and predicted by the growth."""
    from matplotlib.lines import Line2D

    items = found["errors"]
    dtypes = _dtypes_of(items)
    if not dtypes:
        return None
    figure, axes = _panels(len(dtypes), (6.2, 5.0))
    schemes = list(dict.fromkeys(name for x in items for name in x["measured"]))
    colours = [*(colour for colour, _ in _STYLES.values()), *(colour for colour, _ in _OTHERS)]
    for axis, dtype in zip(axes, dtypes, strict=True):
        part = sorted((x for x in items if x["dtype"] == dtype), key=lambda x: x["size"])
        sizes = [x["size"] for x in part]
        for i, name in enumerate(schemes):
            colour, marker = colours[i % len(colours)], "os^vDPX<>h*"[i % 11]
            axis.plot(sizes, [x["measured"][name] for x in part], color=colour, marker=marker,
                      linestyle="none", label=name)  # fmt: skip
            predicted = [x["measured"]["classical"] * x["growth"][name] for x in part]
            axis.plot(sizes, predicted, color=colour, linewidth=1.1,
                      linestyle="-" if name == "classical" else "--")  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        _sizes(axis.xaxis, sizes)
        axis.grid(which="minor", axis="y", color="#eeeeee")
        axis.set(title=dtype, xlabel="M = N = K", ylabel="RMS error relative to the RMS of C")
    handles, labels = axes[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="black", linestyle="--"))
    labels.append("predicted: classical error × growth")
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(dtypes))
    return figure


def memory(found: dict[str, Any]) -> Figure | None:
    """What each library holds beyond operands and result, and what falcon planned."""
    cases = [x for x in found["cases"]
             if any(y["extra_bytes"] for y in x["sides"].values())]  # fmt: skip
    dtypes = _dtypes_of(cases)
    if not dtypes:
        return None
    import matplotlib.pyplot as plt

    rows = [[x for x in cases if x["dtype"] == d] for d in dtypes]
    figure, grid = plt.subplots(
        len(dtypes), 1, figsize=(9.2, 1.2 + 0.34 * len(cases) + 0.8 * len(dtypes)), sharex=True,
        squeeze=False, height_ratios=[len(x) + 0.6 for x in rows],
    )  # fmt: skip
    names = _names(cases)
    for axis, part, dtype in zip(grid[:, 0], rows, dtypes, strict=True):
        for y, x in enumerate(part):
            size = np.dtype(dtype).itemsize
            operands = size * (x["M"] * x["K"] + x["K"] * x["N"] + x["M"] * x["N"]) / 2**20
            axis.plot([operands], [y], marker="|", markersize=16, color="black", linestyle="none",
                      label="A, B and C themselves" if y == 0 else None)  # fmt: skip
            plan = (x["sides"].get("falcon") or {}).get("plan")
            if plan and plan["workspace"]:
                axis.plot([plan["workspace"] / 2**20], [y], marker="o", markersize=11,
                          color="#d55e00", markerfacecolor="none", linestyle="none",
                          label="falcon, planned" if y == 0 else None)  # fmt: skip
            if y % 2:
                axis.axhspan(y - 0.5, y + 0.5, color="#f4f4f4", zorder=0)
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
        axis.set_yticks(range(len(part)), [_label(x) for x in part])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(f"{dtype}: memory at the height of a call, beyond A, B and C")
    grid[-1, 0].set_xlabel("MiB (less than 1 is drawn at 1)")
    shown = {x: y for axis in grid[:, 0] for y, x in zip(*axis.get_legend_handles_labels(),
                                                         strict=True)}  # fmt: skip
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4)
    return figure


# File name, title, what it shows and how to read it, how it is drawn.
FIGURES: tuple[tuple[str, str, str, Callable[[dict[str, Any]], Figure | None]], ...] = (
    ("rates", "Speed against size",
     "Effective GFLOP/s means 2MNK divided by the time, whatever the algorithm really computes; an "
     "LCMA may exceed the peak of the multiply-add units, which is measured on registers alone.",
     rates),
    ("speedups", "Speed-up over each library",
     "Median and quartiles of the ratio of times, pair by pair, per shape.", speedups),
    ("crossover", "Where an LCMA pays",
     "Speed-up of the better of two schemes over falcon's own classical path. Frames show where "
     "falcon chooses an LCMA when it decides by itself; it considers many more schemes.",
     crossover),
    ("stages", "Where the time goes",
     "Time per stage of falcon's own kernels, mean over the threads. Combine H is what updating C "
     "costs; in the classical algorithm combining is packing.", stages),
    ("errors", "Rounding errors",
     "Measured on sampled rows against higher precision (normally distributed operands); the lines "
     "are the prediction: the classical error times the scheme's growth.", errors),
    ("memory", "Memory of a call",
     "What the library holds at the height of a call, beyond A, B and C: growth of its process, "
     "and buffers kept from earlier calls.", memory),
)  # fmt: skip
