"""Compiled kernels, one per unit, and the launches of each stage.

A kernel is compiled when a device first needs it (tenths of a second; CuPy keeps the result on
disk, and a module per device).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import ceil, log2
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.matrix import Matrix
from falcon._core.scaling import LARGEST_EXPONENT
from falcon.codegen.cuda_plan import ACCESS_BYTES
from falcon.schemes import Scheme

from . import device, geometry, sources
from .geometry import Tables, round_up
from .layout import Span
from .packed import Sums
from .steps import Launch

# Of the powers by which lines are multiplied, by bytes of an accumulator: the product of a row's
# and a column's is a normal number.
_LARGEST_EXPONENT = {4: 60, 8: LARGEST_EXPONENT}
# The norms of lines that are multiplied by parts are below 2^10, the largest of a group at least a
# half of it: of small numbers at most 2^-34 of that norm is lost. Where the coefficients of a sum
# add up to more than 64, norms are smaller, so that sums are below 2^16, where float16 ends.
_EXPONENT, _EXPONENT_OF_SUMS = 10, 16


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
    # The part of every block.
    rows: Span
    columns: Span
    # Of A and B: what is written, and the address of the powers made by `powers` (0: none); of A
    # also that of the means.
    sums: Sums | None = None
    powers: int = 0
    means: int = 0
    steps: int = 0  # address of the powers along K made by `units`; 0: none

    @property
    def start(self) -> tuple[int, int]:
        """First row and column of the part of every block."""
        return self.rows[0], self.columns[0]

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
        size = self.rows[1], self.columns[1]
        return (*left[::step], *self.block[::step], *size[::step])  # type: ignore[return-value]

    def allows(self, vector: int) -> bool:
        """Whether every block can be accessed `vector` elements at a time."""
        aligned = self.pointer % (vector * self.matrix.itemsize) == 0
        return aligned and self.matrix.ld % vector == 0 and self.sizes[3] % vector == 0


def combine(
    scheme: Scheme,
    operand: DType,
    of_a: Part | None = None,
    of_b: Part | None = None,
    centred: bool = False,
) -> Launch:
    """Combine A, B or both; `operand` is that of the problem: what the sums are written as.

    `centred`: the means of A's part are subtracted.
    """
    written = operand if operand.splits > 1 else operand.left
    kernel, unit = _function(sources.combine_in, scheme, written, centred)
    grids: list[int] = []
    arguments: list[Any] = []
    for at, (x, fit) in enumerate(zip((of_a, of_b), unit.fits, strict=True)):
        part = x or of_a or of_b  # no thread block reads the arguments of one that is left out
        assert part is not None and part.sums is not None
        grid, threads = geometry.combine_launch(*part.sizes[4:], fit.width)
        grids.append(0 if x is None else grid[0])
        flags = part.matrix.by_columns, part.sums.along, part.allows(fit.width)
        arguments += [part.pointer, part.sums.pointer, part.matrix.ld, *part.sizes]
        tables = Tables(part.matrix.shape[at], written.accumulator.itemsize)
        line = tables.factors(part.start[at], part.sums.along)
        inner, first = part.matrix.shape[1 - at], part.start[1 - at]
        step = first + at * round_up(inner, geometry.UNIT)
        arguments += [*map(np.int32, flags), part.powers, line, part.steps, step]
        if at == 0:
            units = round_up(part.matrix.shape[0], geometry.UNIT)
            arguments += [part.means and part.means + 4 * part.start[0], units, part.start[1]]
    return Launch("combine", kernel, (sum(grids), 1, 1), threads, (grids[0], *arguments))


@dataclass(frozen=True, slots=True)
class Update:
    """The part of every block of ``out = alpha sums + beta c`` that Combine H and repair write."""

    scheme: Scheme
    sums: DType  # type of the products, alpha and beta
    out: Part
    c: Matrix | None  # in the order of `out`
    alpha: float
    beta: float
    flags: int  # address of the zeroed flags of regions; 0: non-finite values are not repaired
    powers: tuple[int, int] = (0, 0)  # addresses of those of A's rows and B's columns; 0: none

    @property
    def factors(self) -> tuple[Any, Any]:
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
    """Combine H of the products at address `planes`; sets `update.flags` unless they are 0."""
    out, c, by_columns = update.out, update.c, update.out.matrix.by_columns
    kernel, unit = _function(sources.combine_out, update.scheme, update.sums, out.matrix.dtype)
    width = unit.fits[0].width
    aligned = out.allows(width) and (c is None or replace(out, matrix=c).allows(width))
    lines = list(zip(update.powers, out.start, strict=True))
    grid, threads = geometry.combine_launch(*out.sizes[4:], width)
    order = np.int32(by_columns), np.int32(aligned)
    powers = (x for pair in (lines[::-1] if by_columns else lines) for x in pair)
    what = planes, *update.pointers, *out.sizes, *update.factors, update.flags
    return Launch("combine H", kernel, grid, threads, (*what, *order, *powers))


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows of A, or of the transpose of B, that a scheme adds up."""

    source: Matrix
    block: int  # rows of a block
    powers: int  # address of the result, `geometry.Tables`: see powers.cu
    segments: int = 0  # address of the sums of all segments; 0: they are not needed
    # Address of powers along K (0: none), and the entry of the first.
    steps: int = 0
    step: int = 0


