"""Time and bytes of falcon.dask's graphs on 1 to 1,000 workers, simulated: nothing is multiplied.

``python studies/dask_scale.py [--lines N --chunk C --workers 1,10,100]``: the graph that
`falcon.dask.matmul` would send is run by a simulated scheduler of dask's kind: a task goes, in
order, where it starts first, counting what must be sent there, or where `falcon.dask.placed` sends
it. Beside them: what COSMA would receive, by the formula of its paper. Speeds are those of the
options.

Reference: G. Kwasniewski et al., "Red-blue pebbling revisited" (COSMA), SC 2019.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

TRANSFERS = 8  # holders of inputs that are tried for a task, besides the worker that is free first


@dataclass
class Speeds:
    """Per worker: seconds of a product of two chunks, bytes/s of transfers."""

    product: float
    bandwidth: float


def tasks_of(made):
    """Return {key: (dependencies, products)} of a product, and the keys of its operands' chunks."""
    from falcon.dask.work import Step

    layer = dict(made.dask.layers[made.name])
    known = set(layer)

    def keys(x):
        if isinstance(x, list):
            for y in x:
                yield from keys(y)
        elif isinstance(x, tuple) and x and isinstance(x[0], str):
            yield x

    found = {}
    for key, task in layer.items():
        if isinstance(task, tuple):  # not the Work
            needs = [y for x in task[1:] for y in keys(x)]
            found[key] = needs, len(task[0].cuts) if isinstance(task[0], Step) else 0
    sources = {y for needs, _ in found.values() for y in needs if y not in known}
    return found, sorted(sources)


def simulate(tasks, sources, chunk_bytes, workers, speeds, place=None):
    """Return the seconds until the last task ends, and the bytes that all workers receive.

    `place`: workers of tasks by key; another task goes where it would start first. The sources lie
    in as many runs of equal length.
    """
    free = np.zeros(workers)
    where = {key: {at * workers // len(sources)} for at, key in enumerate(sources)}
    waits = {key: len(set(needs) - where.keys()) for key, (needs, _) in tasks.items()}
    users = {}
    for key, (needs, _) in tasks.items():
        for need in set(needs):
            users.setdefault(need, []).append(key)
    order = {key: at for at, key in enumerate(tasks)}
    ready = [(0.0, order[key], key) for key, count in waits.items() if not count]
    heapify(ready)
    began = dict.fromkeys(tasks, 0.0)
    moved = last = 0.0
    while ready:
        since, _, key = heappop(ready)
        needs, products = tasks[key]
        needs = set(needs)

        def start(worker, needs=needs, since=since):
            missing = chunk_bytes * sum(worker not in where[x] for x in needs)
            return max(free[worker], since) + missing / speeds.bandwidth, missing, worker

        if place and key in place:
            begin, missing, worker = start(place[key])
        else:
            some = sorted(needs)[:: -(-len(needs) // TRANSFERS)]
            holders = {next(iter(where[x])) for x in some}
            begin, missing, worker = min(map(start, {*holders, int(free.argmin())}))
        end = begin + products * speeds.product
        free[worker] = end
        moved += missing
        last = max(last, end)
        for x in needs:
            where[x].add(worker)
        where[key] = {worker}
        for user in users.get(key, ()):
            waits[user] -= 1
            began[user] = max(began[user], end)
            if not waits[user]:
                heappush(ready, (began[user], order[user], user))
    return last, moved


def cosma(lines, workers, itemsize, memory):
    """Bytes that all workers receive: COSMA's bound on what they load, less what they hold."""
    S, volume = memory / itemsize, lines**3 / workers
    words = min(2 * volume / S**0.5 + S, 3 * volume ** (2 / 3)) - 3 * lines**2 / workers
    return max(words, 0) * workers * itemsize


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=262144, help="of square matrices")
    parser.add_argument("--chunk", type=int, default=8192, help="lines of a chunk")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--workers", default="1,4,16,64,256,1000")
    parser.add_argument("--gflops", type=float, default=1000.0, help="of a worker, effective")
    parser.add_argument("--bandwidth", type=float, default=1e9, help="bytes/s that a worker gets")
    parser.add_argument("--memory", type=float, default=64, help="GiB of a worker")
    options = parser.parse_args()

    import dask.array as da

    import falcon.dask
    from falcon._tools.text import format_table
    from falcon.dask.place import places

    N, chunk, itemsize = options.lines, options.chunk, np.dtype(options.dtype).itemsize
    size, memory = chunk**2 * itemsize, options.memory * 2**30
    speeds = Speeds(2e-9 * chunk**3 / options.gflops, options.bandwidth)
    x = da.zeros((N, N), chunks=chunk, dtype=options.dtype)
    y = da.zeros((N, N), chunks=chunk, dtype=options.dtype, name="zeros-y")  # sorted behind x
    tasks, sources = tasks_of(falcon.dask.matmul(x, y))
    rows = [("workers", "placed s", "GiB each", "dask's places s", "GiB each", "COSMA GiB")]
    count = N // chunk
    for workers in map(int, options.workers.split(",")):
        lie = np.arange(2 * count**2).reshape(2, count, count) * workers // (2 * count**2)
        goes, _ = places((count,) * 3, (size, size), workers, (lie[0], lie[1]))
        place = {key: int(goes[key[1:3]]) for key in tasks}
        runs = [simulate(tasks, sources, size, workers, speeds, x) for x in (place, None)]
        cells = [text for seconds, moved in runs
                 for text in (f"{seconds:.4g}", f"{moved / workers / 2**30:.3g}")]  # fmt: skip
        bound = cosma(N, workers, itemsize, memory) / workers / 2**30
        rows.append((str(workers), *cells, f"{bound:.3g}"))
        print(f"{workers} workers done", file=sys.stderr)
    print(f"{N} x {N} x {N} {options.dtype}, chunks of {chunk}: {len(tasks)} tasks\n")
    print(format_table(rows))


if __name__ == "__main__":
    main()
