# cython: freethreading_compatible=True
# cython: cdivision=True
"""The formulas of the cost model over plain floats; `model.py` explains them.

They are evaluated for every candidate of a new plan, so Cython compiles this file (`formulas.pxd`
gives the types): in NumPy, over all candidates at once, a new plan took 1.6 times as long. Where
falcon is not compiled, it runs as Python. After an edit: ``python setup.py build_ext --inplace``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Length of a scheme's blocks of K from which on accumulators come from as far as they can.
LONG_BLOCK = 1024.0


class Machine:
    """`falcon._core.rates.Rates` as seconds per operation."""

    def __init__(self, rates: Any) -> None:
        self.overlap, self.cache, self.overhead = rates.overlap, rates.cache, rates.overhead
        self.mr, self.nr = rates.tile
        self.slice, self.loss = rates.slice, rates.loss
        self.sigma_a, self.sigma_b, self.sigma_c = rates.surface
        self.far_sigma_a, self.far_sigma_b, self.far_sigma_c = rates.surface_far or rates.surface
        self.surface_cache = rates.surface_cache
        # Seconds: per product of two numbers and its addition, per addition, per element moved.
        self.multiply = 2.0 / rates.multiply
        self.add, self.update = 1.0 / rates.add, 1.0 / (rates.update or rates.add)
        self.update_far = 1.0 / rates.update_far if rates.update_far else self.update
        self.disturbance, self.long_block = rates.disturbance, LONG_BLOCK
        # Measured costs of a product's elements include their way from memory.
        self.stream = 0.0 if any(rates.surface) else 1.0 / rates.bandwidth
        self.move, self.store = 1.0 / rates.bandwidth, 1.0 / (rates.store or rates.bandwidth)
        near_a, far_a, near_b, far_b = rates.combine or (rates.bandwidth,) * 4
        self.near_a, self.far_a = 1.0 / near_a, 1.0 / far_a
        self.near_b, self.far_b = 1.0 / near_b, 1.0 / far_b


class Counts:
    """A scheme <m,k,n;rank> in the model; u, v, w are the additions of Combine A, B and H."""

    def __init__(
        self, m: float, k: float, n: float, rank: float, u: float, v: float, w: float
    ) -> None:
        self.m, self.k, self.n, self.rank = m, k, n, rank
        self.u, self.v, self.w = u, v, w


class Cut:
    """A problem, and how a backend cuts it.

    `itemsize`: bytes per element.
    `threads`: number of threads that share the tiles of a product; 1: no imbalance.
    `packed`, `fused`: B is already combined; Combine H is fused.
    `chunk_m`, `chunk_n`, `chunk_k`: sizes of the chunks.
    `again_a`, `again_b`, `again_c`: how often A and B are combined and C is updated.
    `smaller`: for a lower bound over this cut and all smaller ones: take the faster of the two
    speeds for sums (in cache or not).
    """

    def __init__(
        self,
        sizes: tuple[int, int, int],
        itemsize: int,
        threads: int,
        packed: bool,
        fused: bool,
        chunks: tuple[int, int, int],
        again: tuple[int, int, int],
        smaller: bool,
    ) -> None:
        self.M, self.N, self.K = sizes
        self.itemsize, self.threads = itemsize, threads
        self.packed, self.fused, self.smaller = packed, fused, smaller
        m, n, k = chunks
        self.chunk_m, self.chunk_n, self.chunk_k = max(m, 1), max(n, 1), max(k, 1)
        self.again_a, self.again_b, self.again_c = again


def stages(machine: Machine, x: Counts, cut: Cut) -> tuple[float, float, float, float, float]:
    """Seconds of the stages: combine A, combine B, multiply, combine H, start."""
    rows, row_tiles, chunks_m, part_m, tiles_m = sliced(cut.M, cut.chunk_m, x.m, machine.mr)
    columns, column_tiles, chunks_n, part_n, tiles_n = sliced(cut.N, cut.chunk_n, x.n, machine.nr)
    unit = machine.slice if machine.slice > 0 else 1.0
    inner, slices, chunks_k, part_k, _ = sliced(cut.K, cut.chunk_k, x.k, unit)
    # Elements of a block of A, B and C, all chunks together.
    a, b, c = rows * inner, inner * columns, rows * columns
    padded = inner + machine.loss * slices if machine.slice > 0 else inner
    products = row_tiles * column_tiles * padded * machine.mr * machine.nr * machine.multiply
    if cut.threads > 1:
        tiles = tiles_m * tiles_n
        products *= up(tiles, cut.threads) * cut.threads / tiles
    # Elements read and written by a product, counted once per chunk that uses them.
    all_a, all_b, all_c = a * chunks_n, b * chunks_m, c * chunks_k
    operands = x.rank * part_k * (part_m + part_n) * cut.itemsize
    surface = machine.sigma_a * all_a + machine.sigma_b * all_b + machine.sigma_c * all_c
    if operands > machine.surface_cache:
        distant = machine.far_sigma_a * all_a + machine.far_sigma_b * all_b
        distant += machine.far_sigma_c * all_c
        surface = min(surface, distant) if cut.smaller else distant
    products += surface
    moved = (all_a + all_b + all_c) * machine.stream
    multiply = x.rank * (products if products > moved else moved)
    updates = cut.again_c * x.w * c if cut.fused else 0.0
    multiply += updates * machine.disturbance
    near = operands <= machine.cache
    move_a = machine.near_a if near else machine.far_a
    move_b = machine.near_b if near else machine.far_b
    if cut.smaller:
        move_a, move_b = min(move_a, machine.near_a), min(move_b, machine.near_b)
    first = cut.again_a * both(
        x.u * a * machine.add, (cut.M * cut.K + x.rank * a) * move_a, machine.overlap
    )
    second = cut.again_b * both(
        x.v * b * machine.add, (cut.K * cut.N + x.rank * b) * move_b, machine.overlap
    )
    if cut.fused:
        far = part_k / machine.long_block if part_k < machine.long_block else 1.0
        adding = updates * (machine.update + far * (machine.update_far - machine.update))
        storing = cut.again_c * cut.M * cut.N * machine.store
    else:
        adding = cut.again_c * x.w * c * machine.add
        storing = cut.again_c * (cut.M * cut.N + x.rank * c) * machine.move
    last = both(adding, storing, machine.overlap)
    return first, 0.0 if cut.packed else second, multiply, last, machine.overhead


def within(
    machine: Machine, schemes: Sequence[Counts], cut: Cut, limit: float
) -> list[tuple[float, int]]:
    """Return (seconds, index) of each scheme that takes at most `limit` seconds."""
    found = []
    for number in range(len(schemes)):
        first, second, multiply, last, start = stages(machine, schemes[number], cut)
        total = first + second + multiply + last + start
        if total <= limit:
            found.append((total, number))
    return found


def sliced(
    size: float, chunk: float, parts: float, unit: float
) -> tuple[float, float, float, float, float]:
    """Cut a dimension into chunks, and each chunk into a scheme's parts.

    Returns `lines, units, chunks`: lines of one part and the units that they fill, summed over the
    chunks; number of chunks.
    Returns `part, filled`: lines of one part of a full chunk, and the units that they fill.
    """
    part = up(chunk, parts)
    filled = up(part, unit)
    if chunk == size:
        return part, filled, 1.0, part, filled
    full = size // chunk
    rest = size - full * chunk
    last = up(rest, parts)
    chunks = full + 1.0 if rest > 0 else full
    return full * part + last, full * filled + up(last, unit), chunks, part, filled


def up(x: float, y: float) -> float:
    """Return the quotient, rounded up."""
    return -(-x // y)


def both(arithmetic: float, memory: float, overlap: float) -> float:
    """Seconds of a combine: for the share `overlap`, the shorter of both times is hidden."""
    larger = arithmetic if arithmetic > memory else memory
    return overlap * larger + (1.0 - overlap) * (arithmetic + memory)
