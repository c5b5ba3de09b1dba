"""How good the decisions are: ``python studies/regret.py``.

For each shape the chosen plan and its best rivals are measured, all of them in turn. The least of
many noisy times is too low, so the choice and the fastest rival are measured again in interleaved
pairs, and only these count as regret: ``median(time of the choice / time of the rival) - 1``. Also
compared are predicted and measured times, and falcon(auto) with NumPy as installed and the other
libraries that are installed.

Each (dtype, threads) runs in its own process, because BLAS libraries read their number of threads
when they are loaded. Each gets an equal part of the time, and its shapes in a shuffled order:
whenever a run ends, it has measured a random sample, whose seed is in the file. The file is
rewritten after every shape, so that a run that was stopped can be resumed. With ``--between`` a
call of np.matmul precedes every timed call, as in programs that use both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

import numpy as np
from common import after_numpy, operands, process, regret_of, seconds, write
from regret_page import LARGE, draw, intervals, page, summary

import falcon
from falcon._core.timing import Side, interleave
from falcon._front.info import cpu_model, numpy_blas
from falcon._front.tune import measure_machine, rivals, side_of
from falcon.bench.operands import SharedOperands
from falcon.bench.peers import TABLE, AbsentError, Worker, best_environment, threads_in_environment
from falcon.bench.workloads import Shape, model_shapes, models

# Rounds over all candidates; the fastest is then measured again with the choice.
LOOK_ROUNDS = 2
# Most rounds for a ratio.
MOST_ROUNDS = 41
# The size of the products by np.matmul with --between.
BETWEEN = 512
LEAST_FLOPS = 2e7
# Per thread in float32; half of it in float64, which takes as many seconds. Layers may have four
# times as many, otherwise none of a prefill would be left.
MOST_FLOPS = 3e10
MOST_WEIGHTS = 2**28  # elements of a layer's B


def sample(dtype, threads, count, seed=0, most=MOST_FLOPS):
    """Return (kind, shape) of bounded work; equal seeds give equal samples.

    A quarter are layers; then come odd ones, a fifth, squares and thin ones, a tenth each, and
    log-uniform sizes 128..8192.
    """
    itemsize = np.dtype(dtype).itemsize
    random = np.random.default_rng([threads, itemsize] if seed == 0 else [threads, itemsize, seed])
    most *= threads * 4 / itemsize
    layers = [
        Shape(tokens, x.N, x.K, f"{model} {x.label}")
        for model in models()
        for x in model_shapes(model, 1)
        for tokens in (32, 128, 512, 1024, 2048)
        if x.N * x.K <= MOST_WEIGHTS and LEAST_FLOPS <= 2.0 * tokens * x.N * x.K <= 4 * most
    ]
    picked = random.permutation(len(layers))[: count // 4]
    found = [("layer", layers[i]) for i in sorted(picked.tolist())]
    wanted = ["odd"] * (count // 5) + ["square"] * (count // 10) + ["thin"] * (count // 10)
    wanted += ["log-uniform"] * (count - len(found) - len(wanted))
    for kind in wanted:
        while True:
            sizes = (2 ** random.uniform(7, 13, 3)).astype(int).tolist()
            if kind == "odd":
                sizes = [x | 1 for x in sizes]
            elif kind == "square":
                sizes = [sizes[0]] * 3
            elif kind == "thin":
                sizes[int(random.integers(3))] = int(random.integers(2, 128))
            shape = Shape(*sizes)
            if LEAST_FLOPS <= shape.flops <= most:
                found.append((kind, shape))
                break
    # The kinds are mixed, so that a run that is stopped has some of each.
    return [found[i] for i in random.permutation(len(found)).tolist()]


def measure_shape(kind, shape, dtype, workers, options):
    """Measure one shape in this process; return its record.

    Ratios above 1 mean that falcon is faster; times are in seconds. A candidate is its backend and
    scheme, its predicted time (or 0) and the least of its measured times.
    """
    a, b, out = operands((shape.M, shape.N, shape.K), dtype)
    plan = falcon.plan(a, b)
    candidates = rivals(plan, options.most + 1)
    sides = [side_of(plan, x.option, (a, b, out)) for x in candidates]
    against = [Side.of("falcon", lambda: falcon.gemm(a, b, out=out)),
               Side.of("numpy", lambda: np.matmul(a, b, out=out))]  # fmt: skip
    if options.between:
        sides, against = ([after_numpy(x, BETWEEN, dtype) for x in y] for y in (sides, against))
    limit = options.case_seconds
    looked, best, lost = regret_of(sides, looks=LOOK_ROUNDS, most=MOST_ROUNDS, limit=limit)
    if min(a.shape + b.shape) >= LARGE and workers:
        with SharedOperands(shape, np.dtype(dtype), 0) as shared:
            for worker in workers:
                worker.prepare(shared)
                against.append(Side(worker.peer.name, worker.seconds))
    mine, *others = interleave(against, most=MOST_ROUNDS, seconds=limit)
    over = {x.name: mine.over(x) for x in others}
    worst = min(over, key=lambda name: over[name].median)
    planned = [seconds(lambda x=x: falcon.plan(a[x:], b), count=1) for x in range(1, 10)]
    return {
        "dtype": dtype,
        "threads": options.threads[0],
        "kind": kind,
        **shape.sizes(),
        "choice": sides[0].name,
        "rival": sides[best].name,
        "regret": max(0.0, lost.median - 1),
        "candidates": [
            (side.name, x.total, min(record.seconds))
            for side, x, record in zip(sides, candidates, looked, strict=True)
        ],
        "over_numpy": over["numpy"].median,
        "over_library": over[worst].median,
        "library": worst,
        "known": {
            "regret": lost.document(),
            "over_numpy": over["numpy"].document(),
            "over_library": over[worst].document(),
        },
        "planned": median(planned),
        "date": now(),
    }


def measure(options):
    """Measure what is left of one dtype and number of threads, until the time is up."""
    end = time.monotonic() + options.seconds
    (dtype,), (threads,) = options.dtype, options.threads
    found = read(options.out)
    done = {
        (x["M"], x["N"], x["K"]) for x in found if (x["dtype"], x["threads"]) == (dtype, threads)
    }
    shapes = sample(dtype, threads, options.shapes, options.seed, options.most_flops)
    left = [x for x in shapes if (x[1].M, x[1].N, x[1].K) not in done]
    if left:
        measure_machine([dtype], [threads], lambda _: None)
    with ExitStack() as stack:
        workers = [*libraries(dtype, threads, stack)] if left and options.peers else []
        for kind, shape in left:
            if time.monotonic() > end:
                return
            x = measure_shape(kind, shape, dtype, workers, options)
            found.append(x)
            write(options.out, content(found, options))
            said = f"{x['choice']}, regret {x['regret']:.1%}, over NumPy {x['over_numpy']:.3f}"
            print(f"{len(found):4} {dtype} {threads} {shape}: {said}", file=sys.stderr)


def libraries(dtype, threads, stack):
    """Start the libraries that are installed, besides NumPy with its usual kernels."""
    for peer in TABLE[1:]:
        if peer.multiplies(np.dtype(dtype)):
            with suppress(AbsentError, RuntimeError):
                worker = Worker(best_environment(peer, threads, dtype)[0], threads)
                stack.callback(worker.close)
                yield worker


def run(options):
    """Measure every (dtype, threads) in its own process."""
    end = time.monotonic() + options.seconds
    groups = [(dtype, threads) for dtype in options.dtype for threads in options.threads]
    for number, (dtype, threads) in enumerate(groups):
        # Time that one group leaves goes to those that follow.
        part = (end - time.monotonic()) / (len(groups) - number)
        if part <= 0:
            return
        given = {**vars(options), "dtype": [dtype], "threads": [threads], "seconds": part}
        process(__file__, "--worker", json.dumps(given), **threads_in_environment(threads))


def read(path):
    """Read the records of an earlier run; none if there is no file."""
    if not Path(path).exists():
        return []
    return json.loads(Path(path).read_text(encoding="utf-8"))["records"]


def content(found, options):
    """Return the file of these records, with their summary."""
    return {
        "falcon": falcon.__version__,
        "date": now(),
        "cpu": cpu_model(),
        "kernels": falcon.machine().key.get("cpu.kernels", "none"),
        "sample": f"first of {options.shapes} shapes per dtype and threads, seed {options.seed}",
        "between": options.between,
        "note": options.note,
        "numpy": np.__version__,
        "numpy_blas": numpy_blas(),
        "summary": summary(found),
        "intervals": intervals(found),
        "records": found,
    }


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def parser():
    found = argparse.ArgumentParser(description=__doc__)
    add = found.add_argument
    add("--out", default="regret.json", help="the records; beside them a picture")
    add("--shapes", type=int, default=52, help="per dtype and threads (default 52)")
    add("--most-flops", type=float, default=MOST_FLOPS, help="per thread (default 3e10)")
    add("--seconds", type=float, default=1e9, help="stop after this time; run again to resume")
    add("--case-seconds", type=float, default=20.0, help="for a ratio, after five rounds (20)")
    add("--most", type=int, default=8, help="rivals by predicted time (default 8)")
    add("--seed", type=int, default=0, help="of the sample (default 0)")
    add("--note", default="", help="a remark for the page of machines")
    add("--between", action="store_true", help="call np.matmul before every timed call")
    add("--page", metavar="FOLDER", help="only write the page of a folder of records")
    add("--dtype", nargs="+", default=["float32", "float64"])
    add("--threads", nargs="+", type=int, default=[1, 2])
    add("--no-peers", dest="peers", action="store_false", help="compare with NumPy only")
    add("--worker", help=argparse.SUPPRESS)
    return found


def main():
    options = parser().parse_args()
    if options.worker:
        measure(argparse.Namespace(**json.loads(options.worker)))
    elif options.page:
        folder = Path(options.page)
        (folder / "README.md").write_text(page(folder), encoding="utf-8")
    else:
        run(options)
        found = read(options.out)
        sure = intervals(found)
        for name, value in summary(found).items():
            ends = "  ({:.4g} to {:.4g})".format(*sure[name]) if name in sure else ""
            print(f"{name:<60}{value:.4g}{ends}")
        if found:
            draw(found, Path(options.out).with_suffix(".png"))


if __name__ == "__main__":
    main()
