"""The steps of a multiplication on a device: launches of kernels, fills, and products by cuBLAS.

The driver makes lists of steps, which `run` starts.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from . import cublas, device
from .cublas import Product
from .geometry import Sizes
from .matrix import Memory


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch of a kernel (see `device.launch` for the types of its arguments).

    Attributes
    ----------
    stage : str
        The stage it belongs to, named as in the predictions of model.py.
    kernel : object
        Compiled for the device.
    grid, block : (int, int, int)
    arguments : tuple
    """

    stage: str
    kernel: Any
    grid: Sizes
    block: Sizes
    arguments: tuple


@dataclass(frozen=True, slots=True)
class Fill:
    """Memory whose bytes are set to `value`.

    Attributes
    ----------
    stage : str
    pointer, value, nbytes : int
    """

    stage: str
    pointer: int
    value: int
    nbytes: int


Step = Launch | Fill | Product


def run(*steps: Step, workspace: Memory | None = None) -> None:
    """Start steps in the current stream; products use `workspace`, or that of cuBLAS's handle."""
    multiplies = any(isinstance(step, Product) for step in steps)
    handle: Any
    with cublas.Turn(workspace) if multiplies else nullcontext() as handle:
        for step in steps:
            if isinstance(step, Launch):
                device.launch(step.kernel, step.grid, step.block, step.arguments)
            elif isinstance(step, Product):
                cublas.start(handle, step)
            else:
                device.set_bytes(step.pointer, step.value, step.nbytes)
