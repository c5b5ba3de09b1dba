"""The steps of a multiplication on a device as data, which later calls can repeat.

::

    Launch, Fill, Product     a step with its arguments (`Product` is cublas.py's)
    Address                   an address together with the array of a call that it points into
    Program                   steps whose addresses are set anew for the arrays of each call

The driver only makes steps; `Program.run` alone starts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from . import cublas, device
from .cublas import Product
from .geometry import Sizes
from .matrix import Matrix


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
    arguments : (int, int, int)
        Address, value, bytes.
    """

    stage: str
    arguments: tuple[int, int, int]


Step = Launch | Fill | Product


class Address(int):
    """An address in one of a call's arrays; its sum with an offset is in the same array.

    Attributes
    ----------
    slot : int
        The array's index in the bases of `Program.run`.
    """

    slot: int

    @classmethod
    def of(cls, value: int, slot: int) -> Address:
        """Return an address in the array of that index."""
        made = cls(value)
        made.slot = slot
        return made

    def __add__(self, other: int) -> Address:
        return Address.of(int(self) + other, self.slot)

    __radd__ = __add__


def placed(x: Matrix, slot: int) -> Matrix:
    """Return the matrix with an `Address`."""
    return replace(x, pointer=Address.of(x.pointer, slot))


class Program:
    """Steps whose addresses are relative to some arrays.

    Parameters
    ----------
    steps : iterable of Step
        `run` replaces every `Address` in them; other addresses stay.
    bases : sequence of int
        Addresses of the arrays when the steps were made.
    """

    __slots__ = ("_multiplies", "_steps")

    def __init__(self, steps: Iterable[Step], bases: Sequence[int] = ()) -> None:
        made = []
        for step in steps:
            arguments = cublas.converted(step) if isinstance(step, Product) else step.arguments
            moved = tuple(
                (at, x.slot, int(x) - bases[x.slot])
                for at, x in enumerate(step.arguments)
                if isinstance(x, Address)
            )
            made.append((step, list(arguments), moved))
        self._steps = made
        self._multiplies = any(isinstance(step, Product) for step, _, _ in made)

    def run(self, bases: Sequence[int] = ()) -> None:
        """Start all steps in the current stream, with the arrays at these addresses."""
        turn: Any = cublas.Turn() if self._multiplies else nullcontext()
        with turn as handle:
            for step, template, moved in self._steps:
                arguments = template.copy()
                for at, slot, offset in moved:
                    arguments[at] = bases[slot] + offset
                if isinstance(step, Launch):
                    device.launch(step.kernel, step.grid, step.block, tuple(arguments))
                elif isinstance(step, Product):
                    cublas.start(handle, arguments)
                else:
                    device.set_bytes(*arguments)


def run(*steps: Step) -> None:
    """Start steps that are not to be repeated."""
    Program(steps).run()
