"""`Matrix`: a matrix in GPU memory as the kernels take it, of whatever array library.

`Operand`: a batch of matrices as the products take it. `Memory`: an allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from falcon._core.dtypes import DType


@dataclass(frozen=True, slots=True)
class Matrix:
    """Address, sizes and strides."""

    pointer: int  # address of element (0, 0)
    shape: tuple[int, int]
    strides: tuple[int, int]  # in elements
    dtype: DType
    owner: Any = None  # keeps the memory alive

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def by_columns(self) -> bool:
        """Whether columns are contiguous and rows are not."""
        rows, columns = self.strides
        return rows == 1 and columns != 1 and self.shape[1] > 1

    @property
    def is_direct(self) -> bool:
        """Whether cuBLAS takes the matrix: one stride is 1, the other spans a row or column."""
        (rows, columns), (M, N) = self.strides, self.shape
        if self.by_columns:
            return columns >= max(M, 1)
        return (columns == 1 or N == 1) and (rows >= max(N, 1) or M == 1)

    @property
    def ld(self) -> int:
        """Leading dimension: elements between neighbours along the axis without unit stride."""
        if self.by_columns:
            return self.strides[1]
        return self.strides[0] if self.shape[0] > 1 else max(self.shape[1], 1)

    @property
    def span(self) -> tuple[int, int]:
        """First address and the one after the last."""
        return span(self.pointer, self.shape, self.strides, self.itemsize)

    def address(self, row: int, column: int) -> int:
        """Address of an element."""
        rows, columns = self.strides
        return self.pointer + (row * rows + column * columns) * self.itemsize

    def transposed(self) -> Matrix:
        """The transpose, in the same memory."""
        return Matrix(self.pointer, self.shape[::-1], self.strides[::-1], self.dtype, self.owner)

    def overlaps(self, other: Matrix) -> bool:
        """Whether the two may share memory (bounds only: a false alarm costs a copy)."""
        return meet(self.span, other.span)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a GPU."""

    pointer: int  # its address
    nbytes: int
    owner: Any  # the library's array that is freed with this object


def span(
    pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int
) -> tuple[int, int]:
    """Return the first address of an array, and the one after its last; strides in elements.

    An empty array has no addresses.
    """
    if 0 in shape:
        return pointer, pointer
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = sum(x for x in reach if x < 0), sum(x for x in reach if x > 0)
    return pointer + low * itemsize, pointer + (high + 1) * itemsize


def meet(x: tuple[int, int], y: tuple[int, int]) -> bool:
    """Whether two spans of addresses have one in common."""
    return x[0] < y[1] and y[0] < x[1]


def dense(pointer: int, shape: tuple[int, int], dtype: DType, owner: Any = None) -> Matrix:
    """Describe a matrix stored by rows without gaps."""
    return Matrix(pointer, shape, (max(shape[1], 1), 1), dtype, owner)


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
