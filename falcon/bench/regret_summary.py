"""The summary of the records of `falcon.bench.regret`: figures, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .regret_shapes import LARGE


def summary(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the figures: regret, prediction errors, gains."""
    if not records:
        return {}
    regrets = np.array([x["regret"] for x in records])
    over_numpy = [x["over_numpy"] for x in records]
    found = {
        "shapes": float(len(records)),
        "regret mean": float(regrets.mean()),
        "regret 95th percentile": float(np.quantile(regrets, 0.95)),
        "regret worst": float(regrets.max()),
        "over NumPy, worst": min(over_numpy),
        "over NumPy, 5th percentile": float(np.quantile(over_numpy, 0.05)),
        "over NumPy, geometric mean": _mean(over_numpy),
    }
    if all("known" in x for x in records):
        unknown = sum(not x["known"]["over_numpy"]["known"] for x in records)
        found["ratios over NumPy not known to 2 %"] = float(unknown)
    compared = [x["planned"] for x in records if any(time for _, time, _ in x["candidates"])]
    if compared:
        name = "fresh plan where candidates are compared, median seconds"
        found[name] = float(np.median(compared))
    own = [x["over_numpy"] for x in records if x["choice"] != "numpy classical"]
    if own:
        found |= {
            "shapes in which NumPy's own product is not the choice": float(len(own)),
            "these over NumPy, worst": min(own),
            "these over NumPy, geometric mean": _mean(own),
        }
    pairs = _pairs(records)
    if len(pairs):
        logs = np.log(pairs)
        rest = float(((logs[:, 0] - logs[:, 1]) ** 2).sum())
        found["prediction error, median"] = float(np.median(np.abs(pairs[:, 0] / pairs[:, 1] - 1)))
        found["R^2 of log time"] = 1 - rest / float(((logs[:, 1] - logs[:, 1].mean()) ** 2).sum())
    for dtype in sorted({x["dtype"] for x in records}):
        gains = [x["over_library"] for x in _large(records) if x["dtype"] == dtype]
        if gains:
            found[f"over the best library, {dtype}, M, N, K >= {LARGE}, worst"] = min(gains)
            found[f"over the best library, {dtype}, M, N, K >= {LARGE}, mean"] = _mean(gains)
    return found


def _mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _pairs(records: Sequence[dict[str, Any]]) -> np.ndarray:
    """Return predicted and measured seconds of all candidates that have a prediction."""
    found = [x[1:] for r in records for x in r["candidates"] if x[1] > 0]
    return np.array(found).reshape(-1, 2)


def _large(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [x for x in records if min(x["M"], x["N"], x["K"]) >= LARGE]


def draw(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw regret, prediction against measurement, and gains."""
    from matplotlib.figure import Figure

    from .figures import style

    with style():
        figure = Figure(figsize=(11, 8.4))
        (one, two), (three, four) = figure.subplots(2, 2)
        groups = sorted({(x["dtype"], x["threads"]) for x in records})
        for dtype, threads in groups:
            some = [x for x in records if (x["dtype"], x["threads"]) == (dtype, threads)]
            label = f"{dtype}, {threads} thread{'s' if threads > 1 else ''}"
            regrets = np.sort([x["regret"] for x in some])
            share = np.arange(1, len(some) + 1) / len(some)
            one.step(regrets * 100, share, where="post", label=label)
            predicted, measured = 1e3 * _pairs(some).T
            two.plot(measured, predicted, ".", ms=2)
            for axes, kept, key in ((three, some, "over_numpy"),
                                    (four, _large(some), "over_library")):  # fmt: skip
                work = [2 * x["M"] * x["N"] * x["K"] for x in kept]
                axes.semilogx(work, [x[key] for x in kept], ".")
        one.set(xlabel="regret, %", ylabel="share of shapes", title="Choice against best candidate")
        two.set(xscale="log", yscale="log", xlabel="measured, ms", ylabel="predicted, ms",
                title="Every candidate measured")  # fmt: skip
        ends = two.get_xlim()
        two.plot(ends, ends, "k", lw=0.5)
        best = f"the best library, M, N, K ≥ {LARGE}"
        for axes, title in ((three, "NumPy as installed"), (four, best)):
            axes.axhline(1, color="k", lw=0.5)
            axes.set(xlabel="2MNK", ylabel="speed-up", title=f"falcon(auto) over {title}")
        figure.legend(loc="outside lower center", ncols=len(groups))
        figure.savefig(path, dpi=120)
