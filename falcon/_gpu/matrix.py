"""`Operand`: a batch of matrices as the products take it. `Memory`: an allocation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from falcon._core.dtypes import DType
from falcon._core.matrix import Matrix


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a GPU."""

    pointer: int  # its address
    nbytes: int
    owner: Any  # the library's array that is freed with this object


@dataclass(frozen=True, slots=True)
class Operand:
    """A batch of matrices, each with one unit stride."""

    pointer: int
    ld: int  # leading dimension, in elements
    by_columns: bool  # columns are contiguous
    step: int  # elements between matrices
    dtype: DType

    @classmethod
    def of(cls, x: Matrix) -> Operand:
        """Describe a single matrix, which must be direct."""
        return cls(x.pointer, x.ld, x.by_columns, 0, x.dtype)

    def at(self, row: int, down: int, right: int) -> Operand:
        """Return a batch that begins in a row; matrices are rows `down`, columns `right` apart."""
        rows, columns = (1, self.ld) if self.by_columns else (self.ld, 1)
        pointer = self.pointer + row * rows * self.dtype.itemsize
        return replace(self, pointer=pointer, step=down * rows + right * columns)
