"""`convert_` and `revert_`: the linear layers of a model on falcon, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import falcon
from falcon._front.surface import device_backend, predicted, validated
from falcon._tools.checks import check_number
from falcon._tools.progress import Progress

from . import ops
from .config import LinearConfig
from .forward import compare
from .layers import FalconLinear, attach, detach
from .operands import DTYPES, is_foreign
from .packed import How, Panels, forget, state_of
from .report import Report
from .stock import is_library, uses_tf32
from .times import gains

# Fewer rows with which falcon's product is measured, until torch's is faster.
_FEWER = 64, 16
# How much faster than torch's product falcon's must be, and than falcon's own without panels.
_LEAST_GAIN = 1.02


@dataclass
class _Choice:
    """What is known of the layers of one shape."""

    how: How | None
    reason: str = ""
    gain: float | None = None
    interval: tuple[float, float] | None = None  # of a gain that was measured
    disturbed: str = ""  # `Estimate.doubt` of it
    label: str = ""
    panels: Panels | None = None  # of the first of them
    plain: _Choice | None = None  # without panels


def convert_(
    model: nn.Module,
    config: LinearConfig | None = None,
    *,
    error: float | None = None,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    example: Any = None,
    min_gain: float | None = None,
    progress: bool = True,
) -> Report:
    """Let a model's linear layers run on falcon, in place, where that is faster.

    Parameters
    ----------
    model : nn.Module
        In host memory or on GPUs. Layers that are nn.Linear itself, not a subclass, become
        `FalconLinear`; their parameters, and so the state_dict, remain as they are.
    config : LinearConfig, optional
    error : float, optional
        That of the config.
    filter_fn : callable, optional
        Called with a layer and its name; False leaves it out.
    example : Tensor, tuple, mapping or list of these, optional
        An input of the model, or all of its arguments, or keywords; a list has several examples,
        such as one of each usual number of rows. The model, in eval mode, runs on each with torch's
        layers and with falcon's, in turns, and the report ends with the gain, and with the errors
        of both against the next wider type, in which it runs once.
    min_gain : float, optional
        With `example`: all layers are torch's again unless every pass surely gains that much (the
        low end of the interval); 1.0: unless all are surely faster.
    progress : bool
        Say on standard error what is being done while it takes long: in a line of a terminal, which
        is gone in the end; elsewhere by a line after 5 s, and every 10 s.

    Returns
    -------
    Report
        What each layer does, and why.

    Raises
    ------
    TypeError, ValueError
        `model` is no module, there is no example in the list, or a scheme by name cannot multiply a
        layer.

    Notes
    -----
    Layers that were converted before are converted anew. Panels are made now; a changed weight is
    noticed by its memory, dtype and version counter, by steps of optimizers and by merges of
    PEFT, and in host memory by a sample of its entries. Writing to a few entries through
    ``weight.data``, NumPy or DLPack bypasses these: convert the model again then. If
    converting fails, or is interrupted, the model has torch's layers.

    Examples
    --------
    >>> import torch, falcon.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.ReLU())
    >>> report = falcon.torch.convert_(model, falcon.torch.LinearConfig(measure=False))
    >>> report.rows[0]["shape"], type(model[0]).__name__
    ((400, 300), 'FalconLinear')
    >>> _ = falcon.torch.revert_(model)
    """
    _check_model(model)
    if min_gain is not None:
        min_gain = check_number("min_gain", min_gain)
        if example is None:
            raise TypeError("min_gain is the gain of a forward pass: it needs an example")
    if config is not None and not isinstance(config, LinearConfig):
        raise TypeError(f"config is a {type(config).__name__}; expected a LinearConfig")
    config = LinearConfig() if config is None else config
    config = config if error is None else replace(config, error=error)
    examples = example if isinstance(example, list) else [] if example is None else [example]
    if example is not None and not examples:
        raise ValueError("example is an empty list; expected an input of the model, or several")
    revert_(model)
    layers = {name: x for name, x in model.named_modules() if isinstance(x, nn.Linear)}
    if filter_fn is not None:
        layers = {name: x for name, x in layers.items() if filter_fn(x, name)}
    told = Progress("")
    with told if progress and sys.stderr is not None else nullcontext():
        try:
            rows = _rows(layers, config, told)
            found = tuple(compare(model, layers, x, told) for x in examples)
            if min_gain is None or all(x.low >= min_gain and not x.disturbed for x in found):
                return Report(rows, found)
            revert_(model)
            none = {"scheme": None, "packed": False, "min_m": None, "extra_bytes": 0}
            why = "reverted: min_gain"
            return Report([{**x, **none, "reason": x["reason"] or why} for x in rows], found)
        except BaseException:
            revert_(model)
            raise


def _rows(
    layers: Mapping[str, nn.Linear], config: LinearConfig, told: Progress
) -> list[dict[str, Any]]:
    """Convert layers; return the rows of the report."""
    # Of weights that were changed unnoticed, and are tied to layers that have panels.
    weights = (x.weight for x in layers.values() if type(x) is nn.Linear)
    forget(w for w in weights if w is not None)
    shapes: dict[tuple, list[str]] = {}
    chosen: dict[str, _Choice] = {}
    for name, layer in layers.items():
        if reason := _why_not(layer, config):
            chosen[name] = _Choice(None, reason)
            continue
        w = layer.weight
        key = w.shape, w.stride(), w.dtype, w.device, layer.bias is None
        shapes.setdefault(key, []).append(name)
    told.part(len(shapes), "shapes")
    for key, names in shapes.items():
        told.say(f"{names[0]}: choosing for {' x '.join(map(str, key[0]))}")
        chosen |= dict.fromkeys(names, _chosen(layers[names[0]], config))
        told.step()
    told.part(len(layers), "layers")
    rows: dict[str, dict[str, Any]] = {}
    seen: set[tuple] = set()
    left = validated({"memory_limit": config.memory_limit})["memory_limit"]
    for name in sorted(layers, key=lambda name: -(chosen[name].gain or 0.0)):
        told.say(f"{name}: packing")
        made = _converted(name, layers[name], chosen[name], left, seen)
        rows[name] = {**made, "rows": config.rows}
        left = None if left is None else left - rows[name]["extra_bytes"]
        told.step()
    return [rows[name] for name in layers]


def revert_(model: nn.Module) -> nn.Module:
    """Make every `FalconLinear` of a model an nn.Linear again, in place; return the model.

    Examples
    --------
    >>> layer = torch.nn.Linear(8, 9)
    >>> _ = falcon.torch.convert_(layer)
    >>> type(falcon.torch.revert_(layer)).__name__
    'Linear'
    """
    _check_model(model)
    for layer in model.modules():
        if isinstance(layer, FalconLinear):
            detach(layer)
    return model


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; expected a torch.nn.Module")


def _why_not(layer: nn.Linear, config: LinearConfig) -> str:
    """Return why a layer is left to torch without a look at speeds; "" if it is not."""
    w = layer._parameters.get("weight")
    if type(layer) is not nn.Linear:
        return f"a {type(layer).__name__}, not an nn.Linear itself"
    if "forward" in vars(layer):
        return "its forward is one of its own"
    if w is None:
        return "its weight is no parameter"
    if w.is_inference():
        return "its weight was made in inference_mode, where changes cannot be noticed"
    if not (w.is_cpu or w.is_cuda):
        return f"on {w.device}"
    if is_foreign(w):
        return f"its weight is a {type(w).__name__} ({w.layout})"
    if w.is_cuda and (missing := device_backend().why_unavailable()):
        return f"on {w.device}: {missing}"
    if w.is_cuda and config.batch_invariant:
        return f"on {w.device}, where batch_invariant=True cannot be kept"
    missing = DTYPES.get(w.dtype, f"falcon multiplies no {str(w.dtype).removeprefix('torch.')}")
    if missing:
        return missing
    if config.rows * w.numel() < (0 if config.batch_invariant else ops.LEAST_PRODUCT):
        return "too small"
    return ""


def _chosen(layer: nn.Linear, config: LinearConfig) -> _Choice:
    """Return how layers of this one's shape run: as is fastest for it, where that is measured."""
    how, w = config.how(layer.weight.dtype), layer.weight
    panels = Panels(how)
    try:
        packed = panels.of(w)
    # A package for the dtype is missing, the scheme does not fit it, or panels into memory.
    except (TypeError, MemoryError) as error:
        return _Choice(None, str(error) or "no memory for panels")
    plan = falcon.plan((config.rows, w.shape[1]), packed)
    if w.is_cuda and is_library(plan):
        return _Choice(None, "cuBLAS is as fast")
    found = _Choice(how, panels=panels, label=plan.label)
    if config.measure and config.scheme == "auto" and not config.batch_invariant:
        return _measured(layer, found, _FEWER if config.min_m is None else ())
    if w.is_cuda:
        return _predicted_on_gpu(w, config, found, predicted(plan).total)
    best, plain = (x.total for x in plan.candidates)
    if config.scheme == "auto" and not config.batch_invariant and plain < best:
        return replace(_without_panels(w, how)[1], gain=1.0)
    return replace(found, gain=plain / best)


