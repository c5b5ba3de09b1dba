"""The pictures of a report, one function each, drawn with matplotlib from a record file.

A function returns None if the file has no data for it. To add one: a line in `FIGURES`. Each is
drawn twice: for a page, and narrow, for a phone. The last two functions draw several records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from falcon._tools.timing import Estimate
from falcon.bench.records import CLASSICAL, FALCON, NUMPY, estimate_of
from falcon.bench.tables import side_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, the same for all pictures, so that a page shows their text in one size; on a phone.
_WIDTH, _NARROW = 10.4, 4.4
# Sizes whose labels would overlap, if the ratio is smaller.
_NEAR = 1.25
_TITLES = {
    NUMPY: "NumPy", "numpy (best kernels)": "NumPy, best kernels", CLASSICAL: "falcon, classical",
    "mkl": "MKL", "onednn": "oneDNN", "torch": "PyTorch", "cublas": "cuBLAS",
}  # fmt: skip
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


def columns(
    groups: list[Any], height: float, narrow: bool = False, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a panel per group: in rows, or one below the other."""
    import matplotlib.pyplot as plt

    rows = len(groups) if narrow else rows
    size = (_NARROW if narrow else _WIDTH, height * rows)
    figure, axes = plt.subplots(rows, len(groups) // rows, figsize=size, squeeze=False)
    return figure, list(axes.flat)


def legend(figure: Figure, more: Iterable[tuple[Any, str]] = ()) -> None:
    """Put one legend of all panels below them."""
    shown: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    shown |= {label: handle for handle, label in more}
    ncols = 4 if figure.get_figwidth() > _NARROW else 2
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=ncols)


def _about(
    figure: Figure, document: dict[str, Any], counts: Iterable[int], threads: str = ", {} threads"
) -> None:
    """Say above the panels what was measured where and when, and what bars and marks mean."""
    machine = document["machine"]
    where = machine["cpu"] + threads.format(document["threads"])
    if "gpu" in machine:
        where = machine["gpu"]["device"]
    dates = sorted({x["started"][:10] for x in document["sessions"]})
    of = sorted({95.0 if x > 5 else 100 * (1 - 2 * 0.5**x) for x in counts if x > 1})
    level = " to ".join(dict.fromkeys(f"{x:.0f}" for x in (of[0], of[-1]))) if of else "no"
    text = (
        f"{where}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}. Bars: {level}\u00a0% "
        "intervals of medians; hollow: not known to 2\u00a0%. With each size: falcon's choice."
    )
    text = fill(text, int(15.5 * figure.get_figwidth()))
    figure.suptitle(text, x=0.01, ha="left", fontsize=9)


def dtypes_of(items: list[dict[str, Any]]) -> list[str]:
    """Return the dtypes of some entries, each once."""
    return list(dict.fromkeys(x["dtype"] for x in items))


def _label(x: dict[str, Any]) -> str:
    square = x["M"] == x["N"] == x["K"]
    sizes = f"{x['M']}³" if square else f"{x['M']} × {x['N']} × {x['K']}"
    return "\n".join(filter(None, (x.get("label"), sizes, _choice(x))))


def _choice(x: dict[str, Any]) -> str:
    plan = x["sides"].get(FALCON, {}).get("plan")
    return plan["scheme"] if plan else ""


def _marks(axis: Axes, points: list[tuple[float, Estimate]], line: float = 0, **look: Any) -> None:
    """Draw medians with their intervals, hollow if they are not known; from three on, a line."""
    if line and len(points) > 2:
        axis.plot(*zip(*((x, y.median) for x, y in points), strict=True), linewidth=line,
                  color=look["color"], zorder=look.get("zorder"))  # fmt: skip
    for known, colour in ((True, look["color"]), (False, look.pop("paper", "white"))):
        some = [x for x in points if x[1].known == known]
        ends = [(x.median - x.low, x.high - x.median) for _, x in some]
        axis.errorbar([x for x, _ in some], [y.median for _, y in some], linestyle="none",
                      yerr=np.reshape(ends, (-1, 2)).T, markerfacecolor=colour, **look)  # fmt: skip


