"""The steps of a multiplication on a device: launches of kernels, fills, and products by cuBLAS.

The driver makes lists of steps, which `run` starts. `start` takes the arguments of a step anew: of
a repeated call only addresses differ (`runner.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import cublas, device
from .cublas import Product
from .fused import FusedProduct
from .geometry import Sizes
from .matrix import Memory


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch of a kernel; Python integers are passed as 64 bits, NumPy scalars as they are."""

    stage: str  # named as in the predictions of model.py; "combine" is A and B
    kernel: Any  # compiled for the device
    grid: Sizes
    block: Sizes
    arguments: tuple
    shared: int = 0  # bytes of shared memory that it asks for

    def start(self, _: Any, arguments: Sequence[Any]) -> None:
        self.kernel(self.grid, self.block, tuple(arguments))


@dataclass(frozen=True, slots=True)
class Fill:
    """Memory that is set to zero."""

    stage: str
    arguments: tuple[int, int]  # its address and bytes

    def start(self, _: Any, arguments: Sequence[int]) -> None:
        device.clear(*arguments)


Step = Launch | Fill | Product | FusedProduct


def run(*steps: Step, workspace: Memory | None = None) -> None:
    """Start steps in the current stream; products use `workspace`, or that of cuBLAS's handle."""
    multiplies = any(isinstance(step, Product) for step in steps)
    handle = cublas.handle(workspace) if multiplies else 0
    for step in steps:
        step.start(handle, step.arguments)
