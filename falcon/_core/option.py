"""`Option` and `Candidate`: a way to multiply a problem, and what is predicted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from falcon.schemes import ComplexScheme, Scheme


@dataclass(frozen=True, slots=True)
class Option:
    """One way for a backend to multiply a problem."""

    backend: str
    scheme: Any  # None is the classical algorithm; for complex matrices, a library's own
    # Rows of A, columns of B and inner length that are multiplied at a time.
    chunks: tuple[int, int, int]
    workspace: int  # bytes allocated during the call, beyond the result
    fused_output: bool = False  # Combine H is done on chip: the products are not written to memory
    # How often A and B are combined and C is updated, because the problem is cut into chunks.
    again: tuple[int, int, int] = (1, 1, 1)
    tiling: Any = ()  # further parameters of the backend, private to it
    few_rows: bool = False  # A has few rows, and B is read once, without a copy of it in memory
    is_roomy: bool = False  # it uses more workspace than calls usually do, for fewer chunks
    # Predicted RMS error if the backend's rounding differs from what `Scheme.rms_growth` assumes.
    rounded_growth: float | None = None
    name: str = ""  # its label, if not the name of its scheme

    @property
    def label(self) -> str:
        """`name`, the name of the scheme, or "classical"."""
        return self.name or ("classical" if self.scheme is None else self.scheme.name)

    @property
    def is_classical(self) -> bool:
        """Whether it is the classical algorithm."""
        return self.scheme is None or (
            isinstance(self.scheme, ComplexScheme) and self.scheme.is_classical
        )

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
    """An option with its predicted seconds per stage, and why it was not chosen."""

    option: Option
    seconds: tuple[tuple[str, float], ...]
    refused: str = ""  # why it was not chosen; empty for the choice
    # Whether all limits allow it: if it was not chosen, then because of its predicted time.
    allowed: bool = True

    @property
    def total(self) -> float:
        """Predicted seconds of all stages."""
        total = 0.0
        for _, time in self.seconds:  # sum() rounds otherwise from Python 3.12 on
            total += time
        return total
