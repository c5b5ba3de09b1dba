# cython: freethreading_compatible=True
# cython: cdivision=True
"""The formulas of the cost model over plain floats; docs/decision.md explains them.

They are evaluated for every candidate of a new plan, so Cython compiles this file (`formulas.pxd`
gives the types): in NumPy, over all candidates at once, a new plan took 1.6 times as long. Where
falcon is not compiled, it runs as Python. After an edit: ``python setup.py build_ext --inplace``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any


class Machine:
    """`falcon._core.rates.Rates` as seconds per operation."""

    def __init__(self, rates: Any) -> None:
        self.overlap = rates.overlap
        self.mr, self.nr = rates.tile
        # Seconds: per product of two numbers and its addition, per addition, per element moved.
        self.multiply, self.add = 2.0 / rates.multiply, 1.0 / rates.add
        self.move = 1.0 / rates.bandwidth


class Counts:
    """A scheme <m,k,n;rank> in the model; u, v, w are the additions of Combine A, B and H."""

    def __init__(
        self, m: float, k: float, n: float, rank: float, u: float, v: float, w: float
    ) -> None:
        self.m, self.k, self.n, self.rank = m, k, n, rank
        self.u, self.v, self.w = u, v, w


class Cut:
    """A problem, and how a backend cuts it.

    `threads`: number of threads that share the tiles of a product; 1: no imbalance.
    `packed`: B is already combined.
    `chunk_m`, `chunk_n`, `chunk_k`: sizes of the chunks.
    `again_a`, `again_b`, `again_c`: how often A and B are combined and C is updated.
    """

    def __init__(
        self,
        sizes: tuple[int, int, int],
        threads: int,
        packed: bool,
        chunks: tuple[int, int, int],
        again: tuple[int, int, int],
    ) -> None:
        self.M, self.N, self.K = sizes
        self.threads, self.packed = threads, packed
        m, n, k = chunks
        self.chunk_m, self.chunk_n, self.chunk_k = max(m, 1), max(n, 1), max(k, 1)
        self.again_a, self.again_b, self.again_c = again


def stages(machine: Machine, x: Counts, cut: Cut) -> tuple[float, float, float, float]:
    """Seconds of the stages: combine A, combine B, multiply, combine H."""
    rows, row_tiles, chunks_m, tiles_m = sliced(cut.M, cut.chunk_m, x.m, machine.mr)
    columns, column_tiles, chunks_n, tiles_n = sliced(cut.N, cut.chunk_n, x.n, machine.nr)
    inner, _, chunks_k, _ = sliced(cut.K, cut.chunk_k, x.k, 1.0)
    # Elements of a block of A, B and C, all chunks together.
    a, b, c = rows * inner, inner * columns, rows * columns
    products = row_tiles * column_tiles * inner * machine.mr * machine.nr * machine.multiply
    if cut.threads > 1:
        tiles = tiles_m * tiles_n
        products *= up(tiles, cut.threads) * cut.threads / tiles
    # Elements read and written by a product, counted once per chunk that uses them.
    moved = (a * chunks_n + b * chunks_m + c * chunks_k) * machine.move
    multiply = x.rank * (products if products > moved else moved)
    first = cut.again_a * both(
        x.u * a * machine.add, (cut.M * cut.K + x.rank * a) * machine.move, machine.overlap
    )
    second = cut.again_b * both(
        x.v * b * machine.add, (cut.K * cut.N + x.rank * b) * machine.move, machine.overlap
    )
    # Products pass through the caches, where Combine H is fused, as dearly as through memory.
    last = cut.again_c * both(
        x.w * c * machine.add, (cut.M * cut.N + x.rank * c) * machine.move, machine.overlap
    )
    return first, 0.0 if cut.packed else second, multiply, last


def within(
    machine: Machine,
    schemes: Sequence[Counts],
    cut: Cut,
    limit: float,
    room: float = inf,
    least: float = 1.0,
    most: float = inf,
) -> list[tuple[float, int]]:
    """Return (seconds, index) of each scheme that takes at most `limit` seconds.

    `room`: elements of A's and B's panels that a chunk may have.
    `least`, `most`: lines of a block, passes over K.
    """
    found = []
    for number in range(len(schemes)):
        first, second, multiply, last = stages(machine, schemes[number], cut)
        total = first + second + multiply + last
        if room < inf and total <= limit:
            total += passes(schemes[number], cut, first, last, room, least, most)
        if total <= limit and total < inf:
            found.append((total, number))
    return found


def passes(
    x: Counts, cut: Cut, first: float, last: float, room: float, least: float, most: float
) -> float:
    """Least seconds that chunks within `room` take beyond one chunk of everything; inf: none fits.

    One pass over M leaves A combined once; with more, every pass over N combines it again.
    """
    rows, columns, inner = cut.M / x.m, cut.N / x.n, cut.K / x.k  # of a block
    best, again_c = inf, 0.0  # passes over K after the first
    while again_c * last < best and again_c * least < inner and again_c < most:
        part = inner / (again_c + 1.0)
        lines = room / (x.rank * (part if part > least else least))  # of a block of A and one of B
        if lines >= (least if cut.packed else 2.0 * least):
            again_a = 0.0
            if not cut.packed and lines < rows + least:
                again_a = up(columns, lines - least) - 1.0
            seconds = again_a * first + again_c * last
            best = seconds if seconds < best else best
        again_c += 1.0
    return best


def sliced(
    size: float, chunk: float, parts: float, unit: float
) -> tuple[float, float, float, float]:
    """Cut a dimension into chunks, and each chunk into a scheme's parts.

    Returns `lines, units, chunks`: lines of one part and the units that they fill, summed over the
    chunks; number of chunks.
    Returns `filled`: units that the lines of one part of a full chunk fill.
    """
    part = up(chunk, parts)
    filled = up(part, unit)
    if chunk == size:
        return part, filled, 1.0, filled
    full = size // chunk
    rest = size - full * chunk
    last = up(rest, parts)
    chunks = full + 1.0 if rest > 0 else full
    return full * part + last, full * filled + up(last, unit), chunks, filled


def up(x: float, y: float) -> float:
    """Return the quotient, rounded up."""
    return -(-x // y)


def both(arithmetic: float, memory: float, overlap: float) -> float:
    """Seconds of a combine: for the share `overlap`, the shorter of both times is hidden."""
    larger = arithmetic if arithmetic > memory else memory
    return overlap * larger + (1.0 - overlap) * (arithmetic + memory)