def _sizes(axis: Axes, cases: list[dict[str, Any]]) -> None:
    """Let the horizontal axis show the sizes of squares, and what falcon chose there."""
    axis.set_xscale("log", base=2)
    narrow = axis.figure.get_figwidth() <= _NARROW
    labels = [f"{x['M']} {_choice(x)}" for x in cases]
    if not narrow:
        labels = [x.replace(" ", "\n").replace("@", "@\n") for x in labels]
        for i in range(1, len(cases)):  # below those of a size that is near
            if cases[i]["M"] < _NEAR * cases[i - 1]["M"] and labels[i - 1][0] != "\n":
                labels[i] = "\n" * (1 + labels[i - 1].count("\n")) + labels[i]
    axis.set_xticks(
        [x["M"] for x in cases], labels, fontsize=8 if narrow else 7.5, rotation=90 * narrow
    )
    axis.minorticks_off()
    axis.set_ylim(0, 1.05 * axis.get_ylim()[1])


def rates(document: dict[str, Any], narrow: bool = False) -> Figure | None:
    """Effective GFLOP/s against the size of squares, with the measured peak."""
    from matplotlib.lines import Line2D

    squares = [x for x in document["cases"] if x["M"] == x["N"] == x["K"]]
    dtypes = [d for d in dtypes_of(squares) if sum(x["dtype"] == d for x in squares) > 1]
    if not dtypes:
        return None
    figure, axes = columns(dtypes, 4.8, narrow)
    looks, counts = _looks(document), set()
    for axis, dtype in zip(axes, dtypes, strict=True):
        cases = sorted((x for x in squares if x["dtype"] == dtype), key=lambda x: x["M"])
        for name, look in looks.items():
            points = [(x["M"], _rate(x, name)) for x in cases if name in x["sides"]]
            counts |= {y.count for _, y in points}
            own = name == FALCON
            _marks(axis, points, line=2.6 if own else 1.3, markersize=7 if own else 5,
                   zorder=4 if own else 3, **look)  # fmt: skip
        peaks = (document["peak"] or {"gflops": ()})["gflops"]  # of each instruction set
        if of_dtype := [x["gflops"] for x in peaks if x["dtype"] == dtype]:
            axis.axhline(max(of_dtype), color="black", linestyle="--", linewidth=1.2,
                         label="measured peak")  # fmt: skip
        _sizes(axis, cases)
        axis.set(title=dtype, xlabel="M = N = K")
        axis.set_ylabel("effective GFLOP/s (2MNK / time)")
    _about(figure, document, counts)
    legend(figure, [(Line2D([], [], **x), _TITLES.get(name, name)) for name, x in looks.items()])
    return figure


def _rate(case: dict[str, Any], side: str, per: int = 1) -> Estimate:
    """Return the effective GFLOP/s of a side, of each of `per` cores."""
    flops = 2e-9 * case["M"] * case["N"] * case["K"] / per
    return Estimate.of(flops / x for x in case["sides"][side]["seconds"])


