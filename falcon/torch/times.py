"""Times of calls; of those on a GPU, which return early, until the device has done their work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, TypeVar

import torch

from falcon._core.timing import Side

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
