"""The figures of `regret.py`'s records, their picture, and the page that compares machines."""

from __future__ import annotations

import json
from statistics import geometric_mean

import numpy as np

# Libraries other than NumPy are measured only if all sizes are at least this: it takes long.
LARGE = 1024
# Resamples of the shapes, and the confidence level of the intervals.
RESAMPLES, LEVEL = 2000, 0.95
FIGURES = {
    "regret mean": lambda x: x.mean(axis=1),
    "regret 95th percentile": lambda x: np.quantile(x, 0.95, axis=1),
}
HEAD = """# Regret by machine

One row per record file of this folder; `python studies/regret.py --page docs/regret` writes
the page. Regret is how much longer the choice takes than the fastest of its rivals, measured in
fresh pairs ([decision.md](../decision.md#how-good-the-choices-are)). Intervals hold 95 % of 2000
resamples of the shapes. "np.matmul between": np.matmul was called before every timed call.

| machine | kernels | shapes | regret, mean | 95th percentile | worst | prediction, median error \
| over NumPy, worst / mean | np.matmul between | measured | note |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def summary(records):
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
        "over NumPy, geometric mean": geometric_mean(over_numpy),
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
            "these over NumPy, geometric mean": geometric_mean(own),
        }
    both = predictions(records)
    if len(both):
        logs = np.log(both)
        rest = float(((logs[:, 0] - logs[:, 1]) ** 2).sum())
        found["prediction error, median"] = float(np.median(np.abs(both[:, 0] / both[:, 1] - 1)))
        found["R^2 of log time"] = 1 - rest / float(((logs[:, 1] - logs[:, 1].mean()) ** 2).sum())
    for dtype in sorted({x["dtype"] for x in records}):
        gains = [x["over_library"] for x in large(records) if x["dtype"] == dtype]
        if gains:
            found[f"over the best library, {dtype}, M, N, K >= {LARGE}, worst"] = min(gains)
            found[f"over the best library, {dtype}, M, N, K >= {LARGE}, mean"] = geometric_mean(
                gains
            )
    return found


def predictions(records):
    """Return predicted and measured seconds of all candidates that have a prediction."""
    found = [x[1:] for r in records for x in r["candidates"] if x[1] > 0]
    return np.array(found).reshape(-1, 2)


def large(records):
    return [x for x in records if min(x["M"], x["N"], x["K"]) >= LARGE]


def draw(records, path):
    """Draw regret, prediction against measurement, and gains."""
    from matplotlib.figure import Figure

    from falcon.bench.figures import style

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
            predicted, measured = 1e3 * predictions(some).T
            two.plot(measured, predicted, ".", ms=2)
            for axes, kept, key in ((three, some, "over_numpy"),
                                    (four, large(some), "over_library")):  # fmt: skip
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


def intervals(records):
    """Return the 95 % confidence intervals of figures of `summary`, by the bootstrap.

    Shapes are resampled, not timings: the intervals say what another sample of shapes may give.
    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7,
    1979.
    """
    if len(records) < 2:
        return {}
    regrets = np.array([x["regret"] for x in records])
    random = np.random.default_rng(0)
    some = regrets[random.integers(0, len(regrets), (RESAMPLES, len(regrets)))]
    ends = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    found = {name: np.quantile(of(some), ends) for name, of in FIGURES.items()}
    return {name: (float(x[0]), float(x[1])) for name, x in found.items()}


def page(folder):
    """Return the page of a folder of record files."""
    return HEAD + "".join(row(path) for path in sorted(folder.glob("*.json")))


def row(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    records = content["records"]
    found, ends = summary(records), intervals(records)

    def percent(name):
        low, high = ends.get(name, (found[name], found[name]))
        return f"{found[name]:.1%} ({low:.1%} to {high:.1%})"

    cells = (
        f"[{path.stem}]({path.name}), {content['cpu']}",
        content.get("kernels", "not recorded"),
        f"{len(records)}",
        percent("regret mean"),
        percent("regret 95th percentile"),
        f"{found['regret worst']:.1%}",
        f"{found['prediction error, median']:.1%}" if "prediction error, median" in found else "-",
        f"{found['over NumPy, worst']:.3f} / {found['over NumPy, geometric mean']:.3f}",
        "yes" if content.get("between") else "no",
        content["date"][:10],
        content.get("note", ""),
    )
    return f"| {' | '.join(cells)} |\n"