def _without_panels(w: Tensor, how: How) -> tuple[falcon.Plan, _Choice]:
    """Return the plan of products by the weight as it is, and the choice of these."""
    plan = falcon.plan((how.rows, w.shape[1]), w.detach().mT, **dict(how.options))
    unpacked = replace(how, packs=False, min_m=max(how.rows, how.min_m))
    return plan, _Choice(unpacked, label=plan.label)


def _predicted_on_gpu(w: Tensor, config: LinearConfig, packed: _Choice, best: float) -> _Choice:
    """Return the faster one of panels, which take `best` seconds, and none, by predictions."""
    how = packed.how
    assert how is not None  # for type checkers
    if config.scheme == "auto" and uses_tf32(w.dtype):
        return _Choice(None, "torch multiplies by TF32: only times (measure=True) can compare")
    native = falcon.plan(
        (how.rows, w.shape[1]), w.detach().mT, scheme="classical", arithmetic="native"
    )
    stock, (by_weight, plain) = predicted(native).total, _without_panels(w, how)
    if is_library(by_weight):
        return replace(packed, gain=stock / best)
    gain = stock / predicted(by_weight).total
    plain = replace(plain, gain=gain)
    return plain if gain > stock / best else replace(packed, gain=stock / best, plain=plain)


@torch.no_grad()
def _measured(layer: nn.Linear, packed: _Choice, fewer: tuple[int, ...]) -> _Choice:
    """Return the fastest of torch's product, falcon's by panels, and falcon's without them.

    `fewer`: rows, most first, from which on falcon multiplies if it is faster with these, too.
    """
    assert packed.how is not None  # for type checkers
    assert packed.panels is not None
    w, how = layer.weight, packed.how
    multiply = partial(ops.multiply, width=len(w), bias=layer.bias)
    by_panels = partial(multiply, b=packed.panels.of(w))
    by_weight = partial(multiply, b=w.mT, **dict(how.options))
    known, known_plain = gains(layer, how.rows, by_panels, by_weight)
    gain, gain_plain = known.median, known_plain.median
    packed = replace(packed, disturbed=known.doubt)
    plan, plain = _without_panels(w, how)
    if w.is_cuda and is_library(plan):  # torch's own product, however it was timed
        gain_plain = min(gain_plain, 1.0)
    ends = known_plain.low, known_plain.high
    plain = replace(plain, gain=gain_plain, interval=ends, disturbed=known_plain.doubt)
    if gain_plain < _LEAST_GAIN:
        best = max(gain, gain_plain)
        of = known if best == gain else known_plain
        said = f"gains too little: {best:.2f}"
        plain = _Choice(None, said, best, (of.low, of.high), of.doubt)
    if gain >= _LEAST_GAIN * max(gain_plain, 1.0):
        how = replace(how, min_m=_fewest(layer, how, by_panels, fewer))
        return replace(packed, how=how, gain=gain, interval=(known.low, known.high), plain=plain)
    if plain.how is not None:
        plain.how = replace(plain.how, min_m=_fewest(layer, how, by_weight, fewer))
    return plain


