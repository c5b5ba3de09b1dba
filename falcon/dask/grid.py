"""`Grid`: how the chunks of two Dask arrays meet in a product; nothing is rechunked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import isnan
from typing import Any

import numpy as np

from falcon._front.validate import matmul_shape

Chunks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of one axis that lie in one chunk of x and in one of y.

    Attributes
    ----------
    size : int
    left, right : int
        Which chunks of x and of y.
    of_left, of_right : slice
        Where in these chunks.
    """

    size: int
    left: int
    right: int
    of_left: slice
    of_right: slice


def pieces(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[Piece, ...]:
    """Return the common refinement of two cuts of an axis; an axis of one line is broadcast."""
    whole, sides = slice(None), (left, right)
    if isnan(sum(left)) and isnan(sum(right)):
        return tuple(Piece(size, at, at, whole, whole) for at, size in enumerate(left))
    if sum(left) == sum(right) == 0:
        return (Piece(0, 0, 0, whole, whole),)
    if sum(left) != sum(right):
        if sum(right) == 1:
            return tuple(Piece(size, at, 0, whole, whole) for at, size in enumerate(left))
        return tuple(Piece(size, 0, at, whole, whole) for at, size in enumerate(right))
    found, start, places = [], 0, [0, 0]
    for end in sorted({*accumulate(left), *accumulate(right)} - {0}):
        cuts = []
        for side, sizes in enumerate(sides):
            while sum(sizes[: places[side] + 1]) < end:
                places[side] += 1
            before = sum(sizes[: places[side]])
            cut = slice(start - before, end - before)
            cuts.append(slice(None) if cut == slice(0, sizes[places[side]]) else cut)
        found.append(Piece(end - start, places[0], places[1], cuts[0], cuts[1]))
        start = end
    return tuple(found)


def check_known(x: Any, y: Any, sizes: Sequence[tuple[float, ...]]) -> None:
    """Raise ValueError unless these sizes of x and of y are numbers."""
    for name, array, some in zip("xy", (x, y), sizes, strict=True):
        if any(map(isnan, some)):
            how = f"its chunk sizes are unknown; call {name}.compute_chunk_sizes() first"
            raise ValueError(f"{name} has shape {array.shape}: {how}")


@dataclass(frozen=True)
class Grid:
    """The chunks of x, y and their product, whose batch axes and K are cut where either is.

    Attributes
    ----------
    x, y : tuple of tuple of int
        Chunks; vectors are matrices of one row or column.
    dropped : tuple of int
        Axes of the product, counted from the end, that vectors do not have.
    """

    x: Chunks
    y: Chunks
    dropped: tuple[int, ...]
    batch: tuple[tuple[Piece, ...], ...]
    K: tuple[Piece, ...]

    @classmethod
    def of(cls, x: Any, y: Any) -> Grid:
        """Return the grid of two Dask arrays; raises ValueError where shapes do not fit."""
        for name, array in (("x", x), ("y", y)):
            if array.ndim == 0:
                raise ValueError(f"{name} is a scalar; expected at least one axis")
        dropped = ((-2,) if x.ndim == 1 else ()) + ((-1,) if y.ndim == 1 else ())
        left = ((1,), *x.chunks) if x.ndim == 1 else x.chunks
        right = (*y.chunks, (1,)) if y.ndim == 1 else y.chunks
        most = max(len(left), len(right)) - 2
        every, K = range(-most - 2, -2), (left[-1], right[-2])
        axes = [[s[at] if -at <= len(s) else (1,) for s in (left, right)] for at in every]
        for cuts in axes:
            if (1,) not in cuts:
                check_known(x, y, cuts)
        if not np.array_equal(*K, equal_nan=True):
            check_known(x, y, K)
        known = [tuple(0 if isnan(s) else s for s in v.shape) for v in (x, y)]
        matmul_shape(known[0], known[1], None)
        return cls(left, right, dropped, tuple(pieces(*cuts) for cuts in axes), pieces(*K))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        return sum(self.x[-2]), sum(self.y[-1]), sum(self.x[-1])

    @property
    def counts(self) -> tuple[int, int, int]:
        """Chunks along M, N and K (where either operand is cut)."""
        return len(self.x[-2]), len(self.y[-1]), len(self.K)

    @property
    def chunks(self) -> Chunks:
        """Chunks of the product, as a Dask array's."""
        every = (*(tuple(p.size for p in axis) for axis in self.batch), self.x[-2], self.y[-1])
        return self.kept(every)

    def kept(self, every: tuple[Any, ...]) -> tuple[Any, ...]:
        """Leave out the axes that vectors do not have."""
        count = len(every)
        return tuple(v for at, v in enumerate(every) if at - count not in self.dropped)

    def places(self) -> Iterator[tuple[tuple[Piece, ...], int, int, tuple[int, ...]]]:
        """Yield for each chunk of the product its batch, row, column and index."""
        M, N, _ = self.counts
        for at in product(*(range(len(axis)) for axis in self.batch)):
            batch = tuple(axis[i] for axis, i in zip(self.batch, at, strict=True))
            for i, j in product(range(M), range(N)):
                yield batch, i, j, self.kept((*at, i, j))

    def left(self, batch: tuple[Piece, ...], i: int, k: Piece) -> tuple[tuple, tuple]:
        """Return the index of a chunk of x, and which part of it."""
        index = (*(p.left for p in batch), i, k.left)[len(batch) + 2 - len(self.x) :]
        cut = (*(p.of_left for p in batch), slice(None), k.of_left)[-len(self.x) :]
        return index if -2 not in self.dropped else index[1:], cut

    def right(self, batch: tuple[Piece, ...], k: Piece, j: int) -> tuple[tuple, tuple]:
        """Return the index of a chunk of y, and which part of it."""
        index = (*(p.right for p in batch), k.right, j)[len(batch) + 2 - len(self.y) :]
        cut = (*(p.of_right for p in batch), k.of_right, slice(None))[-len(self.y) :]
        return index if -1 not in self.dropped else index[:-1], cut

    @property
    def folds(self) -> bool:
        """Whether all rows of x's chunks, batch axes included, are multiplied by one matrix."""
        return len(self.x) > 2 and len(self.y) == 2

    def rows(self, batch: tuple[Piece, ...], i: int) -> int:
        """Return the rows of the product of two chunks."""
        count = self.x[-2][i]
        for p in batch if self.folds else ():
            count *= p.size
        return count
