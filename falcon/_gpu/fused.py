"""Products of two float16 parts by one kernel, of Hopper GPUs: see kernels/fused.cu.

The three products of float32 by parts are one: tensor cores add up 64 elements along K, which are
then added in float32. What cuBLAS needs for the same accuracy (shorter products along K, means that
are subtracted first) is left out.

The kernel reads operands by the tensor memory accelerator, which takes a description of each, a
map; the driver makes these.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from falcon._core.dtypes import FLOAT16, FLOAT32, DType

from . import device, sources
from .geometry import FUSED_BLOCK, FUSED_STAGES, FUSED_TILE, Sizes
from .matrix import Operand
from .trials import Trial

# Compute capability: wgmma is of sm_90a alone.
_HOPPER = 9, 0
_OPTIONS = ("-arch=sm_90a",)  # which holds beside CuPy's own, sm_90
_THREADS = 384
# Of the buffers of both operands and parts, and two barriers for each.
_SHARED_BYTES = FUSED_STAGES * (4 * FUSED_TILE * FUSED_BLOCK * 2 + 16)
# CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
# zeros: CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE.
_FLOAT16, _SWIZZLE, _PROMOTION = 6, 3, 3
_MAP = np.dtype([("words", np.uint64, 16)])  # CUtensorMap, at a multiple of 64 bytes
_LINES = 64  # neighbours in memory that a box holds: 128 bytes
# Rows, columns, inner length and batch of the product that a device must form exactly.
_TRIED = 144, 272, 208, 2


def load() -> Any:
    """Return the driver's library."""
    return CDLL("libcuda.so.1")


def multiplies(operand: DType, index: int) -> bool:
    """Whether products of elements that are multiplied so are formed by the kernel on a device.

    That must be a Hopper GPU, on which a product of whole numbers was exact.
    """
    if operand.splits != 2 or operand.multiplied is not FLOAT16:
        return False
    return device.properties(index).capability == _HOPPER and trial.works(index)


def _try_whole_numbers() -> None:
    """Multiply whole numbers, whose parts are any; raises ValueError unless all sums are exact."""
    rows, columns, inner, batch = _TRIED
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (batch, rows, 2, inner))
    b = random.integers(-4, 5, (batch, 2, inner, columns))  # the smallest part first
    of_a, of_b = (device.upload(x.astype(np.float16)) for x in (a, b))
    out = device.empty((batch, rows, columns), np.float32)
    left = Operand(of_a.data.ptr, 2 * inner, False, rows * 2 * inner, FLOAT16)
    right = Operand(of_b.data.ptr, columns, False, 2 * inner * columns, FLOAT16)
    to = Operand(out.data.ptr, columns, False, rows * columns, FLOAT32)
    made = product(rows, columns, inner, left, right, to, batch=batch)
    made.start(0, made.arguments)
    large, small = b[:, 1], b[:, 0]
    exact = a[:, :, 0] @ (large + small) + a[:, :, 1] @ large
    if not (device.download(out) == exact).all():
        raise ValueError("its product of whole numbers is wrong")


trial = Trial(_try_whole_numbers, "the kernel for float32 by parts does not run")


@dataclass(frozen=True, slots=True)
class FusedProduct:
    """A batch of products; the accelerator's maps are made of addresses when it starts."""

    kernel: Any
    grid: Sizes
    left: tuple  # what `map_of` takes behind an address
    right: tuple
    # Addresses of the operands, instead of which the kernel takes maps, then all else.
    arguments: tuple
    stage: str = "multiply"
    block: Sizes = (_THREADS, 1, 1)
    shared: int = _SHARED_BYTES

    def start(self, _: Any, arguments: Sequence[Any]) -> None:
        left, right, *others = arguments
        maps = map_of(left, *self.left), map_of(right, *self.right)
        given = *(x.words for x in maps), *others
        self.kernel(self.grid, self.block, given, shared_mem=self.shared)


def product(
    rows: int,
    columns: int,
    inner: int,
    a: Operand,
    b: Operand,
    out: Operand,
    *,
    batch: int = 1,
    beta: float = 0.0,
    triangle: bool = False,
) -> FusedProduct:
    """Describe ``out = a b + beta out`` of two parts each; beta is 0 or 1.

    Parts of A and B lie as `cublas.products` says. For an `out` by columns the product is
    ``b^T a^T``. `triangle`: only tiles of out that reach the diagonal, or the lower triangle.
    """
    left, right = (a, not a.by_columns, rows), (b, b.by_columns, columns)
    if out.by_columns:
        left, right = right, left
    (a, of_a, rows), (b, of_b, columns) = left, right
    index = device.current()
    high, wide = (-(-x // FUSED_TILE) for x in (rows, columns))
    tiles = batch * (high * (high + 1) // 2 if triangle else high * wide)
    shapes = (_shape(x, along, lines, inner, batch) for x, along, lines in (left, right))
    how = (np.int32(x) for x in (rows, columns, inner, batch, beta != 0, triangle))
    arguments = a.pointer, b.pointer, np.int32(out.by_columns), out.pointer, out.ld, out.step, *how
    blocks = min(tiles, device.properties(index).multiprocessors)
    of_left, of_right = shapes
    return FusedProduct(_kernel(index, of_a, of_b), (blocks, 1, 1), of_left, of_right, arguments)


@cache
def _kernel(index: int, a_along: bool, b_along: bool) -> Any:
    """Compile the kernel for operands whose elements along K are neighbours, or lines."""
    unit = sources.fused(a_along, b_along)
    made = device.function(sources.assemble([unit]), unit.name, _OPTIONS)
    device.allow_shared(made, _SHARED_BYTES)  # of the current device
    return made


def _shape(
    x: Operand, along: bool, lines: int, inner: int, batch: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of the four axes, strides of all but the first in bytes, and a box."""
    sizes, box = (lines, inner), (_LINES, FUSED_BLOCK)
    between = inner * x.ld  # parts
    if along:
        sizes, box, between = sizes[::-1], (FUSED_BLOCK, FUSED_TILE), inner
    strides = x.ld, between, x.step or 2 * between
    return (*sizes, 2, batch), tuple(2 * x for x in strides), (*box, 1, 1)


class Map(NamedTuple):
    """The accelerator's description of an operand."""

    words: np.ndarray  # as it is passed to the kernel
    address: int  # of the words


@lru_cache(maxsize=1024)
def map_of(
    pointer: int, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]
) -> Map:
    """Return the map of an operand."""
    memory = np.zeros(24, np.uint64)
    skipped = -memory.ctypes.data % 64 // 8
    made = memory[skipped : skipped + 16]
    axes = len(sizes)
    status = driver().cuTensorMapEncodeTiled(
        *(c_void_p(made.ctypes.data), _FLOAT16, axes, c_void_p(pointer)),
        *((c_uint64 * axes)(*sizes), (c_uint64 * (axes - 1))(*strides)),
        *((c_uint32 * axes)(*box), (c_uint32 * axes)(*[1] * axes)),
        *(0, _SWIZZLE, _PROMOTION, 0),
    )
    if status:
        raise RuntimeError(f"cuTensorMapEncodeTiled failed: {status}, of {sizes}, {strides}")
    return Map(made.view(_MAP), made.ctypes.data)


@cache
def driver() -> Any:
    """Return the driver's library; pointers are passed to it as ctypes' objects."""
    return load()
