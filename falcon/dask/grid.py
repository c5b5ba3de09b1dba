"""`Grid`: how the chunks of two Dask arrays meet in a product; nothing is rechunked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan, prod
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from falcon._front.surface import check_matrix, is_on_gpu, matmul_shape

Chunks = tuple[tuple[int, ...], ...]
_WHOLE = slice(None)


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of one axis that lie in one chunk of x and in one of y."""

    size: int
    left: int  # which chunk of x
    right: int
    of_left: slice  # where in it
    of_right: slice


class Cut(NamedTuple):
    """A part of a chunk of x or y."""

    chunk: tuple[int, ...]
    part: tuple[slice, ...]
    shape: tuple[float, ...]  # of the chunk, as far as it is known

    @classmethod
    def of(cls, chunks: Chunks, places: list[tuple[int, slice]]) -> Cut:
        """Return the part at some places of the axes; batch axes may be missing in `chunks`."""
        chunk, part = zip(*places[-len(chunks) :], strict=True)
        return cls(chunk, part, tuple(of[at] for of, at in zip(chunks, chunk, strict=True)))


class Block(NamedTuple):
    """A chunk of the product."""

    at: tuple[int, ...]  # which one; batch axes first
    batch: tuple[Piece, ...]
    i: int  # which chunk of x's rows
    j: int  # which chunk of y's columns


def operands(**named: Any) -> list[Any]:
    """Return Dask arrays; a NumPy array, or a list of numbers, becomes a single chunk."""
    for name, x in named.items():
        named[name] = da.asanyarray(x)
        if not isinstance(named[name], da.Array):
            raise TypeError(f"{name} is a {type(x).__name__}; expected a Dask array")
    return list(named.values())


def matrices(**named: Any) -> list[Any]:
    """Return Dask arrays; raises ValueError for those that are no matrices."""
    return [check_matrix(name, x) for name, x in zip(named, operands(**named), strict=True)]


def is_foreign(x: Any) -> bool:
    """Whether its chunks are arrays that falcon does not know."""
    return type(x._meta) is not np.ndarray and not is_on_gpu(x._meta)


def pieces(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[Piece, ...]:
    """Return the common refinement of two cuts of an axis; an axis of one line is broadcast."""
    if isnan(sum(left)) and isnan(sum(right)):
        return tuple(Piece(size, at, at, _WHOLE, _WHOLE) for at, size in enumerate(left))
    if sum(left) == sum(right) == 0:
        return (Piece(0, 0, 0, _WHOLE, _WHOLE),)
    if sum(left) != sum(right):
        if sum(right) == 1:
            one = right.index(1)  # others are empty
            return tuple(Piece(size, at, one, _WHOLE, _WHOLE) for at, size in enumerate(left))
        one = left.index(1)
        return tuple(Piece(size, one, at, _WHOLE, _WHOLE) for at, size in enumerate(right))
    refined, start = [], 0
    ends = [list(accumulate(sizes)) for sizes in (left, right)]
    for end in sorted({*ends[0], *ends[1]} - {0}):
        at_x, at_y = (bisect_left(side, end) for side in ends)
        before = ends[0][at_x] - left[at_x], ends[1][at_y] - right[at_y]
        of_x, of_y = (slice(start - first, end - first) for first in before)
        refined.append(Piece(end - start, at_x, at_y, of_x, of_y))
        start = end
    return tuple(refined)


def check_known(x: Any, y: Any, sizes: Sequence[tuple[float, ...]]) -> None:
    """Raise ValueError unless these sizes of x and of y are numbers."""
    for name, array, some in zip("xy", (x, y), sizes, strict=True):
        if any(map(isnan, some)):
            how = f"its chunk sizes are unknown; call {name}.compute_chunk_sizes() first"
            raise ValueError(f"{name} has shape {array.shape}: {how}")


@dataclass(frozen=True)
class Grid:
    """The chunks of x, y and their product, whose batch axes and K are cut where either is."""

    x: Chunks  # a vector is a matrix of one row
    y: Chunks  # or one column
    batch: tuple[tuple[Piece, ...], ...]
    K: tuple[Piece, ...]

    @classmethod
    def of(cls, x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> Grid:
        """Return the grid of two Dask arrays; raises ValueError where shapes do not fit."""
        for name, array in (("x", x), ("y", y)):
            if array.ndim == 0:
                raise ValueError(f"{name} is a scalar; expected at least one axis")
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
        matmul_shape(known[0], known[1], None, names)
        return cls(left, right, tuple(pieces(*cuts) for cuts in axes), pieces(*K))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        return sum(self.x[-2]), sum(self.y[-1]), sum(self.x[-1])

    @property
    def counts(self) -> tuple[int, int, int]:
        """Chunks along M, N and K (where either operand is cut)."""
        return len(self.x[-2]), len(self.y[-1]), len(self.K)

    @property
    def outputs(self) -> int:
        """Chunks of the product."""
        return prod(map(len, self.chunks))

    @property
    def chunks(self) -> Chunks:
        """Chunks of the product, as a Dask array's."""
        return (*(tuple(p.size for p in axis) for axis in self.batch), self.x[-2], self.y[-1])

    @property
    def folds(self) -> bool:
        """Whether all rows of x's chunks, batch axes included, are multiplied by one matrix."""
        return len(self.x) > 2 and len(self.y) == 2

    @property
    def rows(self) -> set[int]:
        """Sizes M of the products of two chunks."""
        sizes = set(self.x[-2])
        for axis in self.batch if self.folds else ():
            sizes = {size * piece.size for size in sizes for piece in axis}
        return sizes

    @property
    def largest(self) -> tuple[int, int, int]:
        """M, N, K of the largest product of two chunks."""
        return max(self.rows), max(self.y[-1]), max(k.size for k in self.K)

    def blocks(self) -> Iterator[Block]:
        """Yield the chunks of the product."""
        for at in np.ndindex(*map(len, self.chunks)):
            batch = tuple(axis[index] for axis, index in zip(self.batch, at[:-2], strict=True))
            yield Block(at, batch, *at[-2:])

    def cuts(self, block: Block, k: Piece) -> tuple[Cut, Cut]:
        """Return the parts of x and y that are multiplied for a chunk of the product."""
        left = [*((p.left, p.of_left) for p in block.batch), (block.i, _WHOLE), (k.left, k.of_left)]
        right = [*((p.right, p.of_right) for p in block.batch), (k.right, k.of_right),
                 (block.j, _WHOLE)]  # fmt: skip
        return Cut.of(self.x, left), Cut.of(self.y, right)
