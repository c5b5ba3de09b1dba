"""Time and bytes of falcon.dask's graphs on 1 to 1,000 workers, simulated: nothing is multiplied.

``python studies/dask_scale.py [--lines N --chunk C --workers 1,10,100]``: the graphs that
`falcon.dask.matmul` would send are run by a simulated scheduler of dask's kind: a task goes, in
order, where it starts first, counting what must be sent there, or where falcon.dask sends it. The
plain grid is shown with and without falcon's places. Beside them: what COSMA and CAPS would
receive, by the formulas of their papers. Speeds are those of the options.

References: R. van de Geijn, J. Watts, "SUMMA", 1997; G. Ballard, J. Demmel, O. Holtz, B. Lipshitz,
O. Schwartz, "Communication-optimal parallel algorithm for Strassen's matrix multiplication" (CAPS),
SPAA 2012; G. Kwasniewski et al., "Red-blue pebbling revisited" (COSMA), SC 2019.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import isqrt, log2

TRANSFERS = 8  # holders of inputs that are tried for a task, besides the worker that is free first


@dataclass
class Speeds:
    """Per worker: seconds of a product of two chunks, bytes/s of sums and of transfers."""

    product: float
    sums: float
    bandwidth: float


def tasks_of(made, chunk_bytes):
    """Return {key: (dependencies, products, bytes of sums, bytes of the result)} of a product."""
    from falcon.dask.sums import Assemble, Judge, Norms, Sum
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
        if not isinstance(task, tuple):
            continue  # the Work
        function, size = task[0], chunk_bytes
        needs = [y for x in task[1:] for y in keys(x)]
        products = len(function.cuts) if isinstance(function, Step) else 0
        summed = 0
        if isinstance(function, Sum | Assemble):
            terms = len(function.coefficients)
            summed = (terms + 1) * size if terms > 1 or isinstance(function, Assemble) else 0
        elif isinstance(function, Norms):
            summed, size = size, 8 * isqrt(size // 8)
        elif not isinstance(function, Step):
            size = 0 if not isinstance(function, Judge) else 64
        found[key] = needs, products, summed, size
    sources = {y for needs, *_ in found.values() for y in needs if y not in known}
    return found, sorted(sources)


def simulate(tasks, sources, chunk_bytes, workers, speeds, place=None):
    """Return the seconds until the last task ends, and the bytes that all workers receive.

    `place`: workers of tasks by key; another task goes where it would start first. The sources lie
    in as many runs of equal length.
    """
    import numpy as np

    where, size, free = {}, {}, np.zeros(workers)
    for at, key in enumerate(sources):
        where[key] = {at * workers // len(sources)}
        size[key] = chunk_bytes
    waits = {key: len(set(needs) - where.keys()) for key, (needs, *_) in tasks.items()}
    users = {}
    for key, (needs, *_) in tasks.items():
        for need in set(needs):
            users.setdefault(need, []).append(key)
    order = {key: at for at, key in enumerate(tasks)}
    ready = [(0.0, order[key], key) for key, count in waits.items() if not count]
    heapify(ready)
    began = dict.fromkeys(tasks, 0.0)
    moved = last = 0.0
    while ready:
        since, _, key = heappop(ready)
        needs, products, summed, made = tasks[key]
        needs = set(needs)

        def start(worker, needs=needs, since=since):
            missing = sum(size[x] for x in needs if worker not in where[x])
            return max(free[worker], since) + missing / speeds.bandwidth, missing, worker

        if place and key in place:
            begin, missing, worker = start(place[key])
        else:
            largest = sorted(needs, key=lambda x: -size[x])[:TRANSFERS]
            holders = {next(iter(where[x])) for x in largest}
            begin, missing, worker = min(map(start, {*holders, int(free.argmin())}))
        end = begin + products * speeds.product + summed / speeds.sums
        free[worker] = end
        moved += missing
        last = max(last, end)
        for x in needs:
            where[x].add(worker)
        where[key], size[key] = {worker}, made
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


def caps(lines, workers, itemsize, memory):
    """Bytes that all workers receive: the bound that CAPS attains, up to a constant."""
    omega, S = log2(7), memory / itemsize
    if workers == 1:
        return 0
    words = max(lines**omega / (workers * S ** (omega / 2 - 1)), lines**2 / workers ** (2 / omega))
    return words * workers * itemsize


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=262144, help="of square matrices")
    parser.add_argument("--chunk", type=int, default=8192, help="lines of a chunk")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--workers", default="1,4,16,64,256,1000")
    parser.add_argument("--gflops", type=float, default=1000.0, help="of a worker, effective")
    parser.add_argument("--bandwidth", type=float, default=1e9, help="bytes/s that a worker gets")
    parser.add_argument("--sums", type=float, default=2e10, help="bytes/s of a worker's sums")
    parser.add_argument("--memory", type=float, default=64, help="GiB of a worker")
    parser.add_argument("--block-scheme", default="strassen")
    options = parser.parse_args()
    import dask.array as da
    import numpy as np

    import falcon.dask
    from falcon._core.text import format_table
    from falcon.dask.place import places

    N, chunk, itemsize = options.lines, options.chunk, np.dtype(options.dtype).itemsize
    size, memory = chunk**2 * itemsize, options.memory * 2**30
    speeds = Speeds(2e-9 * chunk**3 / options.gflops, options.sums, options.bandwidth)
    x = da.zeros((N, N), chunks=chunk, dtype=options.dtype)
    y = da.zeros((N, N), chunks=chunk, dtype=options.dtype, name="zeros-y")  # sorted behind x
    graphs = {name: tasks_of(falcon.dask.matmul(x, y, block_scheme=name), size)
              for name in ("classical", options.block_scheme)}  # fmt: skip
    plain, scheme = graphs["classical"], graphs[options.block_scheme]
    rows = [("workers", "plain s", "GiB each", "dask's places s", "GiB each",
             f"{options.block_scheme} s", "GiB each", "COSMA GiB", "CAPS GiB")]  # fmt: skip
    count = N // chunk
    for workers in map(int, options.workers.split(",")):
        lie = np.arange(2 * count**2).reshape(2, count, count) * workers // (2 * count**2)
        goes, _ = places((count,) * 3, (size, size), workers, (lie[0], lie[1]))
        place = {key: int(goes[key[1:]]) for key in plain[0]}
        runs = [
            simulate(*plain, size, workers, speeds, place),
            simulate(*plain, size, workers, speeds),
            simulate(*scheme, size, workers, speeds),
        ]
        cells = [text for seconds, moved in runs
                 for text in (f"{seconds:.4g}", f"{moved / workers / 2**30:.3g}")]  # fmt: skip
        bounds = [f(N, workers, itemsize, memory) / workers for f in (cosma, caps)]
        rows.append((str(workers), *cells, *(f"{x / 2**30:.3g}" for x in bounds)))
        print(f"{workers} workers done", file=sys.stderr)
    print(f"{N} x {N} x {N} {options.dtype}, chunks of {chunk}: {len(plain[0])} tasks, "
          f"{options.block_scheme} {len(scheme[0])}\n")  # fmt: skip
    print(format_table(rows))


if __name__ == "__main__":
    main()
