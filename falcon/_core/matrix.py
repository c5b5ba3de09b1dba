"""`Matrix`: how a matrix lies in memory, on the host or on a GPU, of whatever array library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .dtypes import DType, find


@dataclass(slots=True)  # not frozen, as every call makes three: 0.7 us each less
class Matrix:
    """Address, sizes and strides of a matrix, or of a batch of them: then of all its axes."""

    # Address of the first element. 0: only the shape is known, or the owner, an array in host
    # memory, is asked for it (2 us) when it is needed.
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements; in bytes if `raw`
    dtype: DType  # of `raw` elements of no type of falcon's: None
    owner: Any = None  # the array, or what else keeps the memory alive
    # NumPy's dtype of elements that must be copied before they are read: misaligned, in another
    # byte order, of a type that falcon does not know, or at no multiples of their size.
    raw: np.dtype | None = None

    @property
    def first(self) -> Matrix:
        """The first matrix of a batch."""
        if len(self.shape) == 2:
            return self
        shape, strides = self.shape[-2:], self.strides[-2:]
        return Matrix(self.pointer, shape, strides, self.dtype, self.owner, self.raw)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def holds(self, dtype: DType) -> bool:
        """Whether kernels find elements of that type in it, at strides of whole elements."""
        return self.raw is None and self.dtype is dtype

    @property
    def by_columns(self) -> bool:
        """Whether columns are contiguous and rows are not."""
        rows, columns = self.strides
        return rows == 1 and columns != 1 and self.shape[1] > 1

    @property
    def is_by_rows(self) -> bool:
        """Whether rows are contiguous, and do not overlap."""
        return (
            self.raw is None
            and self.strides[1] == 1
            and (self.strides[0] >= self.shape[1] or self.shape[0] == 1)
        )

    @property
    def is_direct(self) -> bool:
        """Whether a BLAS takes the matrix: one stride is 1, the other spans a row or column."""
        (rows, columns), (M, N) = self.strides, self.shape
        if self.raw is not None:
            return False
        return self.is_by_rows or (rows == 1 and (columns >= M or N == 1)) or M * N <= 1

    @property
    def ld(self) -> int:
        """Leading dimension: elements between neighbours along the axis without unit stride."""
        if self.by_columns:
            return self.strides[1]
        return self.strides[0] if self.shape[0] > 1 else max(self.shape[1], 1)

    @property
    def span(self) -> tuple[int, int]:
        """First address and the one after the last, on a GPU; an empty matrix has no addresses."""
        if not self.pointer or 0 in self.shape:
            return self.pointer, self.pointer
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = sum(x for x in reach if x < 0), sum(x for x in reach if x > 0)
        return self.pointer + low * self.itemsize, self.pointer + (high + 1) * self.itemsize

    def address(self, row: int, column: int) -> int:
        """Address of an element."""
        rows, columns = self.strides
        return self.pointer + (row * rows + column * columns) * self.itemsize

    def transposed(self) -> Matrix:
        """The transpose, in the same memory; of a batch, those of its matrices."""
        *batch, M, N = self.shape
        *steps, rows, columns = self.strides
        shape, strides = (*batch, N, M), (*steps, columns, rows)
        return Matrix(self.pointer, shape, strides, self.dtype, self.owner, self.raw)

    def overlaps(self, other: Matrix) -> bool:
        """Whether the two may share memory (bounds only: a false alarm costs a copy)."""
        if isinstance(self.owner, np.ndarray) and isinstance(other.owner, np.ndarray):
            return np.may_share_memory(self.owner, other.owner)
        return meet(self.span, other.span)

    @property
    def meets_itself(self) -> bool:
        """Whether two of its elements share memory, as those of a broadcast array do."""
        reach = size = self.raw.itemsize if self.raw is not None else 1
        axes = sorted((abs(s), n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1)
        for stride, n in axes:
            if stride < reach:
                break
            reach += stride * (n - 1)
        else:
            return False
        if 0 in self.shape:
            return False
        steps, shape = zip(*axes, strict=True)
        x = as_strided(np.empty(1, f"V{size}"), shape, steps)  # nothing is read
        while x.ndim:
            if len(x) == 1:
                x = x[0]
                continue
            half = (len(x) + 1) // 2
            if np.shares_memory(x[:half], x[half:]):
                return True
            x = x[:half]  # the other half lies alike
        return False

    def is_same(self, other: Matrix) -> bool:
        """Whether the two have the same elements at the same addresses."""
        return (
            self.shape == other.shape
            and self.strides == other.strides
            and self.dtype is other.dtype
            and self.raw == other.raw
            and self._begin() == other._begin() != 0
        )

    def is_transpose(self, other: Matrix) -> bool:
        """Whether the other is the transpose in the same memory; of batches, all matrices are."""
        swapped = self.strides[-1] == other.strides[-2] and self.strides[-2] == other.strides[-1]
        return swapped and other.is_same(self.transposed())

    def _begin(self) -> int:
        in_host_memory = isinstance(self.owner, np.ndarray)
        return self.owner.__array_interface__["data"][0] if in_host_memory else self.pointer


def meet(x: tuple[int, int], y: tuple[int, int]) -> bool:
    """Whether two spans of addresses have one in common."""
    return x[0] < y[1] and y[0] < x[1]


def checked_out(out: Matrix) -> Matrix:
    """Return an `out`; raise ValueError if two of its elements share memory."""
    if out.meets_itself:
        raise ValueError(
            f"out has shape {out.shape} and strides {out.strides}, so that some of its elements "
            "share memory (as after broadcast_to or expand); expected an array without such ones"
        )
    return out


def dense(pointer: int, shape: tuple[int, ...], dtype: DType, owner: Any = None) -> Matrix:
    """Describe a matrix, or a batch of them, stored by rows without gaps."""
    strides: tuple[int, ...] = (max(shape[-1], 1), 1)
    for size in shape[-2:0:-1]:
        strides = (strides[0] * max(size, 1), *strides)
    return Matrix(pointer, shape, strides, dtype, owner)


def of_array(x: np.ndarray) -> Matrix:
    """Describe an array in host memory."""
    dtype, strides, size = x.dtype, x.strides, x.itemsize
    row: Any = find(dtype)
    if row is None or not (dtype.isnative and x.flags.aligned):
        return Matrix(0, x.shape, strides, row, x, dtype)
    for stride in strides:
        if stride % size:
            return Matrix(0, x.shape, strides, row, x, dtype)
    return Matrix(0, x.shape, tuple([stride // size for stride in strides]), row, x)