def _fewest(
    layer: nn.Linear, how: How, call: Callable[[Tensor], Tensor], fewer: tuple[int, ...]
) -> int:
    """Return from how many rows on falcon multiplies, which is faster for `how.rows`."""
    fewest = max(how.rows, how.min_m)
    for rows in (how.min_m, *fewer):
        if rows < fewest:
            found = gains(layer, rows, call)[0]
            if found.median < 1.0 or (rows in fewer and found.verdict != "faster"):
                break
            fewest = rows
    return fewest


def _converted(
    name: str, layer: nn.Linear, choice: _Choice, left: int | None, seen: set[tuple]
) -> dict[str, Any]:
    """Convert a layer as chosen; return its row of the report.

    `left`: bytes that panels may take; `seen`: the states of the weights that have some.
    """
    reason, used, w = choice.reason, 0, layer._parameters.get("weight")
    if choice.panels is not None and choice.how is not None:
        state = state_of(w, choice.how)
        used = 0 if state in seen else choice.panels.nbytes
        reason = "shares panels" if state in seen else ""
        if left is not None and used > left:
            used, choice = 0, choice.plain or _Choice(None)
            reason = "memory_limit leaves no room for panels"
    if choice.how is not None:
        made = attach(layer, choice.how)
        try:
            if choice.how.packs:
                made._panels.of(w)
                seen.add(state_of(w, choice.how))
        except MemoryError as error:
            detach(made)
            choice, used, reason = _Choice(None), 0, str(error) or "no memory for panels"
    return {
        "name": name,
        "shape": (layer.out_features, layer.in_features),
        "dtype": str(getattr(w, "dtype", "-")).removeprefix("torch."),
        "scheme": None if choice.how is None else choice.label,
        "packed": choice.how is not None and choice.how.packs,
        "min_m": None if choice.how is None else choice.how.min_m,
        "gain": choice.gain,
        "measured": choice.interval is not None,
        "interval": choice.interval,
        "disturbed": choice.disturbed,
        "extra_bytes": used,
        "reason": reason,
    }
