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

from falcon._core.dtypes import DType
from falcon._core.problem import Problem
from falcon.codegen.cuda_plan import THREADS, products
from falcon.schemes import Scheme, classical

# Threads of a warp; of a thread block, of all kernels but the combines, and its warps.
LANES, BLOCK_THREADS = 32, 256
WARPS = BLOCK_THREADS // LANES
# Size of a region of a block of C, which is marked and repaired as a whole.
MARK_MAJOR, MARK_MINOR = 64, 128
_UNIT = 16
_ALIGNMENT = 256
# Least elements of a line in a part of its norm, most parts, and warps that fill every device.
_NORM_RUN, _MOST_NORM_PARTS, _NORM_WARPS = 64, 64, 8192
# Thread blocks of repair.cu per multiprocessor: registers allow no more at a time.
_REPAIR_RESIDENT = 2
# With smaller chunks, products would be far slower than the measured rate.
_LEAST_CHUNK = 256

Sizes = tuple[int, int, int]
Buffers = tuple[int, int, int, int, int, int]


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


def aligned(nbytes: int) -> int:
    """Return the bytes that a buffer takes, so that the next one is aligned."""
    return round_up(nbytes, _ALIGNMENT)


def buffers(chunk: Sizes, problem: Problem, scheme: Scheme) -> Buffers:
    """Return the bytes of At, Bt, H, the marks, and the powers of A's rows and B's columns.

    For chunks of (rows, columns, inner) of every block; each is aligned. Marks and powers, which
    one fill zeroes, are neighbours.
    """
    rows, columns, inner = chunk
    held, packed = scheme.rank * problem.operand.panel_bytes, problem.packed
    return (
        aligned(held * rows * inner),
        0 if packed else aligned(held * inner * columns),
        aligned(products(scheme).planes * rows * columns * problem.accumulator.itemsize),
        aligned(mark_bytes(rows, columns)),
        aligned(scale_bytes(problem.M)),
        0 if packed else aligned(scale_bytes(problem.N)),
    )


def chunks_within(block: Sizes, problem: Problem, scheme: Scheme, room: int) -> Sizes | None:
    """Halve chunks until their buffers fit into `room` bytes; None if they never do.

    The inner length is halved first, because that costs only the start and end of more products (a
    packed B keeps it whole); then the larger of rows and columns.
    """
    rows, columns, inner = block
    packed, sums = problem.packed, problem.accumulator.itemsize

    def fits() -> bool:
        return sum(buffers((rows, columns, inner), problem, scheme)) <= room

    def halved(size: int) -> int:
        return round_up(-(-size // 2), _UNIT)

    for least in (_LEAST_CHUNK, _UNIT):
        while not fits():
            held = (rows + columns) * inner * problem.operand.panel_bytes
            shrink_inner = not packed and inner >= 2 * least
            shrink_inner &= held >= rows * columns * sums or max(rows, columns) < 2 * least
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
    """
    rows = THREADS // LANES
    blocks = -(-height // rows) * -(-width // (LANES * vector))
    return (blocks, 1, 1), (LANES, rows, 1)


def repair_launch(
    height: int, width: int, blocks: int, multiprocessors: int
) -> tuple[Sizes, Sizes]:
    """Return grid and block of repair.cu: shares of the regions along x, blocks of C along y."""
    shares = -(-multiprocessors * _REPAIR_RESIDENT // blocks)
    return (min(shares, regions(height, width)), blocks, 1), (LANES, WARPS, 1)


def copy_launch(major: int, minor: int) -> tuple[Sizes, Sizes]:
    """Return grid and block of copy.cu."""
    return (major * -(-minor // BLOCK_THREADS), 1, 1), (BLOCK_THREADS, 1, 1)


def norm_parts(inner: int, groups: int) -> int:
    """Parts in which the squares of lines are added up, by `groups` warps for each part."""
    return max(min(-(-inner // _NORM_RUN), _MOST_NORM_PARTS, -(-_NORM_WARPS // groups)), 1)


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
