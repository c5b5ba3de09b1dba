"""A product as tasks of Dask: each accumulates some products along K, one after another.

::

    x[i, 0..g], y[0..g, j] ---> Step ---> Step ---> ... ---> C[i, j]      a run of steps
                                 ... other runs along K ... ---> total

A step adds to what the step before returned, in a new array. Runs give work to more workers than
the product has chunks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from dask._task_spec import convert_legacy_graph
from dask.core import flatten
from dask.local import get_sync

from .plan import GridPlan
from .work import Step, summed

_FAN_IN = 8
_MOST_TASKS, _MOST_BYTES = 16, 2**20  # that make a chunk, and of arrays in them


def part_name(name: str) -> str:
    """Return the name of the tasks that make parts of the chunks of an array."""
    return f"{name}-part"


def tasks_of(
    name: str, work: str, plan: GridPlan, x: Any, y: Any, c: Any, beta: Any, lower: bool
) -> dict[Any, Any]:
    """Return the tasks of ``alpha x y + beta c``.

    `name` is that of the result, `work` the key of the `Work`; c is None, or cut as the result.
    `lower`: only of the chunks on and below the diagonal.
    """
    grid, of_x, of_y = plan.grid, _chunks("x", x, plan.reread), _chunks("y", y, plan.reread)
    tasks: dict[Any, Any] = {}
    last = sum(map(len, plan.steps)) - 1 if plan.runs == 1 else None
    total = partial(summed, modulus=plan.options.one_modulus, checks=plan.checks)
    for block in grid.blocks():
        if lower and block.i < block.j:
            continue
        ends: list[Any] = []  # the keys of the last tasks of runs
        at = 0
        for run, steps in enumerate(plan.steps):
            added, factor = (None, 1) if c is None or run > 0 else ((c.name, *block.at), beta)
            for pieces in steps:
                part = (part_name(name), *block.at, at)
                key = (name, *block.at) if at == last else part
                cuts = tuple(grid.cuts(block, k) for k in pieces)
                given = [of_x[v.chunk] for v, _ in cuts], [of_y[w.chunk] for _, w in cuts]
                tasks[key] = (Step(cuts, grid.folds, factor), work, added, *given)
                added, factor, at = key, 1, at + 1
            ends.append(added)
        while len(ends) > 1:
            count = -(-len(ends) // _FAN_IN)
            sums = [(f"{name}-sum", *block.at, len(tasks) + at) for at in range(count)]
            sums = sums if count > 1 else [(name, *block.at)]
            tasks.update((key, (total, ends[at::count])) for at, key in enumerate(sums))
            ends = sums
    return tasks


def _chunks(name: str, x: Any, reread: bool) -> dict[tuple, Any]:
    """Return what a task is given for each chunk, by index: its key, or a call that makes it.

    What such a call makes is not kept: a chunk that is read often takes no memory in between.
    Raises ValueError if making a chunk takes many tasks, or data that the graph itself holds, or
    that workers hold.
    """
    keys = list(flatten(x.__dask_keys__()))
    if not reread:
        return {key[1:]: key for key in keys}
    graph = convert_legacy_graph(dict(x.__dask_optimize__(x.__dask_graph__(), keys)))
    calls = {}
    for key in keys:
        part: dict[Any, Any] = {}
        missing = [key]
        while missing:
            at = missing.pop()
            if at not in graph:
                raise ValueError(
                    f"reread=True, but chunks of {name} lie on workers already (persist): without "
                    "reread they are used as they are"
                )
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
        calls[key[1:]] = partial(get_sync, part, key)
    return calls
