"""`Element`: what code generators ask of an element type; they are handed its row of the table."""

from __future__ import annotations

from typing import Protocol


class Element(Protocol):
    """A row of the table of types (`falcon._core.dtypes.DType`), as far as generated code goes."""

    @property
    def name(self) -> str:
        """What the names of kernels tell."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""

    @property
    def cuda(self) -> str | None:
        """How CUDA C++ writes it in memory."""

    @property
    def accumulator(self) -> Element:
        """The type in which sums are formed, in registers."""
