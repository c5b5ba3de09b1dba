"""Confidence intervals of the figures of `falcon.bench.regret`; the page that compares machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .regret_summary import summary

# Resamples of the shapes, and the confidence level of the intervals.
_RESAMPLES, _LEVEL = 2000, 0.95
_FIGURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "regret mean": lambda x: x.mean(axis=1),
    "regret 95th percentile": lambda x: np.quantile(x, 0.95, axis=1),
}
_HEAD = """# Regret by machine

One row per record file of this folder; `python -m falcon.bench.regret --page docs/regret` writes
the page. Regret is how much longer the choice takes than the fastest of its rivals, measured in
fresh pairs ([decision.md](../decision.md#how-good-the-choices-are)). Intervals hold 95 % of 2000
resamples of the shapes. "np.matmul between": np.matmul was called before every timed call.

| machine | kernels | shapes | regret, mean | 95th percentile | worst | prediction, median error \
| over NumPy, worst / mean | np.matmul between | measured | note |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def intervals(records: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the 95 % confidence intervals of figures of `summary`, by the bootstrap.

    Shapes are resampled, not timings: the intervals say what another sample of shapes may give.
    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7,
    1979.
    """
    if len(records) < 2:
        return {}
    regrets = np.array([x["regret"] for x in records])
    random = np.random.default_rng(0)
    some = regrets[random.integers(0, len(regrets), (_RESAMPLES, len(regrets)))]
    ends = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    found = {name: np.quantile(of(some), ends) for name, of in _FIGURES.items()}
    return {name: (float(x[0]), float(x[1])) for name, x in found.items()}


def page(folder: Path) -> str:
    """Return the page of a folder of record files."""
    return _HEAD + "".join(_row(path) for path in sorted(folder.glob("*.json")))


def _row(path: Path) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    records = content["records"]
    found, ends = summary(records), intervals(records)

    def percent(name: str) -> str:
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
