"""What a whole forward pass gains by the layers that were converted: both are timed in turns.

The gains of single layers do not tell it: threads of torch's other operators go on spinning when a
layer begins, and take CPUs from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map

from falcon._tools.progress import Progress
from falcon._tools.timing import LEAST_PAIRS, Estimate, interleave, repeats_for, withheld

from .layers import FalconLinear
from .times import side, timed

# In which type the error of a pass by weights of another is measured.
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
# Seconds within which more rounds than `LEAST_PAIRS` begin.
_SECONDS = 5.0


@dataclass(frozen=True)
class Forward:
    """Gain of a whole forward pass of a model on an example; printable.

    It holds for the rows of the example: fewer or more gain something else.

    Attributes
    ----------
    rows : int
        Rows (tokens) of the example: the most that a linear layer takes in one call.
    seconds, share : float
        Median time of the pass with torch's layers, and the part of it in converted ones.
    gain, low, high : float
        Time of that pass over the converted model's: median, and an interval of 94 % or more.
    verdict : str
        What the interval says: faster, slower, as fast (within 5 %) or undecided.
    disturbed : str
        How other programs disturbed the timings, so that they decide nothing; "": they did not, or
        the gain is beyond what that makes.
    wider : str
        In which type the errors were measured; "": nothing was converted, or there is no wider one.
    error_of_torch, error : float, optional
        Error of the pass with torch's layers, and with falcon's, over the norm of its results;
        None: unknown, as the model fails in that type or returns no floats.

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
    verdict: str
    wider: str = ""
    error_of_torch: float | None = None
    error: float | None = None
    disturbed: str = ""

    def __str__(self) -> str:
        errors = "{:.3g} with torch's layers, {:.3g} with falcon's"
        if self.error is None:
            errors = "unknown, as the model fails there or returns no floats"
        long = self.seconds >= 1
        lines = [
            f"forward pass of {self.rows} rows: {self.seconds * (1 if long else 1e3):.2f} "
            f"{'s' if long else 'ms'} with torch's layers, {100 * self.share:.0f} % in those that "
            "falcon took",
            f"gain of a pass of {self.rows} rows {ranged(self.gain, self.low, self.high)}: "
            f"{self.verdict}",
        ]
        if self.disturbed:
            lines.append(withheld(self.disturbed))
        if self.wider:
            told = errors.format(self.error_of_torch, self.error)
            lines.append(f"error of the pass against {self.wider}: {told}")
        return "\n".join(lines)


def ranged(gain: float, low: float, high: float) -> str:
    """Return a gain and its interval, if that is more than the gain: "1.20 (1.10 to 1.30)"."""
    shown, *ends = (f"{x:.2f}" for x in (gain, low, high))
    return shown if ends == [shown] * 2 else f"{shown} ({' to '.join(ends)})"


def compare(
    model: nn.Module, layers: Mapping[str, nn.Module], example: Any, told: Progress
) -> Forward:
    """Time passes with torch's linear layers and with those that were converted, in turns."""
    told.part(LEAST_PAIRS, "rounds")
    told.say("timing the forward pass of the example")
    ours = [x for x in layers.values() if isinstance(x, FalconLinear)]

    def call(kind: type[nn.Linear], dtype: torch.dtype | None = None) -> Any:
        for layer in ours:
            layer.__class__ = kind
        return _run(model, example, dtype)

    gain = Estimate(1.0, 1.0, 1.0, LEAST_PAIRS)  # where nothing was converted
    wider: torch.dtype | None = None
    errors: tuple[float | None, float | None] = None, None
    training = [x for x in model.modules() if x.training]
    try:
        for module in training:  # passes would change statistics, such as BatchNorm's
            module.training = False
        call(nn.Linear)
        whole, calls = watch(model, layers, example)
        seconds = whole
        if ours:
            kinds = {"falcon": FalconLinear, "torch": nn.Linear}
            devices = _devices(layers)
            sides = [side(name, partial(call, kind), devices) for name, kind in kinds.items()]
            call(FalconLinear)  # both are warm then
            most, repeats = 2 * LEAST_PAIRS, repeats_for(whole)
            made, stock = interleave(
                sides, most=most, seconds=_SECONDS, calls=repeats, after_round=told.step
            )
            gain, seconds = made.over(stock), stock.median
            told.say("computing the error of the forward pass")
            wider = _WIDER.get(ours[0].weight.dtype)
            if wider is not None:
                errors = _errors(call, wider)
    finally:
        for module in training:
            module.training = True
        for layer in ours:
            layer.__class__ = FalconLinear
    fewest = {
        name: x._panels.how.min_m for name, x in layers.items() if isinstance(x, FalconLinear)
    }
    taken = sum(t for name, rows, t in calls if name in fewest and rows >= fewest[name])
    most = max((rows for _, rows, _ in calls), default=0)
    about = gain.median, gain.low, gain.high, gain.verdict, str(wider or "")[6:]
    return Forward(most, seconds, taken / whole, *about, *errors, gain.doubt)


def _errors(call: Callable[..., Any], wider: torch.dtype) -> tuple[float | None, float | None]:
    """Return the relative errors of passes by torch's and by falcon's layers."""

    def floats(*how: Any) -> list[Tensor]:
        return [x for x in tree_leaves(call(*how)) if _is_float(x)]

    def norm(some: list[Tensor]) -> float:
        return sum(float(x.norm(dtype=torch.float64)) ** 2 for x in some) ** 0.5

    try:
        right = floats(nn.Linear, wider)
    except (RuntimeError, TypeError, ValueError, MemoryError):  # a type is fixed in the model
        return None, None
    if not right:
        return None, None
    pairs = (zip(floats(kind), right, strict=True) for kind in (nn.Linear, FalconLinear))
    theirs, ours = (norm([x.to(y.dtype) - y for x, y in some]) for some in pairs)
    return theirs / (norm(right) or 1.0), ours / (norm(right) or 1.0)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def watch(
    model: nn.Module, layers: Mapping[str, nn.Module], example: Any
) -> tuple[float, list[tuple[str, int, float]]]:
    """Run a model; return the seconds, and the calls of its layers: name, rows, seconds."""
    calls: list[tuple[str, int, float]] = []
    devices = _devices(layers)

    def watched(name: str, forward: Any) -> Any:
        def call(input: Tensor) -> Any:  # its name is that of nn.Linear's
            made, seconds = timed(forward, devices, input)
            calls.append((name, input.numel() // max(input.shape[-1], 1), seconds))
            return made

        return call

    own = {name: vars(x).get("forward") for name, x in layers.items()}
    try:
        for name, layer in layers.items():  # hooks would end nn.TransformerEncoderLayer's fast path
            layer.forward = watched(name, layer.forward)
        return timed(_run, devices, model, example)[1], calls
    finally:
        for name, layer in layers.items():
            del layer.forward
            if own[name] is not None:
                layer.forward = own[name]


def _devices(layers: Mapping[str, nn.Linear]) -> set[torch.device]:
    return {x.device for layer in layers.values() for x in layer.parameters()}


@torch.no_grad()
def _run(model: nn.Module, example: Any, dtype: torch.dtype | None = None) -> Any:
    """Run a model on a tensor, a tuple of arguments, or a mapping of keywords.

    `dtype`: of all floats, of the model too.
    """
    given, words = (example if isinstance(example, tuple) else (example,)), {}
    if isinstance(example, Mapping):
        given, words = (), {**example}
    if dtype is None:
        return model(*given, **words)
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    wide = tree_map(lambda x: x.to(dtype) if _is_float(x) else x, (held, given, words))
    return functional_call(model, *wide)
