"""What a multiplication does on a device, as data: steps that later calls repeat.

::

    Launch, Fill, Product     a step with its arguments (`Product` is cublas.py's)
    Address                   an address that knows in which array of a call it lies
    Program                   steps whose addresses follow the arrays of every call

The driver only makes steps, and `Program.run` alone carries them out.
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
    """A kernel: Python integers among the arguments are 64 bits wide, NumPy scalars what they are.

    Attributes
    ----------
    stage : str
        Of the multiplication, as in the predictions of model.py.
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
    """Memory whose bytes become `value`.

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
    """An address in one of a call's arrays; what is added to it leaves it there.

    Attributes
    ----------
    slot : int
        The array's place among the bases of `Program.run`.
    """

    slot: int

    @classmethod
    def of(cls, value: int, slot: int) -> Address:
        """Return an address in the array of that place."""
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
        Whatever is an `Address` in them is moved by `run`; other addresses stay.
    bases : sequence of int
        Where the arrays lay when the steps were made.
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
    """Start steps that will not be repeated."""
    Program(steps).run()
