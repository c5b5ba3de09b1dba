"""Sizes of blocks, chunks, buffers and launches, by pure functions that need no GPU.

::

    C, M x N                 a block, h x w          a chunk of every block at a time
    +-------+-------+        +---------+             +----+----+
    | (0,0) | (0,1) |        |         | h           |####|    |   At, Bt and H hold this part
    +-------+-------+        |         |             |####|    |   of all their R blocks
    | (1,0) | (1,1) |        +---------+             +----+----+
    +-------+-------+             w

The size of a block is the ceiling of the matrix's size over the format's, rounded up to 16
elements, which are whole sectors of 32 bytes in every type: every row of At, Bt and H is aligned,
and the padding is zero.
A workspace limit is kept by multiplying a chunk of every block at a time. Chunks along K are added
up by the product itself (its beta is one), so Combine H runs once per chunk of C.
"""

from __future__ import annotations

from dataclasses import dataclass

from falcon._core.dtypes import DType
from falcon.codegen.cuda_plan import THREADS, Products
from falcon.schemes import Scheme, classical

LANES = 32
_UNIT = 16
_ALIGNMENT = 256
# As in kernels/common.cuh.
MARK_MAJOR, MARK_MINOR = 64, 128
# A launch takes at most this many blocks along x, and along y.
GRID_X, GRID_Y = 2**31 - 1, 65535
# Least elements of a line in a part of its norm, most parts, and warps that fill every device.
_NORM_RUN, _MOST_NORM_PARTS, _NORM_WARPS = 64, 64, 8192
# Thread blocks of repair.cu per multiprocessor: registers allow no more at a time.
_REPAIR_RESIDENT = 2
# With smaller chunks, products would be far slower than the measured rate.
_LEAST_CHUNK = 256

Sizes = tuple[int, int, int]


# Parts of float32 are formed by Combine A and B, in the classical algorithm too.
_WHOLE = classical(1, 1, 1)


def staged(operand: DType, scheme: Scheme | None) -> Scheme | None:
    """Return the scheme whose stages run; None: the operands are multiplied as they are."""
    return _WHOLE if scheme is None and operand.parts > 1 else scheme


