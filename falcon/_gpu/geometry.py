"""Sizes of launches, and of what the kernels share with them: pure functions that need no GPU.

`sources.py` defines these constants for the kernels.
"""

from __future__ import annotations

from falcon.codegen.cuda_plan import THREADS

# Threads of a warp; of a thread block, of all kernels but the combines, and its warps.
LANES, BLOCK_THREADS = 32, 256
WARPS = BLOCK_THREADS // LANES
# Size of a region of a block of C, which has a flag and is repaired as a whole.
REGION_MAJOR, REGION_MINOR = 64, 128
# Least elements of a line in a part of its norm, most parts, and warps that fill every device.
_NORM_RUN, _MOST_NORM_PARTS, _NORM_WARPS = 64, 64, 8192
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


def copy_launch(major: int, minor: int) -> tuple[Sizes, Sizes]:
    """Return grid and block of copy.cu."""
    return (major * -(-minor // BLOCK_THREADS), 1, 1), (BLOCK_THREADS, 1, 1)


def norm_parts(inner: int, groups: int) -> int:
    """Parts in which the squares of lines are added up, by `groups` warps for each part."""
    return max(min(-(-inner // _NORM_RUN), _MOST_NORM_PARTS, -(-_NORM_WARPS // groups)), 1)


def powers_bytes(lines: int) -> int:
    """Bytes of the powers of some lines, and of what stands before them."""
    return 8 * (1 + lines)


def regions(height: int, width: int) -> int:
    """Return the number of regions of a block of C."""
    return -(-height // REGION_MAJOR) * -(-width // REGION_MINOR)


def flag_bytes(rows: int, columns: int) -> int:
    """Bytes of the flags for a C by rows or by columns, whichever needs more."""
    return 4 * (1 + max(regions(rows, columns), regions(columns, rows)))
