"""What a whole forward pass gains by its linear layers, whose share of the time is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

# The seconds of a pass, and the calls of its linear layers: name, rows, seconds.
Pass = tuple[float, list[tuple[str, int, float]]]
_ROUNDS = 5


@dataclass(frozen=True)
class Forward:
    """Expected gain of a whole forward pass, by Amdahl's law; printable.

    Attributes
    ----------
    rows : int
        Rows (tokens) of the example: the most that a linear layer took in one call.
    seconds, share : float
        Median time of the pass with torch's layers, and the part of it in layers that falcon takes.
    gain, low, high : float
        Expected time of that pass over the converted model's, and its interval: from the least to
        the largest of the measured shares and gains.
    measured : bool
        False where gains of layers are predicted, over falcon's own products without panels.

    Examples
    --------
    >>> import torch, falcon.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.ReLU())  # too small to gain
    >>> falcon.torch.convert_(model, example=torch.ones(5, 8)).forward.gain
    1.0
    """

    rows: int
    seconds: float
    share: float
    gain: float
    low: float
    high: float
    measured: bool

    def __str__(self) -> str:
        return (
            f"forward pass of {self.rows} rows: {1e3 * self.seconds:.3g} ms with torch's layers, "
            f"{100 * self.share:.0f} % in those that are on falcon now; expected gain "
            f"{self.gain:.2f} ({self.low:.2f} to {self.high:.2f})"
            f"{'' if self.measured else ', predicted only'}"
        )


@torch.no_grad()
def timed(
    model: nn.Module, layers: Mapping[str, nn.Module], example: Any, rounds: int = _ROUNDS
) -> list[Pass]:
    """Time passes of a model and its layers, after one that warms up.

    `example`: a tensor, a tuple of arguments, or a mapping of keywords.
    """
    keywords = dict(example) if isinstance(example, Mapping) else {}
    operands = () if keywords else example if isinstance(example, tuple) else (example,)
    calls: list[tuple[str, int, float]] = []

    def watched(name: str, forward: Any) -> Any:
        def call(x: Tensor) -> Any:
            start = perf_counter()
            made = forward(x)
            calls.append((name, x.numel() // max(x.shape[-1], 1), perf_counter() - start))
            return made

        return call

    passes: list[Pass] = []
    own = {name: vars(x).get("forward") for name, x in layers.items()}
    try:
        for name, layer in layers.items():  # hooks would end nn.TransformerEncoderLayer's fast path
            layer.forward = watched(name, layer.forward)
        for _ in range(1 + rounds):
            calls.clear()
            start = perf_counter()
            model(*operands, **keywords)
            passes.append((perf_counter() - start, [*calls]))
    finally:
        for name, layer in layers.items():
            del layer.forward
            if own[name] is not None:
                layer.forward = own[name]
    return passes[1:]


def expected(passes: list[Pass], rows: list[dict[str, Any]]) -> Forward:
    """Return what passes gain by layers as in the rows of a report."""
    known = {x["name"]: x for x in rows if x["scheme"] is not None}
    used: list[dict[str, Any]] = []
    found: list[tuple[float, ...]] = []  # of each pass: its share; its gain, least and largest
    for seconds, calls in passes:
        on_falcon = [(known[x], s) for x, n, s in calls if x in known and n >= known[x]["min_m"]]
        used += [row for row, _ in on_falcon]
        gains = [(x["gain"], *(x["interval"] or 2 * (x["gain"],))) for x, _ in on_falcon]
        saved = [
            sum(s * (1 - 1 / gain[i]) for (_, s), gain in zip(on_falcon, gains, strict=True))
            for i in range(3)
        ]
        share = sum(s for _, s in on_falcon) / seconds
        found.append((share, *(seconds / (seconds - x) for x in saved)))
    shares, middle, least, largest = zip(*found, strict=True)
    return Forward(
        max((n for _, calls in passes for _, n, _ in calls), default=0),
        median(seconds for seconds, _ in passes),
        median(shares),
        median(middle),
        min(least),
        max(largest),
        all(x["measured"] for x in used),
    )
