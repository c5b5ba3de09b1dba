"""How good the decisions are: ``python -m falcon.bench.regret``.

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
import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import falcon
from falcon._core.timing import Estimate, Side, interleave, timed
from falcon._front.info import cpu_model, numpy_blas
from falcon._front.tune import measure_machine, rivals, side_of

from .operands import SharedOperands
from .peers import TABLE, AbsentError, Worker, best_coretype, threads_in_environment
from .regret_page import intervals, page
from .regret_shapes import LARGE, shapes
from .regret_summary import draw, summary
from .workloads import BOTH, Shape

# Rounds over all candidates; the fastest is then measured again with the choice.
_LOOK_ROUNDS = 2
# Most rounds for a ratio, and the seconds after which no rounds beyond the least number begin.
_MOST_ROUNDS, _SECONDS = 41, 20.0
_TRIAL = Shape(1536, 1536, 1536)
# The size of the products by np.matmul with --between.
_BETWEEN = 512


def measure_shape(
    kind: str,
    shape: Shape,
    dtype: str,
    threads: int,
    most: int,
    workers: list[Worker],
    between: bool = False,
) -> dict[str, Any]:
    """Measure one shape in this process; return its record.

    Ratios above 1 mean that falcon is faster; times are in seconds. A candidate is its backend and
    scheme, its predicted time (or 0) and the least of its measured times.
    """
    M, N, K = shape.M, shape.N, shape.K
    some = np.random.default_rng(M + N + K).standard_normal(2**18).astype(dtype)
    a, b = np.resize(some, (M, K)), np.resize(some[::-1], (K, N))
    out = np.zeros((M, N), dtype)
    plan = falcon.plan(a, b)
    candidates = rivals(plan, most + 1)
    sides = [side_of(plan, x.option, (a, b, out)) for x in candidates]
    if between:
        sides = [_after_numpy(x, dtype) for x in sides]
    looked = interleave(sides, _LOOK_ROUNDS, most=_LOOK_ROUNDS)
    seconds = [min(x.seconds) for x in looked]
    best = seconds.index(min(seconds))
    lost = Estimate(1.0, 1.0, 1.0, 1)
    if best:
        choice, rival = interleave([sides[0], sides[best]], most=_MOST_ROUNDS, seconds=_SECONDS)
        lost = rival.over(choice)
    over = _libraries_beside(shape, dtype, (a, b, out), workers, between)
    worst = min(over, key=lambda name: over[name].median)
    return {
        "dtype": dtype,
        "threads": threads,
        "kind": kind,
        **shape.sizes(),
        "choice": sides[0].name,
        "rival": sides[best].name,
        "regret": max(0.0, lost.median - 1),
        "candidates": [
            (side.name, x.total, time)
            for side, x, time in zip(sides, candidates, seconds, strict=True)
        ],
        "over_numpy": over["numpy"].median,
        "over_library": over[worst].median,
        "library": worst,
        "known": {
            "regret": lost.document(),
            "over_numpy": over["numpy"].document(),
            "over_library": over[worst].document(),
        },
        "planned": _planning(a, b),
        "date": _now(),
    }


def _after_numpy(side: Side, dtype: str) -> Side:
    """Return the side with an untimed call of np.matmul before each of its own.

    NumPy's threads still spin when falcon's begin, and its operands are in the caches.
    """
    some = np.ones((_BETWEEN, _BETWEEN), dtype)
    out = np.empty_like(some)

    def fastest(calls: int) -> float:
        times = []
        for _ in range(calls):
            np.matmul(some, some, out)
            times.append(side.time(1))
        return min(times)

    return Side(side.name, fastest, side.rest)


def _planning(a: np.ndarray, b: np.ndarray) -> float:
    """Median seconds of a fresh plan for shapes like these, each with one row less."""
    times = [timed(partial(falcon.plan, a[fewer:], b)) for fewer in range(1, 10)]
    return Estimate.of(times).median


def _libraries_beside(
    shape: Shape,
    dtype: str,
    arrays: tuple[np.ndarray, ...],
    workers: list[Worker],
    between: bool,
) -> dict[str, Estimate]:
    """Return falcon's speed-up over NumPy here and, for large shapes, over each worker."""
    a, b, out = arrays
    sides = [Side.of("falcon", lambda: falcon.gemm(a, b, out=out)),
             Side.of("numpy", lambda: np.matmul(a, b, out=out))]  # fmt: skip
    if between:
        sides = [_after_numpy(x, dtype) for x in sides]
    if min(shape.M, shape.N, shape.K) >= LARGE and workers:
        with SharedOperands(shape, np.dtype(dtype), 0) as operands:
            for worker in workers:
                worker.prepare(operands)
                sides.append(Side(worker.peer.name, worker.seconds))
    mine, *others = interleave(sides, most=_MOST_ROUNDS, seconds=_SECONDS)
    return {x.name: mine.over(x) for x in others}


