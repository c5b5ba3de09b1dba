"""Times of calls; of those on a GPU, which return early, until the device has done their work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from falcon._tools.timing import LEAST_PAIRS, Estimate, Side, interleave

# Seconds within which further rounds begin: calls of large layers are long enough for one.
_SECONDS = 4.0

T = TypeVar("T")


def timed(
    call: Callable[..., T], devices: Iterable[torch.device], *operands: Any
) -> tuple[T, float]:
    """Return the result of a call, and its seconds until GPUs among the devices have made it."""
    gpus = [x for x in devices if x.type == "cuda"]
    for gpu in gpus:
        torch.cuda.synchronize(gpu)
    start = perf_counter()
    made = call(*operands)
    for gpu in gpus:
        torch.cuda.synchronize(gpu)
    return made, max(perf_counter() - start, 1e-9)


def side(name: str, call: Callable[[], Any], devices: Iterable[torch.device]) -> Side:
    """Return a side of a comparison that times a function whose work is done on these devices."""
    gpus = [x for x in devices if x.type == "cuda"]
    if not gpus:
        return Side.of(name, call)

    def repeated(calls: int) -> None:
        for _ in range(calls):
            call()

    return Side(name, lambda calls: timed(repeated, gpus, calls)[1] / calls, rest=0.0)


def gains(layer: nn.Linear, rows: int, *calls: Callable[[Tensor], Tensor]) -> list[Estimate]:
    """Return torch's time of a layer over that of each call, in turn."""
    generator = torch.Generator("cpu").manual_seed(0)
    x = torch.randn(rows, layer.in_features, generator=generator, device="cpu")
    x, devices = x.to(layer.weight), [layer.weight.device]
    stock: Callable[[Tensor], Tensor] = partial(
        functional.linear, weight=layer.weight, bias=layer.bias
    )
    sides = [side(str(i), partial(call, x), devices) for i, call in enumerate((stock, *calls))]
    with torch.autocast(layer.weight.device.type, enabled=False):
        theirs, *ours = interleave(sides, LEAST_PAIRS, most=LEAST_PAIRS, limit=_SECONDS)
    return [record.over(theirs) for record in ours]
