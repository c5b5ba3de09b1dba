"""Compiled kernels, one per unit, and the launches of each stage.

A kernel is compiled when a device first needs it (tenths of a second; CuPy keeps the result on
disk, and a module per device).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon.codegen.cuda_plan import ACCESS_BYTES
from falcon.schemes import Scheme

from . import device, geometry, sources
from .geometry import round_up
from .matrix import Matrix
from .steps import Launch, Step

# Of the powers by which lines are multiplied, by bytes of an accumulator: the product of a row's
# and a column's is a normal number.
_LARGEST_EXPONENT = {4: 60, 8: 500}


@cache
def _function(make: Callable[..., sources.Unit], *what: Any) -> tuple[Any, sources.Unit]:
    """Compile a kernel; several threads may do so at once."""
    unit = make(*what)
    return device.function(sources.assemble([unit]), unit.name), unit


@dataclass(frozen=True, slots=True)
class Part:
    """A part of every block of A or B, to be combined."""

    source: Matrix
    target: int  # address of the R sums
    block: tuple[int, int]  # rows and columns of a block
    start: tuple[int, int]  # first row and column of the part of every block, and its size
    size: tuple[int, int]
    scale: int = 0  # address of the powers of A's rows or B's columns, made by `scales`; 0: none


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
        window = Window.of(x.source, x.block, x.start, x.size)
        (count, _, _), threads = geometry.combine_launch(window.height, window.width, fit.width)
        blocks.append(count)
        # The inner dimension is A's columns and B's rows.
        flags = x.source.by_columns, (at == 0) != x.source.by_columns, window.allows(fit.width)
        arguments += [window.pointer, x.target, x.source.ld, *window.sizes, *map(np.int32, flags)]
        arguments += [x.scale, x.start[at]]
    return Launch("combine", kernel, (sum(blocks), 1, 1), threads, (blocks[0], *arguments))


@dataclass(frozen=True, slots=True)
class Update:
    """The part of every block of ``out = alpha sums + beta c`` that Combine H and repair write."""

    scheme: Scheme
    sums: DType  # type of the products, alpha and beta
    out: Matrix
    c: Matrix | None  # in the order of `out`
    block: tuple[int, int]  # these three as in `Part`
    start: tuple[int, int]
    part: tuple[int, int]
    alpha: float
    beta: float
    marks: int  # address of the zeroed marks; 0: non-finite values are not repaired
    powers: tuple[int, int] = (0, 0)  # addresses of those of A's rows and B's columns; 0: none

    @property
    def window(self) -> Window:
        """The part of `out`."""
        return Window.of(self.out, self.block, self.start, self.part)

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
            return out.address(*self.start), 0, out.ld, 0
        # A single row by columns without gaps looks as if it were by rows.
        ld = c.strides[1] if out.by_columns else c.ld
        return out.address(*self.start), c.address(*self.start), out.ld, ld


def combine_out(update: Update, planes: int) -> Launch:
    """Combine H of the products at address `planes`; sets `update.marks` unless they are 0."""
    scheme, sums, out = update.scheme, update.sums, update.out
    kernel, unit = _function(sources.combine_out, scheme, sums, out.dtype)
    window, width = update.window, unit.fits[0].width
    c = None if update.c is None else Window.of(update.c, update.block, update.start, update.part)
    aligned = window.allows(width) and (c is None or c.allows(width))
    lines = list(zip(update.powers, update.start, strict=True))
    grid, threads = geometry.combine_launch(window.height, window.width, width)
    flags = np.int32(out.by_columns), np.int32(aligned)
    powers = (x for pair in (lines[::-1] if out.by_columns else lines) for x in pair)
    what = planes, *update.pointers, *window.sizes, *update.scales, update.marks
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
    scheme, out = update.scheme, update.out
    kernel, _ = _function(sources.repair, a.dtype, out.dtype)
    window = update.window
    # "left" is indexed by the major axis of C, "right" by the minor one.
    left, right = (b.transposed(), a.transposed()) if out.by_columns else (a, b)
    first = update.start[::-1] if out.by_columns else update.start
    blocks_minor = scheme.m if out.by_columns else scheme.n
    most = device.properties(device.current()).multiprocessors
    blocks = scheme.m * scheme.n
    grid, threads = geometry.repair_launch(window.height, window.width, blocks, most)
    factors = left.address(first[0], 0), *left.strides, right.address(0, first[1]), *right.strides
    sizes = *window.sizes[:2], a.shape[1], *window.sizes[2:]
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


@dataclass(frozen=True, slots=True)
class Window:
    """A part of every block of a matrix, in terms of its major and minor axis."""

    matrix: Matrix
    pointer: int  # address of the part's first element in block (0, 0)
    # Remaining size of the matrix from there, distance between blocks, size of the part; each along
    # the major and the minor axis. All kernels take them in this order.
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls, matrix: Matrix, block: tuple[int, int], start: tuple[int, int], part: tuple[int, int]
    ) -> Window:
        """Describe rows and columns from `start`, of size `part`, of blocks of size `block`."""
        left = tuple(size - first for size, first in zip(matrix.shape, start, strict=True))
        step = -1 if matrix.by_columns else 1
        sizes = (*left[::step], *block[::step], *part[::step])
        return cls(matrix, matrix.address(*start), sizes)

    @property
    def height(self) -> int:
        """Size of the part along the major axis."""
        return self.sizes[4]

    @property
    def width(self) -> int:
        """Size of the part along the minor axis."""
        return self.sizes[5]

    def allows(self, vector: int) -> bool:
        """Whether every block can be accessed `vector` elements at a time."""
        nbytes = vector * self.matrix.itemsize
        aligned = self.pointer % nbytes == 0
        return aligned and self.matrix.ld % vector == 0 and self.sizes[3] % vector == 0