def measure(dtype: str, threads: int, options: argparse.Namespace) -> None:
    """Measure what is left of one dtype and number of threads, until the time is up."""
    end, path = time.monotonic() + options.seconds, Path(options.out)
    found = read(path)
    done = {
        (x["M"], x["N"], x["K"]) for x in found if (x["dtype"], x["threads"]) == (dtype, threads)
    }
    sample = shapes(dtype, threads, options.shapes, options.seed)
    left = [x for x in sample if (x[1].M, x[1].N, x[1].K) not in done]
    if left:
        measure_machine([dtype], [threads], lambda _: None)
    with ExitStack() as stack:
        workers = _libraries(dtype, threads, stack) if left and options.peers else []
        for kind, shape in left:
            if time.monotonic() > end:
                return
            x = measure_shape(kind, shape, dtype, threads, options.most, workers, options.between)
            found.append(x)
            write(path, found, options)
            said = f"{x['choice']}, regret {x['regret']:.1%}, over NumPy {x['over_numpy']:.3f}"
            print(f"{len(found):4} {dtype} {threads} {shape}: {said}", file=sys.stderr)


def _libraries(dtype: str, threads: int, stack: ExitStack) -> list[Worker]:
    """Start the installed libraries that are within 20 % of the fastest one at 1536."""
    core = best_coretype(threads, dtype)
    environment = {} if core is None else {"OPENBLAS_CORETYPE": core}
    workers: dict[str, Worker] = {}
    with SharedOperands(_TRIAL, np.dtype(dtype), 0) as operands:
        for peer in TABLE:
            if peer.device == "cpu" and peer.name != "numpy" and peer.multiplies(np.dtype(dtype)):
                with suppress(AbsentError, RuntimeError):
                    worker = Worker(peer, threads, environment)
                    stack.callback(worker.close)
                    worker.prepare(operands)
                    workers[peer.name] = worker
    tried = interleave([Side(name, x.seconds) for name, x in workers.items()])
    best = min((x.median for x in tried), default=0.0)
    return [workers[x.name] for x in tried if x.median <= 1.2 * best]


# --- the whole run --------------------------------------------------------------------------


def run(options: argparse.Namespace) -> None:
    """Measure every (dtype, threads) in its own process."""
    end = time.monotonic() + options.seconds
    groups = [(dtype, threads) for dtype in options.dtype for threads in options.threads]
    for number, (dtype, threads) in enumerate(groups):
        # Time that one group leaves goes to those that follow.
        part = (end - time.monotonic()) / (len(groups) - number)
        if part <= 0:
            return
        command = [sys.executable, "-m", "falcon.bench.regret", "--worker", "--out", options.out]
        command += ["--dtype", dtype, "--threads", str(threads), "--seconds", str(part)]
        command += ["--shapes", str(options.shapes), "--most", str(options.most)]
        command += ["--seed", str(options.seed), "--note", options.note]
        command += [] if options.peers else ["--no-peers"]
        command += ["--between"] if options.between else []
        environment = {**os.environ, **threads_in_environment(threads)}
        if subprocess.run(command, env=environment, check=False).returncode:
            raise RuntimeError(f"the process that measured {dtype}, {threads} threads failed")


def read(path: Path) -> list[dict[str, Any]]:
    """Read the records of an earlier run; none if there is no file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    try:
        summary(found["records"])
    except (KeyError, TypeError):
        raise ValueError(f"{path} holds no records, or those of another version") from None
    return found["records"]


def write(path: Path, found: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Replace the file by these records and their summary."""
    content = {
        "falcon": falcon.__version__,
        "date": _now(),
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
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m falcon.bench.regret", description=__doc__)
    parser.add_argument("--out", default="regret.json", help="the records (default regret.json)")
    parser.add_argument("--plot", help="the picture (default: OUT with .png)")
    parser.add_argument("--shapes", type=int, default=52, help="per dtype and threads (default 52)")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="stop after this time; run again to resume")  # fmt: skip
    parser.add_argument("--most", type=int, default=8, help="rivals by predicted time (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    parser.add_argument("--note", default="", help="a remark for the page of machines")
    parser.add_argument("--between", action="store_true",
                        help="call np.matmul before every timed call")  # fmt: skip
    parser.add_argument("--page", metavar="FOLDER",
                        help="measure nothing; write the page of a folder of records")  # fmt: skip
    parser.add_argument("--dtype", nargs="+", default=list(BOTH))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--no-peers", dest="peers", action="store_false",
                        help="compare with NumPy as installed only")  # fmt: skip
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    if options.worker:
        (dtype,), (threads,) = options.dtype, options.threads
        measure(dtype, threads, options)
        return 0
    if options.page:
        folder = Path(options.page)
        (folder / "README.md").write_text(page(folder), encoding="utf-8")
        return 0
    run(options)
    found = read(Path(options.out))
    sure = intervals(found)
    for name, value in summary(found).items():
        ends = "  ({:.4g} to {:.4g})".format(*sure[name]) if name in sure else ""
        print(f"{name:<60}{value:.4g}{ends}")
    if found:
        draw(found, Path(options.plot or Path(options.out).with_suffix(".png")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
