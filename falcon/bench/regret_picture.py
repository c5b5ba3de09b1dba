"""The picture of `falcon.bench.regret`: regret, predictions, gains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .regret_record import Record
from .regret_shapes import LARGE


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw regret, prediction against measurement, and gains."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    (one, two), (three, four) = figure.subplots(2, 2)
    groups = sorted({(x.dtype, x.threads) for x in records})
    for dtype, threads in groups:
        some = [x for x in records if (x.dtype, x.threads) == (dtype, threads)]
        label = f"{dtype}, {threads} thread{'s' if threads > 1 else ''}"
        regrets = np.sort([x.regret for x in some])
        one.step(regrets * 100, np.arange(1, len(some) + 1) / len(some), where="post", label=label)
        pairs = [x[1:] for r in some for x in r.candidates if x[1] > 0]
        two.plot([y * 1e3 for _, y in pairs], [x * 1e3 for x, _ in pairs], ".", ms=2, label=label)
        work = [2 * x.M * x.N * x.K for x in some]
        three.semilogx(work, [x.over_numpy for x in some], ".", label=label)
        large = [x for x in some if min(x.M, x.N, x.K) >= LARGE]
        work = [2 * x.M * x.N * x.K for x in large]
        four.semilogx(work, [x.over_library for x in large], ".", label=label)
    one.set(xlabel="regret, %", ylabel="share of shapes", title="choice against best candidate")
    two.set(xscale="log", yscale="log", xlabel="measured, ms", ylabel="predicted, ms",
            title="every candidate measured")  # fmt: skip
    low, high = two.get_xlim()
    two.plot([low, high], [low, high], "k", lw=0.5)
    best = f"the best library, M, N, K >= {LARGE}"
    for axes, title in ((three, "NumPy as installed"), (four, best)):
        axes.axhline(1, color="k", lw=0.5)
        axes.set(xlabel="2MNK", ylabel="speed-up", title=f"falcon(auto) over {title}")
    one.legend()
    figure.savefig(path, dpi=120)