def speedups(document: dict[str, Any], narrow: bool = False) -> Figure | None:
    """Falcon's speed-up over each other side, a panel per dtype and a line per shape."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    cases = document["cases"]
    looks = _looks(document)
    looks.pop(FALCON, None)
    if not looks:
        return None
    groups = {d: [x for x in cases if x["dtype"] == d] for d in dtypes_of(cases)}
    row = max(0.5, 0.13 * len(looks))
    figure, grid = plt.subplots(
        len(groups), 1, sharex=True, squeeze=False, figsize=(
            _NARROW if narrow else _WIDTH, 1.4 + row * len(cases) + 0.6 * len(groups)),
        height_ratios=[len(x) + 0.6 for x in groups.values()],
    )  # fmt: skip
    counts = {y["count"] for x in cases for y in x["speedups"].values()}
    for axis, (dtype, part) in zip(grid[:, 0], groups.items(), strict=True):
        for y in range(1, len(part), 2):
            axis.axhspan(y - 0.5, y + 0.5, color="#f4f4f4", zorder=0)
        axis.set_yticks(range(len(part)), [_label(x) for x in part], fontsize=8)
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
    right = "right of 1: falcon is faster"
    grid[-1, 0].set_xlabel(
        f"speed-up of falcon\n({right})" if narrow else f"speed-up of falcon ({right})"
    )
    _about(figure, document, counts)
    legend(figure, [(Line2D([], [], linestyle="none", **x), f"over {_TITLES.get(name, name)}")
                    for name, x in looks.items()])  # fmt: skip
    return figure


def over_numpy(machines: dict[str, dict[str, Any]], dark: bool = False) -> Figure:
    """Falcon's speed over NumPy's against the size of float32 squares, a line per machine."""
    import matplotlib.pyplot as plt

    ink, paper = ("#e6edf3", "#0d1117") if dark else ("#1f2328", "#ffffff")
    colours = ("#d55e00", "#a04d96", "#0072b2", "#00795a")
    if dark:
        colours = ("#ff9d5c", "#e39fd9", "#79c0ff", "#7ee787")
    figure, axis = plt.subplots(figsize=(5.2, 3.1), facecolor=paper)
    axis.set_facecolor(paper)
    sizes = set()
    for (title, document), colour, marker in zip(machines.items(), colours, "oDs^", strict=True):
        points = points_over_numpy(document)
        sizes |= {x for x, _ in points}
        _marks(axis, points, line=2.4, color=colour, marker=marker, markersize=7, zorder=3,
               paper=paper)  # fmt: skip
        axis.plot([], [], color=colour, marker=marker, linewidth=2.4, label=title)
    axis.axhline(1, color=ink, linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_xticks(shown := sorted(x for x in sizes if x & (x - 1) == 0), shown)
    axis.minorticks_off()
    axis.set_title("falcon over NumPy, float32, two cores: times as fast", color=ink)
    axis.set_xlabel("M = N = K", color=ink)
    axis.tick_params(colors=ink)
    axis.spines[:].set_color(ink)
    axis.grid(color=ink, alpha=0.15)
    axis.legend(labelcolor=ink, loc="upper left")
    return figure


def points_over_numpy(document: dict[str, Any]) -> list[tuple[int, Estimate]]:
    """Return sizes of float32 squares, and falcon's speed over NumPy's there."""
    squares = [x for x in document["cases"]
               if x["M"] == x["N"] == x["K"] and x["dtype"] == "float32"]  # fmt: skip
    return sorted((x["M"], estimate_of(x["speedups"][NUMPY])) for x in squares)


def per_core(
    documents: list[dict[str, Any]], peaks: dict[tuple[str, int], float], narrow: bool = False
) -> Figure:
    """GFLOP/s per core under the peak: a panel per type and number of threads, a record each.

    `peaks`: GFLOP/s of all threads together.
    """
    from matplotlib.lines import Line2D

    panels = [(d, x) for d in dtypes_of(documents[0]["cases"]) for x in documents]
    figure, axes = columns(panels, 3.2, narrow, rows=len(panels) // len(documents))
    looks, counts = _looks(documents[0]), set()
    for axis, (dtype, document) in zip(axes, panels, strict=True):
        threads = document["threads"]
        cases = sorted((x for x in document["cases"]
                        if x["dtype"] == dtype and x["M"] == x["N"] == x["K"]),
                       key=lambda x: x["M"])  # fmt: skip
        for name, look in looks.items():
            points = [(x["M"], _rate(x, name, threads)) for x in cases]
            counts |= {y.count for _, y in points}
            _marks(axis, points, line=1.6, markersize=5, **look)
        axis.axhline(peaks[dtype, threads] / threads, color="black", linestyle="--",
                     label="falcon's kernels alone")  # fmt: skip
        _sizes(axis, cases)
        axis.set_title(f"{dtype}, {threads} thread{'s' * (threads > 1)}")
        axis.set_ylabel("effective GFLOP/s per core")
    _about(figure, documents[-1], counts, "")
    legend(figure, [(Line2D([], [], **x), _TITLES.get(name, name)) for name, x in looks.items()])
    return figure


# File name, title, what it shows and how to read it, how it is drawn.
FIGURES: tuple[tuple[str, str, str, Callable[..., Figure | None]], ...] = (
    ("rates", "Speed against size",
     "Effective GFLOP/s means 2MNK divided by the time, however many operations the algorithm "
     "really does; an LCMA may exceed the peak of classical products: the rate of the micro-kernel "
     "alone, on panels in L1 (in older records: of multiply-adds on registers).",
     rates),
    ("speedups", "Speed-up over each library",
     "Median of the ratio of times, pair by pair, with its confidence interval.", speedups),
)  # fmt: skip
