"""`placed`: C's chunks near the chunks that they read, while a product is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask
import numpy as np
from dask._task_spec import convert_legacy_graph

from .cluster import Cluster, client, current_cluster
from .graph import part_name
from .grid import Grid, matrices

# The worker that holds each chunk of x, and of y; None where it is not known.
Held = tuple[np.ndarray | None, np.ndarray | None]


@contextmanager
def placed(x: Any, y: Any, c: Any) -> Iterator[float]:
    """Compute ``c = matmul(x, y)`` where the fewest bytes move.

    Left to itself, Dask puts a task where it would start first, so that a worker's chunks of C lie
    anywhere, and it fetches almost all of x and y. Here each worker gets a part of C that is nearly
    a square, and of persisted operands the one whose chunks it holds. Where a worker has left, or
    is busier than others, Dask still chooses another one. Without a cluster, and where C has fewer
    chunks than there are workers, nothing changes.

    Parameters
    ----------
    x, y : dask.array.Array, shapes (M, K), (K, N)
    c : dask.array.Array, shape (M, N)
        To be computed within the block, and nothing that is made of it: Dask fuses its tasks with
        those.

    Yields
    ------
    float
        Bytes that will move between workers.

    Raises
    ------
    ValueError
        x or y is no matrix, or c is not their product.
    RuntimeError
        As `matmul`.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((40, 60), chunks=(20, 30))
    >>> c = falcon.dask.matmul(x, x.T)
    >>> with falcon.dask.placed(x, x.T, c):
    ...     c = c.persist(scheduler="synchronous")
    """
    x, y = matrices(x=x, y=y)
    grid, on = Grid.of(x, y), current_cluster(None)
    M, N, K = grid.counts
    if c.numblocks != (M, N):
        raise ValueError(
            f"c has shape {c.shape} and {c.numblocks} chunks; expected the product of x {x.shape} "
            f"and y {y.shape}, of {(M, N)} chunks"
        )
    if len(on.addresses) < 2 or len(on.addresses) > M * N:
        yield 0.0
        return
    alike = grid.x[-1] == grid.y[-2]
    held = (holders(x, on), holders(y, on)) if alike else (None, None)
    chunk = x.nbytes / (M * K), y.nbytes / (K * N)
    goes, moved = places(grid.counts, chunk, len(on.addresses), held)
    destinations = partial(_destinations, c.name, np.array(on.addresses)[goes].tolist())
    with dask.annotate(workers=destinations, allow_other_workers=True):
        yield moved


def _destinations(name: str, goes: list[list[str]], key: Any) -> tuple[str, ...]:
    """Return the worker that a task is sent to, by its key; none for tasks of others."""
    if isinstance(key, tuple) and key[0] in (name, part_name(name)):
        return (goes[key[1]][key[2]],)
    return ()


def holders(x: Any, on: Cluster) -> np.ndarray | None:
    """Return which of `addresses` holds each chunk of a persisted matrix; None: not all known."""
    known = client()
    if known is None or known.asynchronous or not (held := known.futures_of(x)):
        return None
    where = known.who_has(held)
    graph = convert_legacy_graph(dict(x.__dask_graph__()))
    workers = np.empty(x.numblocks, int)
    for at in np.ndindex(workers.shape):
        key = (x.name, *at)
        while key not in where and len(before := graph[key].dependencies) == 1:
            (key,) = before  # for example x.T of a persisted x: it is transposed where it lies
        if not where.get(key) or where[key][0] not in on.addresses:
            return None
        workers[at] = on.addresses.index(where[key][0])
    return workers


def places(
    counts: tuple[int, int, int], chunk: tuple[float, float], workers: int, held: Held
) -> tuple[np.ndarray, float]:
    """Return the worker of each chunk of C, and the bytes that move.

    C's chunks, in bands of rows and column by column in each, are cut into runs of equal length:
    that height of bands is taken for which the fewest bytes move. `counts`: along M, N, K; `chunk`:
    bytes of one of x and of y.
    """
    heights = {*(2**power for power in range(counts[0].bit_length())), counts[0]}
    tried = (_in_bands(height, counts, chunk, workers, held) for height in sorted(heights))
    return min(tried, key=lambda x: x[1])


def _in_bands(
    height: int, counts: tuple[int, int, int], chunk: tuple[float, float], workers: int, held: Held
) -> tuple[np.ndarray, float]:
    M, N, K = counts
    i, j = np.indices((M, N)).reshape(2, -1)
    shares = np.array_split(np.lexsort((i % height, j, i // height)), workers)
    sides = (i, chunk[0], held[0]), (j, chunk[1], None if held[1] is None else held[1].T)
    # Bytes that each share reads, and how many of them each worker holds.
    reads, local = np.zeros(workers), np.zeros((workers, workers))
    for at, share in enumerate(shares):
        for lines, size, holder in sides:
            needed = np.unique(lines[share])
            reads[at] += size * len(needed) * K
            if holder is None:
                local[at] += size * len(needed) * K / workers
            else:
                local[at] += size * np.bincount(holder[needed].reshape(-1), minlength=workers)
    worker, free, kept = np.empty(M * N, int), set(range(workers)), 0.0
    for at in np.argsort(-local.max(axis=1), kind="stable").tolist():
        goes = max(sorted(free), key=local[at].__getitem__)
        free.remove(goes)
        worker[shares[at]] = goes
        kept += local[at, goes]
    return worker.reshape(M, N), float(reads.sum() - kept)
