"""`Layout`: how a call is cut and what its workspace holds, decided when it is planned.

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

Pure functions that need no GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from falcon._core.arithmetic import FIXED
from falcon._core.dtypes import DType
from falcon._core.problem import Problem
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme, classical

from .cublas import fixed_point_bytes
from .geometry import UNIT, Sizes, Tables, flag_bytes, round_up, segment_bytes, step_bytes, triangle

_ALIGNMENT = 256
# With smaller chunks, products would be far slower than the measured rate.
_LEAST_CHUNK = 256
# Parts of float32 are formed by Combine A and B, in the classical algorithm too.
_WHOLE = classical(1, 1, 1)

Span = tuple[int, int]  # first and number of rows, columns or inner elements of every block


class Buffers(NamedTuple):
    """Bytes of what a workspace holds, or the addresses; 0 for what is not needed."""

    # Copies of operands that the kernels cannot take, and of a result that they cannot write.
    a: int = 0
    b: int = 0
    c: int = 0
    out: int = 0
    # The sums of A and B, and their products.
    at: int = 0
    bt: int = 0
    h: int = 0
    flags: int = 0  # of regions that need a repair: see combine_out.cu
    # By which A's rows and B's columns are multiplied: see `Powers` in common.cuh.
    powers_a: int = 0
    powers_b: int = 0
    # For products by parts: the means of A's segments, and the sums of B's.
    means: int = 0
    segments: int = 0
    steps: int = 0  # powers of two along K: see units.cu
    fixed: int = 0  # of cuBLAS, for products in fixed point: the last

    def placed(self, pointer: int) -> Buffers:
        """Return the addresses in memory at `pointer`."""
        places = accumulate(self[:-1], initial=pointer)
        return Buffers(*(at if size else 0 for at, size in zip(places, self, strict=True)))


@dataclass(frozen=True, slots=True)
class Layout:
    """How a call is cut and what its workspace holds."""

    scheme: Scheme | None  # whose stages run; None: cuBLAS multiplies the operands themselves
    operand: DType  # as which elements are multiplied
    buffers: Buffers
    # Rows, columns and inner length of a block, and of what is multiplied of each at a time.
    block: Sizes = (0, 0, 0)
    chunk: Sizes = (0, 0, 0)
    # Of products by parts: one kernel forms them (fused.py); means are subtracted from A.
    fused: bool = False
    centred: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the workspace."""
        return sum(self.buffers)

    @property
    def chunks(self) -> list[list[Span]]:
        """The chunks of a block along the rows, the columns and the inner dimension."""
        return [
            [(first, min(part, size - first)) for first in range(0, size, part)]
            for size, part in zip(self.block, self.chunk, strict=True)
        ]

    @property
    def combined_again(self) -> tuple[int, int]:
        """How often A and B are combined, in the driver's order of chunks.

        With one chunk along K, the sums of A are kept while the columns advance; with one along N
        too, those of B are kept for all rows.
        """
        rows, columns, inner = map(len, self.chunks)
        return columns if inner > 1 else 1, rows if inner > 1 or columns > 1 else 1


def layout_of(
    problem: Problem,
    scheme: Scheme | None,
    operand: DType,
    limit: int | None,
    usual: int,
    fused: bool = False,
) -> Layout | None:
    """Cut a problem for a scheme; None if its workspace would exceed `limit`.

    `scheme`: None for the classical algorithm, which is always possible.
    `usual`: bytes of the sums and products where there is no limit.
    `fused`: one kernel forms products by parts.
    """
    scheme_to_run = _WHOLE if scheme is None and operand.splits > 1 else scheme
    copies = _copies(problem, scheme_to_run)
    if scheme_to_run is None:
        tiles = [x[1:4] for x in triangle(problem.M)] if problem.symmetric else []
        tiles = tiles or [(problem.M, problem.N, 1)]
        sizes = [(rows, columns, problem.K, count) for rows, columns, count in tiles]
        return Layout(None, operand, Buffers(*copies, fixed=_fixed(operand, sizes)))
    block = block_sizes(problem.M, problem.N, problem.K, scheme_to_run)
    workspace_bytes = usual if limit is None else limit - sum(copies)
    centred = operand.splits > 1 and not (fused or problem.short_sums)
    chunk = chunk_within(block, problem, scheme_to_run, workspace_bytes, operand, centred)
    if chunk is None and scheme is None:
        chunk = block_sizes(1, 1, problem.K if problem.packed else 1, scheme_to_run)
    if chunk is None:
        return None
    buffers = Buffers(*copies, *sums(chunk, problem, scheme_to_run, operand, centred))
    return Layout(scheme_to_run, operand, buffers, block, chunk, fused, centred)


