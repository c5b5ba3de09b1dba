"""`Method` and `Candidate`: a way to multiply a problem, and what is predicted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from falcon.schemes import ComplexScheme, Scheme

from .arithmetic import Arithmetic
from .dtypes import DType


@dataclass(frozen=True, slots=True)
class Method:
    """One way for a backend to multiply a problem."""

    backend: str
    scheme: Any  # None is the classical algorithm; for complex matrices, a library's own
    # Rows of A, columns of B and inner length that are multiplied at a time.
    chunks: tuple[int, int, int]
    workspace: int  # bytes allocated during the call, beyond the result
    fused_output: bool = False  # Combine H is done on chip: the products are not written to memory
    # How often A and B are combined and C is updated, because the problem is cut into chunks.
    again: tuple[int, int, int] = (1, 1, 1)
    layout: Any = ()  # further parameters of the backend, private to it
    b_in_place: bool = False  # A has few rows, and B is read once, without a copy of it in memory
    in_place: bool = False  # no operand is copied
    is_tiny: bool = False  # handing the product to another library would take longer
    large_workspace: bool = False  # it uses more workspace than calls usually do, for fewer chunks
    slice: int = 0  # steps of K that are summed from 0, before they are added to C; 0: all
    # Predicted RMS error if the backend's rounding differs from what `Scheme.rms_growth` assumes.
    rounded_growth: float | None = None
    name: str = ""  # its label, if not the name of its scheme
    # As which elements are multiplied, if not as those of their own type.
    compute_type: DType | None = None

    @property
    def label(self) -> str:
        """`name`, or the arithmetic, if that is another, and the scheme or "classical"."""
        if self.name:
            return self.name
        how, name = self.arithmetic, "classical" if self.scheme is None else self.scheme.name
        return name if how is None else f"{how.name} {name}"

    @property
    def arithmetic(self) -> Arithmetic | None:
        """How elements are multiplied, if not as those of their own type."""
        return None if self.compute_type is None else self.compute_type.arithmetic

    @property
    def splits(self) -> int:
        """Numbers by which an element is multiplied: 1 but for splits of float32."""
        return 1 if self.compute_type is None else self.compute_type.splits

    @property
    def is_classical(self) -> bool:
        """Whether it is the classical algorithm."""
        return self.scheme is None or (
            isinstance(self.scheme, ComplexScheme) and self.scheme.is_classical
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is the classical algorithm, in the elements' own arithmetic."""
        return self.is_classical and self.arithmetic is None

    @property
    def stored(self) -> Scheme | None:
        """The scheme by itself, without the way in which complex numbers are multiplied."""
        return self.scheme.scheme if isinstance(self.scheme, ComplexScheme) else self.scheme

    @property
    def product(self) -> str:
        """How complex numbers are multiplied: "3M" or "4M", by so many real products; else ""."""
        return self.scheme.product.name if isinstance(self.scheme, ComplexScheme) else ""

    @property
    def growth(self) -> float:
        """Predicted RMS error relative to the classical algorithm."""
        if self.rounded_growth is not None:
            return self.rounded_growth
        return self.scheme.rms_growth if self.scheme is not None else 1.0

    @property
    def levels(self) -> int:
        """How many schemes are nested: 0 for the classical algorithm, 2 for Strassen twice."""
        return 0 if self.scheme is None else self.scheme.levels


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method with its predicted seconds per stage, and why it was not chosen."""

    method: Method
    seconds: tuple[tuple[str, float], ...]
    refused: str = ""  # why it was not chosen; empty for the choice
    # Whether all limits allow it: if it was not chosen, then because of its predicted time.
    allowed: bool = True
    price: float = 1.0  # by what its predicted time is multiplied before it is compared

    @property
    def total(self) -> float:
        """Predicted seconds of all stages."""
        total = 0.0
        for _, time in self.seconds:  # sum() rounds otherwise from Python 3.12 on
            total += time
        return total


def check_scheme(name: str, value: Any) -> str | Scheme:
    """A name or a Scheme; names are looked up later, by `resolve_options`."""
    if not isinstance(value, str | Scheme):
        raise TypeError(f"{name} is of type {type(value).__name__}; expected a name or a Scheme")
    return value
