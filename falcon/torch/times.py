"""Times of calls; of those on a GPU, which return early, until the device has done their work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import torch

from falcon._core.timing import Side


def wait_for(devices: Iterable[torch.device]) -> None:
    """Wait until the GPUs among some devices have done what they were given."""
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def side(name: str, call: Callable[[], Any], devices: Iterable[torch.device]) -> Side:
    """Return a side of a comparison that times a function whose work is done on these devices."""
    gpus = [x for x in devices if x.type == "cuda"]
    if not gpus:
        return Side.of(name, call)

    def mean(calls: int) -> float:
        wait_for(gpus)
        start = perf_counter()
        for _ in range(calls):
            call()
        wait_for(gpus)
        return max((perf_counter() - start) / calls, 1e-9)

    return Side(name, mean, rest=0.0)
