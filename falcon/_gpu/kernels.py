"""Compiled kernels, one per unit, and the launches of each stage.

A kernel is compiled when a device first needs it (tenths of a second; CuPy keeps the result on
disk, and a module per device).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.scaling import LARGEST_EXPONENT
from falcon.codegen.cuda_plan import ACCESS_BYTES
from falcon.schemes import Scheme

from . import device, geometry, sources
from .geometry import round_up
from .matrix import Matrix
from .steps import Launch, Step

# Of the powers by which lines are multiplied, by bytes of an accumulator: the product of a row's
# and a column's is a normal number.
_LARGEST_EXPONENT = {4: 60, 8: LARGEST_EXPONENT}


@cache
def _function(make: Callable[..., sources.Unit], *what: Any) -> tuple[Any, sources.Unit]:
    """Compile a kernel; several threads may do so at once."""
    unit = make(*what)
    return device.function(sources.assemble([unit]), unit.name), unit


@dataclass(frozen=True, slots=True)
class Part:
    """A part of every block of a matrix."""

    matrix: Matrix
    block: tuple[int, int]  # rows and columns of a block
    start: tuple[int, int]  # first row and column of the part of every block, and its size
    size: tuple[int, int]
    # Of A and B: addresses of the R sums, and of the powers made by `scales` (0: none).
    target: int = 0
    scale: int = 0

    @property
    def pointer(self) -> int:
        """Address of the part's first element in block (0, 0)."""
        return self.matrix.address(*self.start)

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """Remaining size of the matrix from there, distance between blocks, size of the part.

        Each along the major and the minor axis. All kernels take them in this order.
        """
        left = tuple(x - first for x, first in zip(self.matrix.shape, self.start, strict=True))
        step = -1 if self.matrix.by_columns else 1
        return (*left[::step], *self.block[::step], *self.size[::step])  # type: ignore[return-value]

    def allows(self, vector: int) -> bool:
        """Whether every block can be accessed `vector` elements at a time."""
        aligned = self.pointer % (vector * self.matrix.itemsize) == 0
        return aligned and self.matrix.ld % vector == 0 and self.sizes[3] % vector == 0


def combine(
    scheme: Scheme, operand: DType, of_a: Part | None = None, of_b: Part | None = None
) -> Launch:
    """Combine A, B or both; `operand` is that of the problem: what the sums are written as."""
    written = operand if operand.parts > 1 else operand.left
    kernel, unit = _function(sources.combine_in, scheme, written)
    blocks, arguments = [], []
    for at, (x, fit) in enumerate(zip((of_a, of_b), unit.fits, strict=True)):
        if x is None:
            blocks.append(0)
            arguments += [*[0] * 9, *[np.int32(0)] * 3, 0, 0]
            continue
        (count, _, _), threads = geometry.combine_launch(*x.sizes[4:], fit.width)
        blocks.append(count)
        by_columns = x.matrix.by_columns
        # The inner dimension is A's columns and B's rows.
        flags = by_columns, (at == 0) != by_columns, x.allows(fit.width)
        arguments += [x.pointer, x.target, x.matrix.ld, *x.sizes, *map(np.int32, flags)]
        arguments += [x.scale, x.start[at]]
    return Launch("combine", kernel, (sum(blocks), 1, 1), threads, (blocks[0], *arguments))


@dataclass(frozen=True, slots=True)
class Update:
    """The part of every block of ``out = alpha sums + beta c`` that Combine H and repair write."""

    scheme: Scheme
    sums: DType  # type of the products, alpha and beta
    out: Part
    c: Matrix | None  # in the order of `out`
    alpha: float
    beta: float
    marks: int  # address of the zeroed marks; 0: non-finite values are not repaired
    powers: tuple[int, int] = (0, 0)  # addresses of those of A's rows and B's columns; 0: none

    @property
    def scales(self) -> tuple[Any, Any]:
        """Alpha and beta as the kernels take them."""
        kind = self.sums.numpy.type
        return kind(self.alpha), kind(self.beta)

    @property
    def pointers(self) -> tuple[int, int, int, int]:
        """Addresses of the parts of `out` and `c`, and their leading dimensions."""
        out, c = self.out, self.c
        if c is None:
            return out.pointer, 0, out.matrix.ld, 0
        # A single row by columns without gaps looks as if it were by rows.
        ld = c.strides[1] if out.matrix.by_columns else c.ld
        return out.pointer, c.address(*out.start), out.matrix.ld, ld


