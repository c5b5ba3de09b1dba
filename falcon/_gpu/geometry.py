"""Sizes of launches, and of what the kernels share with them: pure functions that need no GPU.

`sources.py` defines the constants of `SHARED` for the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from falcon.codegen.cuda_plan import ACCESS_BYTES, THREADS

# Least side of tiles on the diagonal of a symmetric result: smaller ones fill no H200, by count.
LEAST_TILE = 1024
# Threads of a warp; of a thread block, of all kernels but the combines, and its warps.
LANES, BLOCK_THREADS = 32, 256
WARPS = BLOCK_THREADS // LANES
# Sizes of blocks, and lines in tables of powers, are multiples of it: 32 bytes, a sector, or more.
UNIT = 16
# Elements of a segment of a line, whose mean is subtracted for products by parts. Shorter ones
# follow data that change along K (waves of 250 elements: errors 2.4 times cuBLAS's with 128, 0.4
# with 64), and take more products: 7 % of those by parts (H200).
SEGMENT = 64
# Size of a region of a block of C, which has a flag and is repaired as a whole.
REGION_MAJOR, REGION_MINOR = 64, 128
# Of fused.cu: elements along K whose products tensor cores add up, buffers, and side of a tile.
FUSED_BLOCK, FUSED_STAGES, FUSED_TILE = 64, 3, 128
# Of units.cu: columns of B that are looked at, and threads.
SAMPLED, SAMPLE_THREADS = 16, 512
SHARED = (
    *("LANES", "WARPS", "BLOCK_THREADS", "UNIT", "SEGMENT", "REGION_MAJOR", "REGION_MINOR"),
    *("FUSED_BLOCK", "FUSED_STAGES", "FUSED_TILE", "SAMPLED", "SAMPLE_THREADS"),
)
# Least elements of a line in a part of its norm, most parts, and warps that fill every device.
_NORM_RUN, _MOST_NORM_PARTS, _NORM_WARPS = 64, 64, 8192
# Bytes of `LinePart` in common.cuh.
LINE_BYTES = 24
# Thread blocks of repair.cu per multiprocessor: registers allow no more at a time.
_REPAIR_RESIDENT = 2

Sizes = tuple[int, int, int]


def round_up(size: int, unit: int) -> int:
    """Return the next multiple of `unit`."""
    return -(-size // unit) * unit


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


def segments(inner: int) -> int:
    """Return the number of segments of a line."""
    return -(-inner // SEGMENT)


def segment_bytes(lines: int, inner: int) -> int:
    """Bytes of a number for every segment of all lines."""
    return 4 * segments(inner) * round_up(lines, UNIT)


def step_bytes(inner: int, itemsize: int) -> int:
    """Bytes of the powers of two along K, of A and of B: see units.cu."""
    return ACCESS_BYTES + 2 * round_up(inner, UNIT) * itemsize


def element_launch(major: int, minor: int) -> tuple[Sizes, Sizes]:
    """Return grid and block of the kernels that have a thread for each element, of `Element`."""
    width = min(BLOCK_THREADS, 1 << max(minor - 1, 0).bit_length())
    rows = BLOCK_THREADS // width
    return (-(-major // rows) * -(-minor // width), 1, 1), (width, rows, 1)


def norm_parts(inner: int, groups: int) -> int:
    """Parts in which the squares of lines are added up, by `groups` warps for each part."""
    return max(min(-(-inner // _NORM_RUN), _MOST_NORM_PARTS, -(-_NORM_WARPS // groups)), 1)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of powers of some lines, as powers.cu describes them."""

    lines: int
    itemsize: int  # of a power

    @property
    def sums(self) -> int:
        """Where, in bytes, `LinePart`s of whole lines may lie: behind the tables."""
        return ACCESS_BYTES + round_up(self.lines, UNIT) * (2 * self.itemsize + ACCESS_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of the state, the tables and one `LinePart` per line."""
        return self.sums + LINE_BYTES * self.lines

    def factors(self, line: int, repeated: bool) -> int:
        """Return the entry of a line's power, or of the repeated one; `line`: its reciprocal's."""
        units = round_up(self.lines, UNIT)
        return 2 * units + line * ACCESS_BYTES // self.itemsize if repeated else units + line


def triangle(size: int) -> list[tuple[int, int, int, int, int]]:
    """Return tiles that cover the lower triangle: row, rows, columns, how many, and how far apart.

    ::

        2         The tiles of a side, along the diagonal, are one batch: those on the diagonal
        1 2       (2), pairs of them (1) twice as far apart, and so on. The first tile of each
        0 0 2     begins in column 0. The rows that are left are one more.
        0 0 1 2
    """
    levels = 0
    while size >> (levels + 1) >= LEAST_TILE:
        levels += 1
    side = size // 2**levels // UNIT * UNIT if levels else size
    tiles = [(0, side, side, 2**levels, side)]
    for level in range(levels):
        width = side << level
        tiles.append((width, width, width, 2 ** (levels - level - 1), 2 * width))
    whole = side << levels
    if whole < size:
        tiles.append((whole, size - whole, size, 1, 0))
    return tiles


def regions(height: int, width: int) -> int:
    """Return the number of regions of a block of C."""
    return -(-height // REGION_MAJOR) * -(-width // REGION_MINOR)


def flag_bytes(rows: int, columns: int) -> int:
    """Bytes of a count and the flags for a C by rows or by columns, whichever needs more."""
    return 4 * (2 + max(regions(rows, columns), regions(columns, rows)))
