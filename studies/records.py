"""Measured times by which the decision is judged: ``python studies/records.py FILE``.

For every problem of a fixed list (squares, layers of language models, few rows, short K, odd sizes;
float32, float64, bfloat16, int8; one thread and two) the classical algorithm of every backend and
15 LCMAs are timed in turn, in a random order, on random data. The file holds the seconds of
every round, and of each method what a cost model may know: format, rank, additions, chunks.

Run it on a quiet machine. The file is written after every problem: the same command goes on where
it was stopped. ``--seconds`` ends it after that time. ``--keep SHORT`` then writes what `regret.py`
reads, by which it judges models and rates on any machine (``studies/records``): of each method two
medians in milliseconds, of every other round and of those between, whose difference is the spread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np

import falcon
from falcon._backends import available_backends
from falcon._core.model import counts
from falcon._cpu.backend import cache_bytes
from falcon._front.tune import operands_of, rivals, side_of
from falcon._numpy.rates import blas_name
from falcon._tools.cpus import cpu_family, cpu_model, memory_bytes
from falcon._tools.timing import interleave

ROUNDS = 5
# A problem whose equal calls differ by more was disturbed: it is measured again, so often at most.
SPREAD, AGAIN = 0.08, 2
# LCMAs per problem: so many of the best by today's model, then the best of other formats.
BEST, METHODS = 9, 15
# One that is predicted to take this many times as long as the best is not worth its time.
SLOWEST = 1.6
# Flop of a product per thread in float32; half of it in float64. LARGE: with two threads only.
MOST_FLOPS = 2.5e10
# Seconds of a timing of several calls, of which the fastest counts.
TIMING = 0.01

SQUARES = [(n, n, n) for n in (512, 768, 1024, 1536, 2048, 2560)]
LARGE = [
    (3072, 3072, 3072),
    (4096, 4096, 4096),
    (512, 3584, 18944),
    (512, 14336, 4096),
    (2048, 4608, 3584),
]
LAYERS = [
    (rows, n, k) for rows in (512, 2048) for n, k in ((4608, 3584), (3584, 3584), (4096, 14336))
]
FEW_ROWS = [(64, 4096, 4096), (128, 4096, 4096), (256, 4096, 4096), (256, 14336, 4096)]
SHORT_K = [(2048, 2048, 256), (3000, 3000, 512), (4096, 4096, 512), (5500, 4500, 640)]
ODD = [
    (1100, 1100, 1100), (699, 1805, 1138), (777, 555, 999), (1999, 1003, 3001), (1234, 4321, 2222),
    (2500, 2500, 2500), (3001, 3001, 3001), (900, 3300, 900), (4000, 1500, 1500),
    (1300, 1300, 4200),
]  # fmt: skip
OTHERS = [(1024, 1024, 1024), (2048, 2048, 2048), (512, 4096, 4096), (2560, 2560, 2560)]

# Below 1 Gflop only classical algorithms are compared: random sizes, many with a small dimension.
SMALL, SMALL_FLOPS = 30, (5e6, 1e9)


def small():
    """Return some sizes from 8 to 4096 of little work."""
    random, found = np.random.default_rng(1), []
    while len(found) < SMALL:
        shape = tuple((2 ** random.uniform(3, 12, 3)).astype(int).tolist())
        if SMALL_FLOPS[0] <= 2.0 * np.prod(shape) < SMALL_FLOPS[1]:
            found.append(shape)
    return found


def problems():
    """Yield (dtype, threads, shape), in an order that makes a run that stopped a fair sample."""
    found = []
    for dtype, shapes, share in (
        ("float32", SQUARES + LAYERS + FEW_ROWS + SHORT_K + ODD, 1.0),
        ("float64", SQUARES + LAYERS + FEW_ROWS + SHORT_K + ODD, 0.5),
        ("bfloat16", OTHERS, 1.0),
        ("int8", OTHERS, 1.0),
    ):
        for threads in (1, 2):
            for shape in shapes:
                if 2.0 * np.prod(shape, dtype=float) <= MOST_FLOPS * threads * share:
                    found.append((dtype, threads, shape))
        if dtype in ("float32", "float64"):
            found += ((dtype, 2, shape) for shape in LARGE)
            found += ((dtype, 1 + at % 2, shape) for at, shape in enumerate(small()))
    order = np.random.default_rng(0).permutation(len(found))
    return [found[i] for i in order]


def methods(plan):
    """Return the options to time: classical ones, the best LCMAs, the best of other formats.

    NumPy's loops, a thousand times slower, are left out.
    """
    found = [x for x in rivals(plan, 10**6) if x.method.backend != "numpy" or blas_or_float(plan)]
    classical = [x for x in found if x.method.is_classical]
    if plan.problem.flops < SMALL_FLOPS[1]:
        return classical
    others = sorted((x for x in found if not x.method.is_classical), key=lambda x: x.total)
    others = [x for x in others if x.total <= SLOWEST * others[0].total]
    kept, formats = others[:BEST], set()
    for x in others[BEST:]:
        kind = x.method.backend, x.method.levels, tuple(sorted(x.method.scheme.format))
        if len(kept) < METHODS and kind not in formats:
            kept.append(x)
        formats.add(kind)
    return [*classical, *kept]


def blas_or_float(plan):
    return plan.problem.operand.has_blas or not plan.problem.is_exact


def measure(dtype, threads, shape):
    """Time the methods of one problem; return its record."""
    M, N, K = shape
    a, b, out = operands_of(
        falcon.plan((M, K), (K, N), np.dtype(dtype), scheme="classical").problem
    )
    if dtype in ("float32", "float64"):
        random = np.random.default_rng(M + N + K)
        a, b = (np.resize(random.standard_normal(2**20 + 1).astype(dtype), x.shape) for x in (a, b))
    plan = falcon.plan(a, b, threads=threads)
    found = methods(plan)
    sides = [replace(side_of(plan, x.method, (a, b, out)), rest=0.0) for x in found]
    seconds = min(side.time(1) for side in sides)
    calls, rounds = min(int(TIMING / seconds) + 1, 10), ROUNDS if seconds < 0.3 else 3
    times = interleave(sides, rounds, most=rounds, calls=calls)
    return {
        "dtype": dtype,
        "threads": threads,
        "shape": shape,
        "choice": f"{plan.method.backend} {plan.method.label}",
        "methods": [row(x.method, y.seconds) for x, y in zip(found, times, strict=True)],
    }


def row(method, times):
    """Return a method as JSON: what a model may know of it, and its seconds per round."""
    x = counts(method.stored)
    return {
        "backend": method.backend,
        "scheme": method.label,
        "counts": [round(y) for y in (x.m, x.k, x.n, x.rank, x.u, x.v, x.w)],
        "chunks": method.chunks,
        "again": method.again,
        "fused": method.fused_output,
        "roomy": method.large_workspace,
        "few_rows": method.b_in_place,
        "growth": round(method.growth, 3),
        "levels": method.levels,
        "workspace": method.workspace,
        "seconds": times,
    }


def machine(name):
    """Return what the times depend on; no names of hosts or users."""
    return {
        "name": name,
        "falcon": falcon.__version__,
        "cpu": f"{cpu_model()} ({cpu_family()})",
        "kernels": {x.name: x.kernels() for x in available_backends()},
        "caches": cache_bytes(),
        "memory": memory_bytes() >> 30,
        "numpy": f"{np.__version__}, {blas_name()}",
        "date": time.strftime("%Y-%m-%d"),
    }


def write(path, content):
    """Replace the file as a whole; a line per problem, and scheme."""
    parts = [f'"machine": {json.dumps(content["machine"])}']
    for key in sorted(content.keys() - {"machine"}, reverse=True):
        rows = (json.dumps(x, separators=(",", ":")) for x in content[key])
        parts.append(f'"{key}": [\n' + ",\n".join(rows) + "\n]")
    part = path.with_suffix(".part")
    part.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    part.replace(path)


def short(content):
    """Return what `regret.py` reads: schemes once, and per method its number and two medians."""
    schemes, made = {}, []
    for x in content["problems"]:
        rows = {"numpy": [], "cpu": []}
        for y in x["methods"]:
            about = (y["scheme"], *y["counts"], y["growth"], y["levels"])
            halves = (float(f"{1e3 * median(y['seconds'][i::2]):.4g}") for i in (0, 1))
            row = [schemes.setdefault(about, len(schemes)), *halves]
            usual = {"chunks": x["shape"], "again": [1, 1, 1], "roomy": False, "few_rows": False}
            other = {key: y[key] for key, value in usual.items() if y[key] != value}
            rows[y["backend"]].append([*row, other] if other else row)
        made.append({**{key: x[key] for key in ("dtype", "threads", "shape")}, **rows})
    return {"machine": content["machine"], "schemes": [*schemes], "problems": made}


def main():
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("file", type=Path)
    found.add_argument("--seconds", type=float, default=float("inf"))
    found.add_argument("--name", default=cpu_model(), help="the machine's, as in shipped.json")
    found.add_argument("--keep", type=Path, metavar="SHORT", help="measure nothing: write SHORT")
    options = found.parse_args()
    if options.keep:
        write(options.keep, short(json.loads(options.file.read_text(encoding="utf-8"))))
        return
    end = time.monotonic() + options.seconds
    content = {"machine": machine(options.name), "problems": []}
    if options.file.exists():
        content = json.loads(options.file.read_text(encoding="utf-8"))
    done = {(x["dtype"], x["threads"], tuple(x["shape"])): x for x in content["problems"]}
    while time.monotonic() < end:
        left = [x for x in problems() if x not in done]
        left += [x for x in done if spread(done[x]) > SPREAD and done[x].get("again", 0) < AGAIN]
        if not left:
            return
        before, now = done.get(left[0]), measure(*left[0])
        best = min((x for x in (before, now) if x), key=spread)
        done[left[0]] = {**best, "again": before.get("again", 0) + 1 if before else 0}
        write(options.file, {**content, "problems": list(done.values())})
        print(len(left), *left[0], f"{spread(now):.0%}", file=sys.stderr, flush=True)
    sys.exit(3)


def spread(x):
    """Return how far apart the rounds of a problem are: the median over its methods."""
    return median(max(y["seconds"]) / min(y["seconds"]) - 1 for y in x["methods"])


if __name__ == "__main__":
    main()
