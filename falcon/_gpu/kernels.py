"""Compiled kernels, one per unit, and the launches of each stage.

A kernel is compiled when a device first needs it (tenths of a second; CuPy keeps the result on
disk, and a module per device).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon.codegen.cuda_emit import FACTORS
from falcon.schemes import Scheme

from . import device, geometry, sources
from .matrix import Matrix
from .steps import Fill, Launch, Step

_functions: dict[tuple, tuple[Any, sources.Unit]] = {}
# Of the powers by which lines are multiplied, by bytes of an accumulator: the product of a row's
# and a column's is a normal number.
_LARGEST_EXPONENT = {4: 60, 8: 500}


def _function(key: tuple, make: Callable[[], sources.Unit]) -> tuple[Any, sources.Unit]:
    found = _functions.get(key)
    if found is None:  # several threads may compile at once: the first one counts
        unit = make()
        found = device.function(sources.assemble([unit]), unit.name), unit
        found = _functions.setdefault(key, found)
    return found


def clear() -> None:
    """Discard the compiled kernels."""
    _functions.clear()


def combine_in(
    scheme: Scheme,
    factor: str,
    operand: DType,
    source: Matrix,
    target: int,
    block: tuple[int, int],
    start: tuple[int, int],
    part: tuple[int, int],
    scale: int = 0,
) -> Launch:
    """Combine A ("u") or B ("v").

    Parameters
    ----------
    operand : DType
        Of the problem: what the sums are written as.
    source : Matrix
    target : int
        Address of the R sums.
    block : (int, int)
        Rows and columns of a block.
    start, part : (int, int)
        First row and column of the part of every block to be combined, and its size.
    scale : int
        Address of the powers of A's rows or B's columns, made by `scales`; 0: none.
    """
    written = operand if operand.parts > 1 else operand.left
    key = ("in", scheme, factor, written)
    kernel, unit = _function(key, lambda: sources.combine_in(scheme, factor, written))
    assert unit.fit is not None
    window = Window.of(source, block, start, part)
    grid, threads = geometry.combine_launch(window.height, window.width, unit.fit.width)
    # The inner dimension is A's columns and B's rows.
    along_minor = (factor == "u") != source.by_columns
    return Launch(
        "combine A" if factor == "u" else "combine B",
        kernel,
        grid,
        threads,
        (
            window.pointer,
            target,
            source.ld,
            *window.sizes,
            np.int32(source.by_columns),
            np.int32(along_minor),
            np.int32(window.allows(unit.fit.width)),
            scale,
            start[FACTORS.index(factor)],
        ),
    )


@dataclass(frozen=True, slots=True)
class Update:
    """The part of every block of ``out = alpha sums + beta c`` that Combine H and repair write.

    Attributes
    ----------
    scheme : Scheme
    sums : DType
        Type of the products, alpha and beta.
    out : Matrix
    c : Matrix or None
        In the order of `out`.
    block, start, part : (int, int)
        As in `combine_in`.
    alpha, beta : float
    marks : int
        Address of the zeroed marks, or 0 if non-finite values are not repaired.
    powers : (int, int)
        Addresses of the powers by which A's rows and B's columns were multiplied; 0: none.
    """

    scheme: Scheme
    sums: DType
    out: Matrix
    c: Matrix | None
    block: tuple[int, int]
    start: tuple[int, int]
    part: tuple[int, int]
    alpha: float
    beta: float
    marks: int
    powers: tuple[int, int] = (0, 0)

    @property
    def window(self) -> Window:
        """The part of `out`."""
        return Window.of(self.out, self.block, self.start, self.part)

    @property
    def added(self) -> Window | None:
        """The same part of `c`."""
        if self.c is None:
            return None
        return Window.of(self.c, self.block, self.start, self.part)

    @property
    def scales(self) -> tuple[Any, Any]:
        """Alpha and beta as the kernels take them."""
        kind = self.sums.numpy.type
        return kind(self.alpha), kind(self.beta)

    @property
    def pointers(self) -> tuple[int, int, int, int]:
        """Addresses of the parts of `out` and `c`, and their leading dimensions."""
        c, added = self.c, self.added
        if c is None or added is None:
            return self.window.pointer, 0, self.out.ld, 0
        # A single row by columns without gaps looks as if it were by rows.
        ld = c.strides[1] if self.out.by_columns else c.ld
        return self.window.pointer, added.pointer, self.out.ld, ld


def combine_out(update: Update, planes: int) -> Launch:
    """Combine H of the products at address `planes`; sets `update.marks` unless they are 0."""
    scheme, sums, out = update.scheme, update.sums, update.out
    key = ("out", scheme, sums, out.dtype)
    kernel, unit = _function(key, lambda: sources.combine_out(scheme, sums, out.dtype))
    assert unit.fit is not None
    window, added, width = update.window, update.added, unit.fit.width
    aligned = window.allows(width) and (added is None or added.allows(width))
    lines = list(zip(update.powers, update.start, strict=True))
    grid, threads = geometry.combine_launch(window.height, window.width, width)
    return Launch(
        "combine H",
        kernel,
        grid,
        threads,
        (
            planes,
            *update.pointers,
            *window.sizes,
            *update.scales,
            update.marks,
            np.int32(out.by_columns),
            np.int32(aligned),
            *(x for pair in (lines[::-1] if out.by_columns else lines) for x in pair),
        ),
    )


def scales(
    x: Matrix,
    block: int,
    scratch: int,
    room: int,
    scale: int,
    even: bool = True,
    lift: bool = False,
) -> list[Step]:
    """Find powers of two for the rows of `x` that a scheme adds up.

    Parameters
    ----------
    x : Matrix
        A, or the transpose of B.
    block : int
        Rows of a block.
    scratch, room : int
        Address of memory for partial sums of squares, and its bytes.
    scale : int
        Address of the result, `geometry.scale_bytes` of the rows: see Powers in common.cuh.
    even : bool
        Even out the norms of rows that are added up.
    lift : bool
        Multiply rows so small that bfloat16 parts of them would be lost.
    """
    (lines, inner), along = x.shape, not x.by_columns
    count = min(geometry.norm_parts(inner), room // (8 * lines))
    if count < 2:
        count, scratch = 1, scale + 8
    kernel, _ = _function(("norms", x.dtype), lambda: sources.norms(x.dtype))
    sizes = (lines, inner, scratch, np.int32(count), np.int32(along))
    grid, threads = geometry.norms_launch(lines, count, along)
    norms = Launch("norms", kernel, grid, threads, (x.pointer, *x.strides, *sizes))
    kernel, _ = _function(("scales",), sources.scales)
    most = _LARGEST_EXPONENT[x.dtype.accumulator.itemsize]
    how = (np.int32(number) for number in (most, even, lift))
    arguments = (scratch, np.int32(count), lines, block, *how, scale)
    found = Launch("norms", kernel, *geometry.flat_launch(block), arguments)
    return [Fill("norms", scale, 0, 8), norms, found]


def repair(update: Update, a: Matrix, b: Matrix, told: int) -> Launch:
    """Form the classical product of the marked regions; if any is, set the word at `told`."""
    scheme, out = update.scheme, update.out
    key = ("repair", a.dtype, out.dtype)
    kernel, _ = _function(key, lambda: sources.repair(a.dtype, out.dtype))
    window = update.window
    # "left" is indexed by the major axis of C, "right" by the minor one.
    left, right = (b.transposed(), a.transposed()) if out.by_columns else (a, b)
    first = update.start[::-1] if out.by_columns else update.start
    blocks_minor = scheme.m if out.by_columns else scheme.n
    most = device.properties(device.current()).multiprocessors
    blocks = scheme.m * scheme.n
    grid, threads = geometry.repair_launch(window.height, window.width, blocks, most)
    return Launch(
        "repair",
        kernel,
        grid,
        threads,
        (
            left.address(first[0], 0),
            *left.strides,
            right.address(0, first[1]),
            *right.strides,
            *update.pointers,
            *window.sizes[:2],
            a.shape[1],
            *window.sizes[2:],
            *update.scales,
            update.marks,
            np.int32(blocks_minor),
            told,
        ),
    )


def empty() -> Launch:
    """Launch an empty kernel, to measure what a launch costs."""
    kernel, _ = _function(("empty",), sources.empty)
    return Launch("empty", kernel, (1, 1, 1), (geometry.LANES, 1, 1), ())


def copy(source: Matrix | None, target: Matrix, scale: float = 1.0) -> Launch:
    """Write ``scale * source`` to `target`, or zeros if there is no source."""
    dtype = target.dtype if source is None else source.dtype
    kernel, _ = _function(("copy", dtype, target.dtype), lambda: sources.copy(dtype, target.dtype))
    sums = sources.wider(dtype, target.dtype).numpy.type
    if target.by_columns:  # so that neighbouring threads write neighbouring elements
        source, target = source and source.transposed(), target.transposed()
    grid, threads = geometry.copy_launch(*target.shape)
    return Launch(
        "copies",
        kernel,
        grid,
        threads,
        (
            0 if source is None else source.pointer,
            *((0, 0) if source is None else source.strides),
            target.pointer,
            *target.strides,
            *target.shape,
            sums(scale),
        ),
    )


class Window:
    """A part of every block of a matrix, in terms of its major and minor axis.

    Attributes
    ----------
    pointer : int
        Address of the part's first element in block (0, 0).
    sizes : tuple of int
        Remaining size of the matrix from there, distance between blocks, size of the part; each
        along the major and the minor axis. All kernels take them in this order.
    """

    __slots__ = ("_matrix", "pointer", "sizes")

    def __init__(self, matrix: Matrix, pointer: int, sizes: tuple[int, ...]) -> None:
        self._matrix, self.pointer, self.sizes = matrix, pointer, sizes

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
        nbytes = vector * self._matrix.itemsize
        aligned = self.pointer % nbytes == 0
        return aligned and self._matrix.ld % vector == 0 and self.sizes[3] % vector == 0