@lru_cache(maxsize=256)
def exponent_of_norms(scheme: Scheme, operand: DType) -> int:
    """Return the power of two below which parts need the norms of lines; 0: there are no parts."""
    if operand.splits == 1:
        return 0
    largest = max(abs(x).reshape(scheme.rank, -1).sum(axis=1).max() for x in (scheme.U, scheme.V))
    return max(1, min(_EXPONENT, _EXPONENT_OF_SUMS - ceil(log2(largest))))


def powers(
    pair: list[Lines],
    scratch: int,
    room: int,
    equilibrate: bool = True,
    fit: int = 0,
    columns: int = 0,
) -> list[Launch]:
    """Find powers of two for the lines of one or two matrices of as many columns.

    `scratch`, `room`: address of memory for facts about parts of lines, and its bytes.
    `equilibrate`: even out the norms of rows that are added up.
    `fit`: see powers.cu, and `exponent_of_norms`.
    `columns`: address of the powers of B's columns; not 0: the first matrix is A, whose means are
    found too.
    """
    first = pair[0].source
    dtype, vector = first.dtype, ACCESS_BYTES // first.itemsize
    sums_bytes = dtype.accumulator.itemsize
    of_norms: list[list[Any]] = []
    of_powers: list[list[Any]] = []
    grids = []
    line = geometry.LINE_BYTES
    for x in pair:
        matrix = x.source
        (lines, inner), along = matrix.shape, not matrix.by_columns
        groups = lines if along else -(-lines // (geometry.LANES * vector))
        partials = min(geometry.norm_parts(inner, groups), room // (line * lines))
        sums, used = scratch, round_up(line * lines * partials, ACCESS_BYTES)
        if partials < 2:
            partials, sums, used = 1, x.powers + Tables(lines, sums_bytes).sums, 0
        scratch, room = scratch + used, room - used
        unit = matrix.strides[1 if along else 0] == 1
        begins = matrix.pointer, matrix.ld * matrix.itemsize
        aligned = unit and not any(at % ACCESS_BYTES for at in begins)
        order = (np.int32(y) for y in (partials, along, aligned))
        found = lines, sums, *order, x.powers, x.segments, x.steps, x.step
        of_norms.append([matrix.pointer, *matrix.strides, *found])
        of_powers.append([sums, np.int32(partials), lines, x.block, x.powers])
        grids.append(
            (-(-groups * partials // geometry.WARPS), -(-x.block // geometry.BLOCK_THREADS))
        )
    norms, threads = map(sum, zip(*grids, strict=True))
    # Of a single matrix, no thread block reads the second arguments.
    arguments = (inner, grids[0][0], *of_norms[0], *of_norms[-1])
    kernel, _ = _function(sources.norms, dtype, bool(fit), any(x.segments for x in pair))
    block = geometry.LANES, geometry.WARPS, 1
    measure = Launch("norms", kernel, (norms, 1, 1), block, arguments)
    most = _LARGEST_EXPONENT[sums_bytes]
    how = (np.int32(number) for number in (most, equilibrate, fit))
    arguments = (*how, inner, grids[0][1], *of_powers[0], *of_powers[-1])
    kernel, _ = _function(sources.powers, dtype.accumulator)
    block = geometry.BLOCK_THREADS, 1, 1
    launches = [measure, Launch("norms", kernel, (threads, 1, 1), block, arguments)]
    if columns:
        a, (found, _, lines, *_) = pair[0], of_powers[0]
        kernel, _ = _function(sources.means)
        means = geometry.segments(inner), round_up(lines, geometry.UNIT)
        grid, block = geometry.element_launch(*means)
        arguments = a.segments, lines, inner, found, a.powers, columns
        launches.append(Launch("norms", kernel, grid, block, arguments))
    return launches


def units(b: Matrix, pointer: int) -> Launch:
    """Find powers of two along K, of A's columns and B's rows."""
    kernel, _ = _function(sources.units, b.dtype)
    lines = b.transposed()
    most = np.int32(_LARGEST_EXPONENT[b.dtype.accumulator.itemsize])
    what = b.shape[0], lines.pointer, *lines.strides, lines.shape[0], pointer, most
    return Launch("norms", kernel, (1, 1, 1), (geometry.SAMPLE_THREADS, 1, 1), what)


def repair(update: Update, a: Matrix, b: Matrix, host_count: int) -> Launch:
    """Form the classical product of regions with a flag, and count them.

    `host_count`: an address in the host's memory; 0: there is none.
    """
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
    rest = *update.factors, update.flags, np.int32(blocks_minor), host_count
    return Launch("repair", kernel, grid, threads, (*factors, *update.pointers, *sizes, *rest))


def empty() -> Launch:
    """Launch an empty kernel, to measure what a launch costs."""
    kernel, _ = _function(sources.empty)
    return Launch("empty", kernel, (1, 1, 1), (geometry.LANES, 1, 1), ())


def mirror(out: Matrix, count: int = 1, step: int = 0) -> Launch:
    """Copy the lower triangle to the upper one, of `count` matrices `step` elements apart."""
    kernel, _ = _function(sources.mirror, out.dtype)
    size = out.shape[0]
    squares, threads = -(-size // geometry.LANES), (geometry.LANES, geometry.WARPS, 1)
    what = out.pointer, *out.strides, size, step
    return Launch("copies", kernel, (squares**2, count, 1), threads, what)


def copy(source: Matrix | None, target: Matrix, scale: complex = 1.0, turned: int = 0) -> Launch:
    """Write ``scale * source`` to `target`, or zeros if there is no source.

    `turned`: not 0: what is written, complex numbers, times i, so many elements behind, too.
    """
    dtype = target.dtype if source is None else source.dtype
    kernel, _ = _function(sources.copy, dtype, target.dtype)
    sums = sources.wider(dtype.part or dtype, target.dtype.part or target.dtype).numpy.type
    if target.by_columns:  # so that neighbouring threads write neighbouring elements
        source, target = source and source.transposed(), target.transposed()
    grid, threads = geometry.element_launch(*target.shape)
    read = (0, 0, 0) if source is None else (source.pointer, *source.strides)
    written = target.pointer, *target.strides, *target.shape
    factor = sums(scale.real), sums(scale.imag)
    return Launch("copies", kernel, grid, threads, (*read, *written, turned, *factor))
