"""`Element`: what the CUDA emitter needs to know about an element type."""

from __future__ import annotations

from typing import Protocol


class Element(Protocol):
    """The part of a row of the table of types (`falcon._core.dtypes.DType`) that code needs."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""

    @property
    def cuda(self) -> str | None:
        """Its CUDA C++ type in memory."""

    @property
    def parts(self) -> int:
        """Numbers by which an element is multiplied."""

    @property
    def multiplied(self) -> Element:
        """The type of these numbers."""

    @property
    def accumulator(self) -> Element:
        """The type in which sums are computed, in registers."""
