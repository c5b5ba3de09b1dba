"""Protocols for the files that `Scheme` and `SymmetricScheme` import."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .additions import SharedSums


class SchemeLike(Protocol):
    """The part of a `Scheme` that its formulas and the sums of a composition need."""

    @property
    def m(self) -> int:
        """Rows of A and C, in blocks."""

    @property
    def k(self) -> int:
        """Columns of A and rows of B, in blocks."""

    @property
    def n(self) -> int:
        """Columns of B and C, in blocks."""

    @property
    def rank(self) -> int:
        """Number of block products."""

    @property
    def U(self) -> np.ndarray:
        """Coefficients of A, shape (R, m, k)."""

    @property
    def V(self) -> np.ndarray:
        """Coefficients of B, shape (R, k, n)."""

    @property
    def W(self) -> np.ndarray:
        """Coefficients of C, shape (R, m, n)."""

    @property
    def shared_sums(self) -> tuple[SharedSums, SharedSums, SharedSums]:
        """Combine A, Combine B and Combine H."""


class SymmetricLike(Protocol):
    """The part of a `SymmetricScheme` that its formulas need."""

    @property
    def m(self) -> int:
        """Rows of X, and rows and columns of C, in blocks."""

    @property
    def rank(self) -> int:
        """Number of block products."""

    @property
    def U(self) -> np.ndarray:
        """Coefficients of X in the left operands, shape (R, m, k)."""

    @property
    def V(self) -> np.ndarray:
        """Coefficients of X in the right operands, before transposition, shape (R, m, k)."""

    @property
    def W(self) -> np.ndarray:
        """Coefficients of C, shape (R, m, m), zero below the diagonal."""
