"""Single calls after pauses, in turn with NumPy and torch, on busy CPUs: ``studies/beside.py``.

In a tight loop a library is at its best, because its threads are awake. Here single calls are timed
after something else, and a tight loop in the same round.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec

import numpy as np
from common import awake, operands, running, same_threads, seconds, shapes_of, show

import falcon
from falcon._tools.timing import Side, interleave

SHAPES = ("334,1436,230", "512,512,512", "1024,1024,1024", "2048,2048,2048", "5000,512,5000")
# Milliseconds of the pause before a single call; in turn with other libraries only the first two.
RESTS = (1, 60, 1000)
TIGHT, ONE, NUMPY = "falcon, tight loop", "falcon, threads=1", "NumPy, tight loop"
BUSY, BUSY_ONE = "falcon, one CPU busy", "falcon, threads=1, one CPU busy"
PYTHON_THREADS = 4


def measure(shape, dtype, rounds):
    """Time single calls in every condition, and tight loops, in interleaved rounds."""
    a, b, out = operands(shape, dtype)
    own = partial(falcon.gemm, a, b, backend="cpu", out=out)
    alone = partial(own, threads=1)
    numpy = partial(np.matmul, a, b, out=out)
    others = {"np.matmul": numpy}
    if find_spec("torch"):
        import torch

        others["torch.mm"] = partial(torch.mm, torch.from_numpy(a), torch.from_numpy(b))

    def tight(name, call):
        return Side(name, lambda _: awake(call))

    def single(name, call, before=None, milliseconds=0):
        return Side(name, lambda _: seconds(call, before, milliseconds / 1000, 1))

    sides = [tight(TIGHT, own), tight(ONE, alone), tight(NUMPY, numpy)]
    sides += [single(f"falcon after {x} ms", own, None, x) for x in RESTS]
    for name, other in others.items():
        sides.append(single(f"falcon after {name}", own, other))
        sides += [single(f"falcon after {name} and {x} ms", own, other, x) for x in RESTS[:2]]
    sides.append(single("NumPy after falcon", numpy, own))
    sides.append(Side(f"falcon, {PYTHON_THREADS} Python threads", lambda _: at_once(a, b, out)))
    found = interleave(sides, rounds, most=rounds)
    with running("while True: pass"):
        found += interleave([tight(BUSY, own), tight(BUSY_ONE, alone)], rounds, most=rounds)
    return {record.name: record for record in found}


def at_once(a, b, out, calls=4):
    """Seconds per call when several Python threads call at once."""
    outs = [np.empty_like(out) for _ in range(PYTHON_THREADS)] * calls
    with ThreadPoolExecutor(PYTHON_THREADS) as pool:
        start = time.perf_counter()
        list(pool.map(lambda x: falcon.gemm(a, b, backend="cpu", out=x), outs))
        return (time.perf_counter() - start) / len(outs)


def base(name):
    """Return what a condition is compared with: the same library in a tight loop."""
    return NUMPY if name.startswith("NumPy") else BUSY_ONE if name == BUSY else TIGHT


def table(shape, dtype, found, threads):
    """Print a row per condition: speed, speed-up over the tight loop and over one thread.

    The latter is that of the slowest twentieth of the calls. With one CPU busy, the base is one
    thread with that CPU busy, instead of the tight loop.
    """
    title = f"{' x '.join(map(str, shape))} {dtype}, {threads} threads"
    rows = [(title, "GFLOP/s", "vs tight loop", "threads=1 / slowest 5 %")]
    for name, record in found.items():
        times = sorted(record.seconds)
        late = times[min(len(times) - 1, int(0.95 * len(times)))]
        M, N, K = shape
        rate = f"{2e-9 * M * N * K / record.median:.0f}"
        over = "" if base(name) == name else record.over(found[base(name)])
        slow = "" if name.startswith("NumPy") else f"{found[ONE].median / late:.2f}"
        rows.append((name, rate, over, slow))
    show(rows)
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", help="M,N,K or MxNxK (default: five)")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    threads = same_threads()
    for dtype in options.dtype:
        for shape in shapes_of(options.shapes, SHAPES):
            table(shape, dtype, measure(shape, dtype, options.rounds), threads)


if __name__ == "__main__":
    main()