def combine_out(update: Update, planes: int) -> Launch:
    """Combine H of the products at address `planes`; sets `update.marks` unless they are 0."""
    out, c, by_columns = update.out, update.c, update.out.matrix.by_columns
    kernel, unit = _function(sources.combine_out, update.scheme, update.sums, out.matrix.dtype)
    width = unit.fits[0].width
    aligned = out.allows(width) and (c is None or replace(out, matrix=c).allows(width))
    lines = list(zip(update.powers, out.start, strict=True))
    grid, threads = geometry.combine_launch(*out.sizes[4:], width)
    flags = np.int32(by_columns), np.int32(aligned)
    powers = (x for pair in (lines[::-1] if by_columns else lines) for x in pair)
    what = planes, *update.pointers, *out.sizes, *update.scales, update.marks
    return Launch("combine H", kernel, grid, threads, (*what, *flags, *powers))


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows of A, or of the transpose of B, that a scheme adds up."""

    source: Matrix
    block: int  # rows of a block
    scale: int  # address of the result, `geometry.scale_bytes`, zeroed: see Powers in common.cuh


def scales(
    found: list[Lines], scratch: int, room: int, even: bool = True, lift: bool = False
) -> list[Step]:
    """Find powers of two for the lines of one or two matrices of as many columns.

    `scratch`, `room`: address of memory for partial sums of squares, and its bytes.
    `even`: even out the norms of rows that are added up.
    `lift`: multiply rows so small that bfloat16 parts of them would be lost.
    """
    first = found[0].source
    dtype, vector = first.dtype, ACCESS_BYTES // first.itemsize
    measured: list[list[Any]] = []
    scaled: list[list[Any]] = []
    blocks = []
    for x in found:
        matrix = x.source
        (lines, inner), along = matrix.shape, not matrix.by_columns
        groups = lines if along else -(-lines // (geometry.LANES * vector))
        parts = min(geometry.norm_parts(inner, groups), room // (8 * lines))
        sums, used = scratch, round_up(8 * lines * parts, ACCESS_BYTES)
        if parts < 2:
            parts, sums, used = 1, x.scale + 8, 0
        scratch, room = scratch + used, room - used
        unit = matrix.strides[1 if along else 0] == 1
        begins = matrix.pointer, matrix.ld * matrix.itemsize
        aligned = unit and not any(at % ACCESS_BYTES for at in begins)
        flags = (np.int32(y) for y in (parts, along, aligned))
        measured.append([matrix.pointer, *matrix.strides, lines, sums, *flags])
        scaled.append([sums, np.int32(parts), lines, x.block, x.scale])
        blocks.append((-(-groups * parts // geometry.WARPS), -(-x.block // geometry.BLOCK_THREADS)))
    if len(found) == 1:
        measured.append([0] * 5 + [np.int32(0)] * 3)
        scaled.append([0, np.int32(0), 0, 0, 0])
    norms, powers = map(sum, zip(*blocks, strict=True))
    kernel, _ = _function(sources.norms, dtype)
    arguments = (inner, blocks[0][0], *measured[0], *measured[1])
    threads = geometry.LANES, geometry.WARPS, 1
    looked = Launch("norms", kernel, (norms, 1, 1), threads, arguments)
    kernel, _ = _function(sources.scales)
    most = _LARGEST_EXPONENT[dtype.accumulator.itemsize]
    how = (np.int32(number) for number in (most, even, lift))
    arguments = (*how, blocks[0][1], *scaled[0], *scaled[1])
    threads = geometry.BLOCK_THREADS, 1, 1
    return [looked, Launch("norms", kernel, (powers, 1, 1), threads, arguments)]


def repair(update: Update, a: Matrix, b: Matrix, told: int) -> Launch:
    """Form the classical product of the marked regions; if any is, set the word at `told`."""
    scheme, out, by_columns = update.scheme, update.out, update.out.matrix.by_columns
    kernel, _ = _function(sources.repair, a.dtype, out.matrix.dtype)
    # "left" is indexed by the major axis of C, "right" by the minor one.
    left, right = (b.transposed(), a.transposed()) if by_columns else (a, b)
    first = out.start[::-1] if by_columns else out.start
    blocks_minor = scheme.m if by_columns else scheme.n
    most = device.properties(device.current()).multiprocessors
    grid, threads = geometry.repair_launch(*out.sizes[4:], scheme.m * scheme.n, most)
    factors = left.address(first[0], 0), *left.strides, right.address(0, first[1]), *right.strides
    sizes = *out.sizes[:2], a.shape[1], *out.sizes[2:]
    rest = *update.scales, update.marks, np.int32(blocks_minor), told
    return Launch("repair", kernel, grid, threads, (*factors, *update.pointers, *sizes, *rest))


def empty() -> Launch:
    """Launch an empty kernel, to measure what a launch costs."""
    kernel, _ = _function(sources.empty)
    return Launch("empty", kernel, (1, 1, 1), (geometry.LANES, 1, 1), ())


def copy(source: Matrix | None, target: Matrix, scale: float = 1.0) -> Launch:
    """Write ``scale * source`` to `target`, or zeros if there is no source."""
    dtype = target.dtype if source is None else source.dtype
    kernel, _ = _function(sources.copy, dtype, target.dtype)
    sums = sources.wider(dtype, target.dtype).numpy.type
    if target.by_columns:  # so that neighbouring threads write neighbouring elements
        source, target = source and source.transposed(), target.transposed()
    grid, threads = geometry.copy_launch(*target.shape)
    read = (0, 0, 0) if source is None else (source.pointer, *source.strides)
    written = target.pointer, *target.strides, *target.shape
    return Launch("copies", kernel, grid, threads, (*read, *written, sums(scale)))