def block_sizes(M: int, N: int, K: int, scheme: Scheme) -> Sizes:
    """Return the rows, columns and inner length of a block: ceilings, in whole sectors."""
    return tuple(  # type: ignore[return-value]
        max(round_up(-(-size // parts), UNIT), UNIT)
        for size, parts in ((M, scheme.m), (N, scheme.n), (K, scheme.k))
    )


def _copies(problem: Problem, scheme: Scheme | None) -> tuple[int, int, int, int]:
    """Return the bytes of the copies that the operands and the result need."""
    M, N, K = problem.M, problem.N, problem.K
    item, sums = problem.operand.itemsize, problem.operand.accumulator.itemsize
    # cuBLAS adds to c in the result. Its copy may have the type of the sums, as out may.
    copies_c = problem.buffered and scheme is not None
    return (
        0 if problem.a_direct else _aligned(M * K * item),
        0 if problem.b_direct else _aligned(K * N * item),
        _aligned(M * N * sums) if copies_c else 0,
        0 if problem.out_direct else _aligned(M * N * item),
    )


def sums(
    chunk: Sizes, problem: Problem, scheme: Scheme, operand: DType, centred: bool = False
) -> tuple[int, ...]:
    """Return the bytes of the other buffers for chunks of that size, from `Buffers.at` on."""
    rows, columns, inner = chunk
    held, packed = scheme.rank * operand.panel_bytes, problem.packed
    item, groups = problem.accumulator.itemsize, products(scheme).groups
    sizes = (
        held * rows * inner,
        0 if packed else held * inner * columns,
        products(scheme).planes * rows * columns * item,
        flag_bytes(rows, columns),
        Tables(problem.M, item).nbytes,
        0 if packed else Tables(problem.N, item).nbytes,
        segment_bytes(problem.M, problem.K) if centred else 0,
        segment_bytes(problem.N, problem.K) if centred and not packed else 0,
        step_bytes(problem.K, item) if problem.may_have_units and not packed else 0,
        _fixed(operand, [(rows, columns, x.length * inner, x.count) for x in groups]),
    )
    return tuple(map(_aligned, sizes))


def _fixed(operand: DType, sizes: list[tuple[int, int, int, int]]) -> int:
    """Return the bytes of cuBLAS's workspace for products of these sizes, if in fixed point."""
    is_fixed = operand.arithmetic is FIXED
    return _aligned(max(fixed_point_bytes(*x) for x in sizes)) if is_fixed else 0


def _aligned(nbytes: int) -> int:
    """Return the bytes that a buffer takes, so that the next one is aligned."""
    return round_up(nbytes, _ALIGNMENT)


def chunk_within(
    block: Sizes,
    problem: Problem,
    scheme: Scheme,
    workspace_bytes: int,
    operand: DType,
    centred: bool = False,
) -> Sizes | None:
    """Halve chunks until sums and products fit into `workspace_bytes` bytes; None if they never do.

    The inner length is halved first, because that costs only the start and end of more products (a
    packed B keeps it whole); then the larger of rows and columns.
    """
    rows, columns, inner = block

    def fits() -> bool:
        return (
            sum(sums((rows, columns, inner), problem, scheme, operand, centred)) <= workspace_bytes
        )

    def halved(size: int) -> int:
        return round_up(-(-size // 2), UNIT)

    for least in (_LEAST_CHUNK, UNIT):
        while not fits():
            held = (rows + columns) * inner * operand.panel_bytes
            shrink_inner = not problem.packed and inner >= 2 * least
            shrink_inner &= (
                held >= rows * columns * problem.accumulator.itemsize
                or max(rows, columns) < 2 * least
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