def block_sizes(M: int, N: int, K: int, scheme: Scheme) -> Sizes:
    """Return the rows, columns and inner length of a block: ceilings, in whole sectors."""
    return tuple(  # type: ignore[return-value]
        max(round_up(-(-size // parts), _UNIT), _UNIT)
        for size, parts in ((M, scheme.m), (N, scheme.n), (K, scheme.k))
    )


def round_up(size: int, unit: int) -> int:
    """Return the next multiple of `unit`."""
    return -(-size // unit) * unit


@dataclass(frozen=True, slots=True)
class Buffers:
    """Bytes of At, Bt, H, the marks, and the powers of A's rows and B's columns."""

    at: int
    bt: int
    h: int
    marks: int
    rows: int
    columns: int

    @classmethod
    def of(
        cls,
        chunk: Sizes,
        products: Products,
        itemsize: int,
        sum_itemsize: int,
        lines: tuple[int, int],
        *,
        packed: bool = False,
    ) -> Buffers:
        """Return the sizes for chunks of (rows, columns, inner) of every block.

        `itemsize` is that of A's and B's elements as they are multiplied; `lines` are A's rows and
        B's columns.
        """
        rows, columns, inner = chunk
        rank = len(products.places)
        return cls(
            rank * rows * inner * itemsize,
            0 if packed else rank * inner * columns * itemsize,
            products.planes * rows * columns * sum_itemsize,
            mark_bytes(rows, columns),
            scale_bytes(lines[0]),
            0 if packed else scale_bytes(lines[1]),
        )

    @property
    def total(self) -> int:
        """Bytes of all, each aligned."""
        return sum(round_up(x, _ALIGNMENT) for x in self._sizes)

    def offsets(self, start: int) -> Offsets:
        """Return the offset of each buffer in an allocation whose first `start` bytes are used.

        Marks and powers, which one fill zeroes, are neighbours.
        """
        starts, at = [], start
        for size in self._sizes:
            starts.append(at)
            at += round_up(size, _ALIGNMENT)
        return tuple(starts)  # type: ignore[return-value]

    @property
    def _sizes(self) -> Offsets:
        return self.at, self.bt, self.h, self.marks, self.rows, self.columns


Offsets = tuple[int, int, int, int, int, int]


def chunks_within(
    block: Sizes,
    products: Products,
    itemsize: int,
    sum_itemsize: int,
    lines: tuple[int, int],
    room: int | None,
    *,
    packed: bool = False,
) -> Sizes | None:
    """Halve chunks until their buffers fit into `room` bytes; None if they never do.

    The inner length is halved first, because that costs only the start and end of more products (a
    packed B keeps it whole); then the larger of rows and columns.
    """
    rows, columns, inner = block

    def fits() -> bool:
        chunk = rows, columns, inner
        buffers = Buffers.of(chunk, products, itemsize, sum_itemsize, lines, packed=packed)
        return room is None or buffers.total <= room

    def halved(size: int) -> int:
        return round_up(-(-size // 2), _UNIT)

    for least in (_LEAST_CHUNK, _UNIT):
        while not fits():
            operands = rows * inner + (0 if packed else inner * columns)
            shrink_inner = not packed and inner >= 2 * least
            shrink_inner &= operands * itemsize >= rows * columns * sum_itemsize or (
                max(rows, columns) < 2 * least
            )
            if shrink_inner:
                inner = halved(inner)
            elif max(rows, columns) >= 2 * least:
                if rows >= columns:
                    rows = halved(rows)
                else:
                    columns = halved(columns)
            else:
                break
        if fits():
            return rows, columns, inner
    return None


def combined_again(block: Sizes, chunk: Sizes) -> Sizes:
    """Return how often A and B are combined and C is updated, in the driver's order of chunks.

    With one chunk along K, the sums of A are kept while the columns advance; with one along N too,
    those of B are kept for all rows.
    """
    rows, columns, inner = (len(spans(size, part)) for size, part in zip(block, chunk, strict=True))
    return columns if inner > 1 else 1, rows if inner > 1 or columns > 1 else 1, 1


def combine_launch(height: int, width: int, vector: int) -> tuple[Sizes, Sizes]:
    """Return grid and block of a combine kernel over a part of height x width of each block.

    A warp covers 32 vectors of a row, a thread block four rows.
    Raises ValueError: the part is larger than a launch can cover: use chunks.
    """
    rows = THREADS // LANES
    blocks = -(-height // rows) * -(-width // (LANES * vector))
    return (along_x(blocks), 1, 1), (LANES, rows, 1)


def repair_launch(
    height: int, width: int, blocks: int, multiprocessors: int
) -> tuple[Sizes, Sizes]:
    """Return grid and block of repair.cu: shares of the regions along x, blocks of C along y."""
    shares = -(-multiprocessors * _REPAIR_RESIDENT // blocks)
    return (min(shares, regions(height, width)), _along_y(blocks), 1), (LANES, 8, 1)


def copy_launch(major: int, minor: int) -> tuple[Sizes, Sizes]:
    """Return grid and block of copy.cu."""
    return (along_x(major * -(-minor // 256)), 1, 1), (256, 1, 1)


def norm_parts(inner: int, groups: int) -> int:
    """Parts in which the squares of lines are added up, by `groups` warps for each part."""
    return max(min(-(-inner // _NORM_RUN), _MOST_NORM_PARTS, -(-_NORM_WARPS // groups)), 1)


def flat_launch(count: int) -> tuple[Sizes, Sizes]:
    """Return grid and block of a kernel with a thread per item."""
    return (along_x(-(-count // 256)), 1, 1), (256, 1, 1)


def scale_bytes(lines: int) -> int:
    """Bytes of the powers of some lines, and of the word before them."""
    return 8 * (1 + lines)


def regions(height: int, width: int) -> int:
    """Return the number of regions of a block of C, each marked and repaired as a whole."""
    return -(-height // MARK_MAJOR) * -(-width // MARK_MINOR)


def mark_bytes(rows: int, columns: int) -> int:
    """Bytes of the marks for a C by rows or by columns, whichever needs more."""
    return 4 * (1 + max(regions(rows, columns), regions(columns, rows)))


def spans(size: int, chunk: int) -> list[tuple[int, int]]:
    """Cut ``range(size)`` into (start, length)."""
    return [(start, min(chunk, size - start)) for start in range(0, size, chunk)]


def along_x(count: int) -> int:
    """Return a number of thread blocks that one launch can have; raise ValueError for others."""
    if not 0 < count <= GRID_X:
        raise ValueError(f"a launch of {count} thread blocks; expected 1 to {GRID_X}")
    return count


def _along_y(count: int) -> int:
    if not 0 < count <= GRID_Y:
        raise ValueError(f"a launch of {count} thread blocks along y; expected 1 to {GRID_Y}")
    return count
