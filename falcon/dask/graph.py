"""The plain grid as tasks of Dask: each accumulates some products along K, one after another.

::

    x[i, 0..g], y[0..g, j] ---> Step ---> Step ---> ... ---> C[i, j]      a run of steps
                                 ... other runs along K ... ---> total

A step adds to what the step before returned, in a new array. Runs give work to more workers than
the product has chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .grid import Grid, Piece
from .plan import GridPlan
from .work import Cut, Source, Step, total

_FAN_IN = 8
_MOST_TASKS, _MOST_BYTES = 16, 2**20  # of a source, and of arrays in it


@dataclass(frozen=True)
class Chunks:
    """Where tasks find the chunks of an array: keys, or sources by index; and their sizes."""

    name: str
    sizes: tuple[tuple[int, ...], ...]
    sources: Mapping[tuple, Source] | None = None

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        return (self.name, *index) if self.sources is None else self.sources[index]

    def shape(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a chunk."""
        return tuple(sizes[at] for sizes, at in zip(self.sizes, index, strict=True))


def made_again(name: str, x: Any) -> Chunks:
    """Return the chunks of an array as sources: every task makes, or reads, them itself.

    Raises
    ------
    ValueError
        Making a chunk takes many tasks, or data that the graph itself holds.
    """
    from dask._task_spec import convert_legacy_graph
    from dask.core import flatten

    keys = list(flatten(x.__dask_keys__()))
    graph = convert_legacy_graph(dict(x.__dask_optimize__(x.__dask_graph__(), keys)))
    found = {}
    for key in keys:
        part: dict[Any, Any] = {}
        missing = [key]
        while missing:
            at = missing.pop()
            part[at] = graph[at]
            missing += [y for y in graph[at].dependencies if y not in part]
        values = (getattr(y, "value", None) for y in part.values())
        held = sum(v.nbytes for v in values if isinstance(v, np.ndarray))
        if len(part) > _MOST_TASKS or held > _MOST_BYTES:
            raise ValueError(
                f"reread=True, but a chunk of {name} takes {len(part)} tasks and {held} bytes of "
                f"the graph; expected arrays that are read from files: store {name} first, for "
                "example by dask.array.to_zarr"
            )
        found[key[1:]] = Source(part, key)
    return Chunks(x.name, x.chunks, found)


def plain(
    name: str,
    plan: GridPlan,
    work: str,
    operands: tuple[Chunks, Chunks, Chunks | None],
    beta: Any,
) -> dict[Any, Any]:
    """Return the tasks of ``alpha x y + beta c``.

    Parameters
    ----------
    name : str
        Of the result.
    plan : GridPlan
        Is told which products it must plan.
    work : str
        The key of the `Work`.
    operands : (Chunks, Chunks, Chunks or None)
        x, y, and c, which is cut as the product.
    beta : scalar
    """
    grid, steps = plan.grid, plan.steps
    tasks: dict[Any, Any] = {}
    each = [grid.K[at : at + steps[0]] for at in range(0, len(grid.K), steps[0])]
    runs = min(steps[1], len(each))
    ends = [len(each) * r // runs for r in range(runs + 1)]
    c = operands[2]
    for batch, i, j, index in grid.places():
        parts: list[tuple] = []
        for r in range(runs):
            added, factor = (c[index], beta) if c is not None and r == 0 else (None, 1)
            for at in range(ends[r], ends[r + 1]):
                is_last = len(each) == at + 1 and runs == 1
                key = (name, *index) if is_last else (f"{name}-part", *index, at)
                step, left, right = _step(grid, operands, (batch, i, j), each[at], factor)
                for at_k, k in enumerate(each[at]):
                    sizes = grid.rows(batch, i), grid.y[-1][j], k.size
                    plan.need(*sizes, added is not None or at_k > 0)
                tasks[key] = (step, work, added, left, right)
                added, factor = key, 1
            parts.append(key)
        while len(parts) > 1:
            tops: list[tuple] = []
            for at in range(0, len(parts), _FAN_IN):
                some, key = parts[at : at + _FAN_IN], (f"{name}-sum", *index, len(tasks))
                if len(some) == len(parts):
                    key = (name, *index)
                tops.append(key if len(some) > 1 else some[0])
                if len(some) > 1:
                    tasks[key] = (total, some)
            parts = tops
    return tasks


def _step(
    grid: Grid,
    operands: tuple[Chunks, Chunks, Any],
    place: tuple[tuple[Piece, ...], int, int],
    pieces: tuple[Piece, ...],
    beta: Any,
) -> tuple[Step, list[Any], list[Any]]:
    """Return a step and the chunks that it reads."""
    batch, i, j = place
    x, y, _ = operands
    left: list[Any] = []
    right: list[Any] = []
    cuts: list[tuple[Cut, Cut]] = []
    sizes = []
    for k in pieces:
        (of_x, cut_x), (of_y, cut_y) = grid.left(batch, i, k), grid.right(batch, k, j)
        left.append(x[of_x])
        right.append(y[of_y])
        cuts.append((cut_x, cut_y))
        sizes.append((x.shape(of_x), y.shape(of_y)))
    return Step(tuple(cuts), tuple(sizes), grid.dropped, grid.folds, beta), left, right
