"""`Rates`: measured speeds of a backend, from which the cost model predicts seconds.

A backend with its own cost model has its own type of rates: a frozen dataclass of numbers and
tuples of numbers. It must refuse values out of range, since it is loaded from JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from sys import float_info
from typing import Any

# Stands for a rate that is too large to measure: more than 100,000 cores could reach.
UNMEASURED = 1e15


class DisturbedError(RuntimeError):
    """Other programs took so much of the machine that a measurement says little."""


def positive(name: str, *values: Any) -> None:
    """Raise TypeError or ValueError unless all values are finite numbers above 0."""
    not_negative(name, *values)
    if 0 in values:
        raise ValueError(f"{name} is 0; expected a number > 0")


def not_negative(name: str, *values: Any) -> None:
    """Raise TypeError or ValueError unless all values are finite numbers of at least 0."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} is {value!r}; expected a number")
        if not 0 <= value <= float_info.max:  # an int may exceed the largest float
            raise ValueError(f"{name} is {str(value)[:40]}, which is out of range")


# Steps of K after which a classical product is taken to add to C again.
SLICE = 384


def classical_terms(M: int, N: int, K: int, tile: tuple[int, int]) -> tuple[float, ...]:
    """Return how much a classical product has of what `Rates.classical` is the cost of."""
    macs = -(-M // tile[0]) * tile[0] * -(-N // tile[1]) * tile[1] * K
    return 1.0, float(macs), float(M * K), float(K * N), float(M * N), float(-(-K // SLICE) * M * N)


def giga(rate: float) -> str:
    """Format a rate in units of 10^9, or as "beyond measure" if it was too large to measure."""
    return f"{rate / 1e9:.2f}" if rate < UNMEASURED else "beyond measure"


@dataclass(frozen=True, slots=True)
class Rates:
    """Speed of a backend for one dtype and number of threads on this machine.

    With the first three alone and defaults for the others, the cost model (formulas in `model.py`)
    is FalconGEMM's.
    """

    multiply: float  # F*: products, flop/s, all threads together
    add: float  # F+: block additions, flop/s
    bandwidth: float  # beta: elements/s that combines read and write
    # omega: 1, arithmetic and memory traffic of a combine overlap; 0, their times add up.
    overlap: float = 1.0
    # mr, nr: products are computed in whole tiles of that many rows and columns.
    tile: tuple[int, int] = (1, 1)
    # Seconds that a classical product takes for: the call, a multiply-add of a tile, an element of
    # A, of B, of C, and of C in every slice of K; empty: not known.
    classical: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        not_negative("classical", *self.classical)
        if len(self.classical) not in (0, 6):
            raise ValueError(f"classical has {len(self.classical)} numbers; expected 6, or none")
        for name in ("multiply", "add", "bandwidth"):
            positive(name, getattr(self, name))
        not_negative("overlap", self.overlap)
        positive("tile", *self.tile)
        if len(self.tile) != 2:
            raise ValueError(f"tile has {len(self.tile)} numbers; expected 2")
        if self.overlap > 1:
            raise ValueError(f"overlap is {self.overlap}; expected at most 1")

    def __str__(self) -> str:
        return (
            f"multiply {self.multiply / 1e9:.1f} GFLOP/s, add {giga(self.add)} GFLOP/s, "
            f"combine {giga(self.bandwidth)} G elements/s"
        )

    def slower(self, factor: float) -> Rates:
        """Return the rates of a machine on which everything takes `factor` times as long."""
        return self.on(1 / factor, 1 / factor)

    def on(self, cores: float, memory: float) -> Rates:
        """Return the rates of a machine with faster cores, all together, and faster memory.

        `cores`, `memory`: how many times as fast.
        """
        return replace(
            self,
            multiply=_times(self.multiply, cores),
            add=_times(self.add, cores),
            bandwidth=_times(self.bandwidth, memory),
            classical=(*self.classical[:1], *(x / cores for x in self.classical[1:])),
        )

    def classical_seconds(self, M: int, N: int, K: int) -> float | None:
        """Predict a classical product of any size; None: its costs are not known."""
        if not self.classical:
            return None
        terms = classical_terms(M, N, K, self.tile)
        return sum(x * y for x, y in zip(self.classical, terms, strict=True))


def _times(rate: float, factor: float) -> float:
    return rate if rate >= UNMEASURED else rate * factor
