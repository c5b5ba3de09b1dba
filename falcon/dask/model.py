"""What a way to multiply costs: bytes that move, tasks, memory, seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isnan, prod
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon.schemes import Scheme

from .cluster import Cluster
from .grid import Grid

LEAST_CHUNK = 1024  # below, tasks cost as much as products, and sums gain nothing
SHARE = 0.6  # of the memory, at which workers of distributed begin to write chunks to disk
_INPUTS = 0.25  # of a task's room, for the chunks that it reads
WORKSPACE = 0.125  # of it, at most, for falcon's own buffers
TASK = 5e-4  # seconds of the scheduler for a task: it handles one after another


@dataclass(frozen=True)
class Sizes:
    """A product of matrices as the model sees it: chunks of equal size.

    Attributes
    ----------
    counts : (int, int, int)
        Chunks along M, N, K, all batches together in M.
    x, y, c : float
        Bytes of a chunk.
    """

    counts: tuple[int, int, int]
    x: float
    y: float
    c: float


@dataclass(frozen=True)
class Way:
    """One way to multiply, and what it is predicted to cost.

    Attributes
    ----------
    scheme : Scheme or None
        None: the plain grid.
    tasks : int
    moved : float
        Bytes that are sent from worker to worker.
    memory : float
        Bytes that all workers hold at most, operands and result included.
    seconds : tuple of (str, float)
        By stage; they do not overlap, except with those of the scheduler.
    growth : float
        Of the whole product, see `falcon.Plan.growth`.
    refused : str
        Why it was not chosen.
    """

    scheme: Scheme | None
    tasks: int
    moved: float
    memory: float
    seconds: tuple[tuple[str, float], ...]
    growth: float
    refused: str = ""

    @property
    def total(self) -> float:
        """Predicted seconds."""
        return max(sum(x for _, x in self.seconds), TASK * self.tasks)

    @property
    def label(self) -> str:
        """Its scheme."""
        return "plain" if self.scheme is None else self.scheme.name


def received(sizes: Sizes, workers: int, runs: int = 1) -> float:
    """Return the bytes that move in a plain grid whose tasks and chunks lie anywhere.

    A worker needs the rows and columns of chunks of its tasks, and holds 1 / workers of them; parts
    of a chunk of C meet on one worker.
    """
    M, N, K = sizes.counts
    tasks = max(1, M * N * runs / workers)
    rows, columns = (count * (1 - (1 - 1 / count) ** tasks) for count in (M, N))
    parts = M * N * (runs - 1) * sizes.c / workers
    return (workers - 1) * (K / runs * (rows * sizes.x + columns * sizes.y) + parts)


def plain(
    sizes: Sizes, product: float, steps: tuple[int, int], growth: float, on: Cluster, read: bool
) -> Way:
    """Predict the plain grid.

    Parameters
    ----------
    product : float
        Seconds of a product of two chunks.
    steps : (int, int)
        Products of a task, runs.
    read : bool
        Tasks make or read the chunks of x and y themselves.
    """
    M, N, K = sizes.counts
    each = ceil(K / steps[0])
    runs = min(steps[1], each)
    tasks = M * N * (each + ceil((runs - 1) / 7))
    x, y, c = M * K * sizes.x, K * N * sizes.y, M * N * sizes.c
    moved = 0.0 if read else received(sizes, on.workers, runs)
    # Tasks that run at the same time hold a part each; chunks that came stay while x and y do.
    alive = on.slots * (2 * sizes.c + (sizes.x + sizes.y if read else 0))
    held = c + alive + (0 if read else x + y + moved)
    busy = ceil(M * N * runs / on.slots) * product * K / runs / on.share
    stages = ("products", busy), ("moves", moved / (on.workers * on.bandwidth))
    return Way(None, tasks, moved, held, stages, growth)


def of_scheme(
    sizes: Sizes, scheme: Scheme, product: float, growth: float, on: Cluster, judged: bool
) -> Way:
    """Predict a scheme over the grid of chunks; parameters as for `plain`.

    Parameters
    ----------
    judged : bool
        Norms are measured first.
    """
    (M, N, K), (m, k, n), R = sizes.counts, scheme.format, scheme.rank
    rows, columns, inner = M // m, N // n, K // k
    terms = [np.count_nonzero(f.reshape(R, -1), axis=1) for f in (scheme.U, scheme.V)]
    terms.append(np.count_nonzero(scheme.W.reshape(R, -1), axis=0))
    blocks = rows * inner * sizes.x, inner * columns * sizes.y, rows * columns * sizes.c
    # Every sum is formed, or copied, as float results; those of one term of +1 are not.
    summed = sum((t[t > 1] + 1).sum() * b for t, b in zip(terms, blocks, strict=True))
    away = (on.workers - 1) / on.workers
    moved = sum((t - 1).sum() * b for t, b in zip(terms, blocks, strict=True)) * away
    # Sums end one after another, so that a product goes where one of its chunks lies.
    part, smaller = Sizes((rows, columns, inner), sizes.x, sizes.y, sizes.c), min(sizes.x, sizes.y)
    one = received(part, on.workers) - rows * columns * smaller * away
    moved += R * (one if rows * columns > 1 else min(blocks[:2]) * away)
    x, y, c = m * k * blocks[0], k * n * blocks[1], m * n * blocks[2]
    stages = [
        ("products", ceil(R * rows * columns / on.slots) * product * inner / on.share),
        ("sums", float(summed) / (on.sums * on.slots)),
        ("moves", moved / (on.workers * on.bandwidth)),
    ]
    tasks = R * (rows * inner + inner * columns + rows * columns) + M * N
    if judged:
        stages.append(("norms", (x + y) / (on.sums * on.slots)))
        tasks += 3 * (M * K + K * N) + M + N + 1
    held = x + y + c + R * blocks[2] + on.slots * (sizes.x + sizes.y)
    return Way(scheme, int(tasks), float(moved), float(held), tuple(stages), growth)


def text(value: float) -> str:
    """Return bytes as GiB or MiB."""
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"


def cells(way: Way) -> tuple[Any, ...]:
    """Return the row of a table: see `TITLES`."""
    times = dict(way.seconds)
    stages = (f"{times[x]:.3g}" if x in times else "-" for x in STAGES)
    return (
        way.label,
        f"{way.total:.3g}",
        *stages,
        text(way.moved),
        text(way.memory),
        str(way.tasks),
        f"{way.growth:.2f}",
        way.refused or "chosen",
    )


STAGES = ("products", "sums", "norms", "moves")
TITLES = ("way", "s", *STAGES, "moved", "memory", "tasks", "growth", "")


def sizes_of(grid: Grid, x: Any, y: Any, result: DType) -> Sizes:
    """Return the sizes of average chunks."""
    M, N, K = grid.counts
    batches = prod(len(axis) for axis in grid.batch)
    count = batches * M
    c = prod(map(sum, grid.chunks)) * result.itemsize / (count * N)
    # K may be cut where only one of them is.
    sides = ((x, grid.x[-1]), (y, grid.y[-2]))
    left, right = (v.nbytes / v.npartitions * len(cuts) / K for v, cuts in sides)
    return Sizes((count, N, K), left, right, c)


def steps_of(sizes: Sizes, on: Cluster, reread: bool) -> tuple[int, int]:
    """Return how many products a task adds up, and in how many runs K is cut.

    A task holds all chunks that it is given; one that reads them holds two at a time.
    """
    M, N, K = sizes.counts
    runs = min(-(-on.slots // (M * N)), K)
    most = K
    if on.room is not None and not reread:
        each = max(sizes.x + sizes.y, 1)
        fit = (_INPUTS * on.room - 2 * sizes.c) // each
        most = 1 if isnan(fit) else max(1, int(fit))
    return min(most, -(-K // runs)), runs


def advice(
    grid: Grid, x: Any, y: Any, result: DType, on: Cluster, reread: bool, sizes: Sizes
) -> Iterator[str]:
    """Yield how other chunks would help; falcon never rechunks by itself."""
    for name, array in (("x", x), ("y", y)):
        largest = prod(map(max, array.chunks)) * array.dtype.itemsize
        if on.room is not None and largest > on.room / 8:
            side = int((on.room / 8 / array.dtype.itemsize) ** 0.5) // 256 * 256
            yield (
                f"chunks of {name} take {text(largest)}, a task has {text(on.room)}: "
                f"an eighth of it, {name}.rechunk({max(side, 256)}), leaves room for the others"
            )
    small = min(max(s, default=0) for s in (grid.x[-2], grid.y[-1], [p.size for p in grid.K]))
    if 0 < small < LEAST_CHUNK <= min(grid.sizes):
        yield f"chunks of {small} lines: tasks cost as much as products; take {LEAST_CHUNK} or more"
    if grid.x[-1] != grid.y[-2] and min(len(grid.x[-1]), len(grid.y[-2])) > 1:
        yield "x's columns and y's rows are cut differently: chunks are cut again in the tasks"
    held = x.nbytes + y.nbytes
    if on.memory is not None and not reread and held > SHARE * on.memory * on.workers:
        yield (
            f"operands of {text(held)} do not fit {on.workers} x {text(on.memory)}: "
            "reread=True lets tasks read them from files"
        )
