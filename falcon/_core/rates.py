"""`Rates`: measured speeds of a backend, from which the cost model predicts seconds.

A backend with its own cost model has its own type of rates: a frozen dataclass of numbers and
tuples of numbers. It must refuse values out of range, since it is loaded from JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from sys import float_info
from typing import Any


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


def giga(rate: float) -> str:
    """Format a rate in units of 10^9, or as "beyond measure" if it was too large to measure."""
    return f"{rate / 1e9:.2f}" if rate < 1e13 else "beyond measure"


# The fields of `Rates` that are speeds, and those that are times.
_SPEEDS = "multiply", "add", "bandwidth", "combine", "pack", "update", "update_far", "store"
_TIMES = "surface", "surface_far", "ragged", "disturbance", "overhead"


@dataclass(frozen=True, slots=True)
class Rates:
    """Speed of a backend for one dtype and number of threads on this machine.

    With the first three alone and defaults for the others, the cost model (formulas in `model.py`)
    is FalconGEMM's.
    """

    multiply: float  # F*: products, flop/s, all threads together
    add: float  # F+: block additions inside the cache, flop/s
    bandwidth: float  # beta: streaming to and from memory, elements/s
    # omega: 1, arithmetic and memory traffic of a combine overlap; 0, their times add up.
    overlap: float = 1.0
    # beta_A near, far, beta_B near, far: elements/s that Combine A and B read and write, where all
    # sums take at most `cache` bytes and where they take more. (): `bandwidth`.
    combine: tuple[float, ...] = ()
    # pi_A, pi_B: elements/s that the classical algorithm reads and writes to lay out A and B, not
    # counting the time in which it multiplies meanwhile. (): `bandwidth`.
    pack: tuple[float, ...] = ()
    cache: float = 0.0  # bytes of sums up to which the near rates of `combine` hold
    # mr, nr: products are computed in whole tiles of that many rows and columns.
    tile: tuple[int, int] = (1, 1)
    slice: int = 0  # kc: length of the slices of K in which products are summed; 0, no slices
    loss: float = 0.0  # kappa: fixed cost of a slice, as additional length of K
    # sigma_A, sigma_B, sigma_C: seconds per element of a product's operands and result, where the
    # operands of all products take at most `surface_cache` bytes.
    surface: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # The same where they take more. (): `surface`.
    surface_far: tuple[float, ...] = ()
    surface_cache: float = 0.0  # see `surface`
    # epsilon_N, epsilon_M: seconds per element of A for a binary digit of N mod 16, and per element
    # of B for one of M mod 4. A BLAS multiplies the columns and rows that are left over in kernels
    # of 8, 4, 2 and 1, each of which reads the whole operand again.
    ragged: tuple[float, float] = (0.0, 0.0)
    update: float = 0.0  # F_H: products added to blocks of C on chip, elements/s; 0, at `add`
    # F_H far: the same with blocks of K of 1024 steps and more, whose panels push the blocks of C
    # out of caches (in between, times are interpolated); 0, `update`.
    update_far: float = 0.0
    # sigma_H: seconds by which an added element delays products, whose panels it pushes out of
    # caches.
    disturbance: float = 0.0
    store: float = 0.0  # beta_C: C written, elements/s; 0, `bandwidth`
    overhead: float = 0.0  # tau: seconds of a call in which nothing is computed

    def __post_init__(self) -> None:
        positive("multiply", self.multiply)
        positive("add", self.add)
        positive("bandwidth", self.bandwidth)
        for name, values, counts in (
            ("combine", self.combine, (0, 4)),
            ("pack", self.pack, (0, 2)),
            ("tile", self.tile, (2,)),
        ):
            positive(name, *values)
            if len(values) not in counts:
                raise ValueError(f"{name} has {len(values)} numbers; expected {counts[-1]}")
        for name, values, counts in (
            ("surface", self.surface, (3,)),
            ("surface_far", self.surface_far, (0, 3)),
            ("ragged", self.ragged, (2,)),
        ):
            not_negative(name, *values)
            if len(values) not in counts:
                raise ValueError(f"{name} has {len(values)} numbers; expected {counts[-1]}")
        for name in (
            *("overlap", "cache", "surface_cache", "slice", "loss", "update", "update_far"),
            *("disturbance", "store", "overhead"),
        ):
            not_negative(name, getattr(self, name))
        if self.overlap > 1:
            raise ValueError(f"overlap is {self.overlap}; expected at most 1")

    def __str__(self) -> str:
        return (
            f"multiply {self.multiply / 1e9:.1f} GFLOP/s, add {giga(self.add)} GFLOP/s, "
            f"combine {giga(self.bandwidth)} G elements/s"
        )

    def slower(self, factor: float) -> Rates:
        """Return the rates of a machine on which everything takes `factor` times as long."""
        scaled = {name: _times(getattr(self, name), 1 / factor) for name in _SPEEDS}
        return replace(self, **scaled, **{x: _times(getattr(self, x), factor) for x in _TIMES})


def _times(value: Any, factor: float) -> Any:
    return tuple(x * factor for x in value) if isinstance(value, tuple) else value * factor
