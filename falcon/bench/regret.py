"""How good the decisions are: ``python -m falcon.bench.regret``.

For each shape the chosen plan and its best rivals are measured, all of them in turn. The least of
many noisy times is too low, so the fastest rival meets the choice again in fresh interleaved pairs,
and only what these show counts as regret: ``median(time of the choice / time of the rival) - 1``.
Beside it: predicted against measured times, and falcon(auto) against NumPy as installed and the
other libraries that are installed.

Each (dtype, threads) runs in a process of its own, because BLAS libraries read their number of
threads when they are loaded. The file is rewritten after every shape: a run that was stopped goes
on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import falcon
from falcon._backends import available_backends
from falcon._core.plan import Candidate, Option, Plan
from falcon._front.info import cpu_model, numpy_blas
from falcon._front.tune import rest_after, take_turns

from .operands import SharedOperands
from .peers import TABLE, AbsentError, Worker, best_coretype
from .regret_picture import draw
from .regret_record import Record
from .regret_shapes import LARGE, shapes
from .workloads import BOTH, Shape

# Fresh pairs that confirm a ratio; and for calls of more than so many seconds.
_CONFIRM, _CONFIRM_LONG, _LONG = 41, 21, 0.03
_PEERS = tuple(x for x in TABLE if x.name != "numpy" and x.device == "cpu")


def rivals(plan: Plan, most: int) -> list[Candidate]:
    """Return the choice, the candidates of best predicted time, and the classical algorithms."""
    first = Candidate(plan.option, plan.seconds)
    others = [x for x in plan.candidates[1:] if x.allowed]
    if not others:  # too small to have been compared
        problem, strassen = plan.problem, falcon.schemes.get("strassen")
        for backend in available_backends():
            wanted = (None, strassen) if backend.why_classical_only(problem) is None else (None,)
            options = backend.candidates(problem, wanted, None)
            others += [Candidate(x, ()) for x in options if x != plan.option]
    kept = others[:most]
    kept += [x for x in others[most:] if x.option.scheme is None]
    return [first, *kept]


def measure_shape(
    kind: str, shape: Shape, dtype: str, threads: int, most: int, workers: list[Worker]
) -> Record:
    """Measure one shape in this process."""
    M, N, K = shape.M, shape.N, shape.K
    some = np.random.default_rng(M + N + K).standard_normal(2**18).astype(dtype)
    a, b = np.resize(some, (M, K)), np.resize(some[::-1], (K, N))
    out = np.zeros((M, N), dtype)
    plan = falcon.plan(a, b)
    backends = {x.name: x for x in available_backends()}
    sides = rivals(plan, most)

    def call(option: Option) -> Any:
        made = plan.instead(option, backends[option.backend])
        return lambda: made.backend.execute(made, a, b, None, out)

    calls = [call(x.option) for x in sides]
    rests = [rest_after(x.option.backend) for x in sides]
    seconds = [min(x) for x in take_turns(calls, 2, rests)]
    best, regret = seconds.index(min(seconds)), 0.0
    if best:
        regret = max(0.0, _ratio([calls[0], calls[best]], [rests[0], rests[best]]) - 1)
    pair = [lambda: falcon.gemm(a, b, out=out), lambda: np.matmul(a, b, out=out)]
    over_numpy = 1 / _ratio(pair, [rests[0], rest_after("numpy")], confirm_below=True)
    library, over_library = _against(workers, shape, dtype, pair[0], over_numpy)
    return Record(
        *(dtype, threads, kind, M, N, K),
        choice=_label(sides[0]),
        rival=_label(sides[best]),
        regret=regret,
        candidates=[(_label(x), x.total, time) for x, time in zip(sides, seconds, strict=True)],
        over_numpy=over_numpy,
        over_library=over_library,
        library=library,
        planned=_planning(a, b, rests[0]),
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def _planning(a: np.ndarray, b: np.ndarray, rest: float) -> float:
    """Seconds of the median fresh plan for shapes like these: one row less each time."""
    time.sleep(rest)  # till the threads of a BLAS are asleep
    times = []
    for fewer in range(1, 10):
        start = time.perf_counter()
        falcon.plan(a[fewer:], b)
        times.append(time.perf_counter() - start)
    return median(times)


def _ratio(calls: list[Any], rests: list[float], *, confirm_below: bool = False) -> float:
    """Median over interleaved pairs of time of the first call / time of the second.

    Each side of a pair is the fastest of three calls or more, because a call on a shared machine
    differs from the next by a tenth; one that takes a tenth of a second is long enough alone. Every
    other pair begins with the second call. And the extremes of many noisy ratios are too extreme
    to be true: one more than 2 % above 1 (or below it, with `confirm_below`) is found anew, once,
    in more and fresh pairs, which alone count.
    """
    ratio, slow = _paired(calls, 5, rests)
    if ratio > 1.02 or (confirm_below and ratio < 0.98):
        ratio, _ = _paired(calls, _CONFIRM_LONG if slow else _CONFIRM, rests)
    return ratio


def _paired(calls: list[Any], pairs: int, rests: list[float]) -> tuple[float, bool]:
    """Median ratio of times, and whether the calls are long."""
    times = take_turns(calls, pairs, rests, least=3, alternate=True)
    return median(x / y for x, y in zip(*times, strict=True)), min(map(min, times)) > _LONG


def _label(x: Candidate) -> str:
    return f"{x.option.backend} {x.option.label}"


def _against(
    workers: list[Worker], shape: Shape, dtype: str, mine: Any, over_numpy: float
) -> tuple[str, float]:
    """Name the library that falcon gains least over, and that gain."""
    worst = ("numpy", over_numpy)
    if not workers or min(shape.M, shape.N, shape.K) < LARGE:
        return worst
    with SharedOperands(shape, np.dtype(dtype), 0) as operands:
        for worker in workers:
            worker.prepare(operands)
            ratios = []
            for _ in range(3):
                time.sleep(rest_after("numpy"))
                ((seconds,),) = take_turns([mine], 1, [rest_after("numpy")])
                ratios.append(worker.seconds(3 if seconds < 0.02 else 1) / seconds)
            worst = min(worst, (worker.peer.name, median(ratios)), key=lambda x: x[1])
    return worst


def measure(
    dtype: str, threads: int, options: argparse.Namespace, done: set[tuple[int, int, int]]
) -> Iterator[Record]:
    """Measure what is left of one dtype and number of threads, until the time is over."""
    end = time.monotonic() + options.seconds
    left = [
        x for x in shapes(dtype, threads, options.shapes) if (x[1].M, x[1].N, x[1].K) not in done
    ]
    if not left:
        return
    workers = _libraries(dtype, threads) if options.peers else []
    try:
        for kind, shape in left:
            if time.monotonic() > end:
                return
            yield measure_shape(kind, shape, dtype, threads, options.most, workers)
    finally:
        for worker in workers:
            worker.close()


def _libraries(dtype: str, threads: int) -> list[Worker]:
    """Start the installed libraries that may be the best here: within 20 % of it at 1536."""
    core = best_coretype(threads, dtype)
    environment = {} if core is None else {"OPENBLAS_CORETYPE": core}
    speeds: list[tuple[float, Worker]] = []
    with SharedOperands(Shape(1536, 1536, 1536), np.dtype(dtype), 0) as operands:
        for peer in _PEERS:
            with suppress(AbsentError, RuntimeError):
                worker = Worker(peer, threads, environment)
                if not peer.multiplies(np.dtype(dtype)):
                    worker.close()
                    continue
                worker.prepare(operands)
                speeds.append((worker.seconds(5), worker))
    best = min((seconds for seconds, _ in speeds), default=0.0)
    for seconds, worker in speeds:
        if seconds > 1.2 * best:
            worker.close()
    return [worker for seconds, worker in speeds if seconds <= 1.2 * best]


# --- the whole run --------------------------------------------------------------------------


def run(options: argparse.Namespace) -> list[Record]:
    """Measure every (dtype, threads) in a process of its own; keep what is measured."""
    path = Path(options.out)
    records = read(path)
    end = time.monotonic() + options.seconds
    for dtype in options.dtype:
        for threads in options.threads:
            remaining = end - time.monotonic()
            if remaining > 0:
                records = _run_one(dtype, threads, remaining, options, path, records)
    return records


def _run_one(
    dtype: str,
    threads: int,
    seconds: float,
    options: argparse.Namespace,
    path: Path,
    records: list[Record],
) -> list[Record]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    command = [sys.executable, "-m", "falcon.bench.regret", "--worker", "--out", str(path)]
    command += ["--dtype", dtype, "--threads", str(threads), "--seconds", str(seconds)]
    command += ["--shapes", str(options.shapes), "--most", str(options.most)]
    command += [] if options.peers else ["--no-peers"]
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None  # for type checkers
        for line in process.stdout:
            records = [*records, Record(**json.loads(line))]
            write(path, records)
            x = records[-1]
            print(f"{len(records):4} {dtype} {threads} {x.M} x {x.N} x {x.K}: {x.choice}, regret "
                  f"{x.regret:.1%}, over NumPy {x.over_numpy:.3f}", file=sys.stderr)  # fmt: skip
    if process.returncode:
        raise RuntimeError(f"the process that measured {dtype}, {threads} threads failed")
    return records


def read(path: Path) -> list[Record]:
    """Read the records of an earlier run; none where there is no file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    try:
        return [Record(**x) for x in found["records"]]
    except (KeyError, TypeError):
        raise ValueError(f"{path} holds no records, or those of another version") from None


def write(path: Path, records: list[Record]) -> None:
    """Replace the file by these records and their summary."""
    content = {
        "falcon": falcon.__version__,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": cpu_model(),
        "numpy": np.__version__,
        "numpy_blas": numpy_blas(),
        "summary": summary(records),
        "records": [asdict(x) for x in records],
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def summary(records: list[Record]) -> dict[str, float]:
    """Return the figures: regret, prediction errors, gains."""
    if not records:
        return {}
    regrets = np.array([x.regret for x in records])
    pairs = np.array([x[1:] for r in records for x in r.candidates if x[1] > 0]).reshape(-1, 2)
    found = {
        "shapes": float(len(records)),
        "regret mean": float(regrets.mean()),
        "regret 95th percentile": float(np.quantile(regrets, 0.95)),
        "regret worst": float(regrets.max()),
        "over NumPy, worst": min(x.over_numpy for x in records),
        "over NumPy, 5th percentile": float(np.quantile([x.over_numpy for x in records], 0.05)),
        "over NumPy, geometric mean": _mean([x.over_numpy for x in records]),
    }
    compared = [x.planned for x in records if any(predicted for _, predicted, _ in x.candidates)]
    if compared:
        found["fresh plan where candidates are compared, median seconds"] = median(compared)
    own = [x.over_numpy for x in records if x.choice != "numpy classical"]
    if own:
        found |= {
            "shapes in which NumPy's own product is not the choice": float(len(own)),
            "these over NumPy, worst": min(own),
            "these over NumPy, geometric mean": _mean(own),
        }
    if len(pairs):
        logs = np.log(pairs)
        rest = float(((logs[:, 0] - logs[:, 1]) ** 2).sum())
        found["prediction error, median"] = float(np.median(np.abs(pairs[:, 0] / pairs[:, 1] - 1)))
        found["R^2 of log time"] = 1 - rest / float(((logs[:, 1] - logs[:, 1].mean()) ** 2).sum())
    for dtype in sorted({x.dtype for x in records}):
        large = [x for x in records if x.dtype == dtype and min(x.M, x.N, x.K) >= LARGE]
        if large:
            gains = [x.over_library for x in large]
            found[f"over the best library, {dtype}, M, N, K >= 1024, worst"] = min(gains)
            found[f"over the best library, {dtype}, M, N, K >= 1024, mean"] = _mean(gains)
    return found


def _mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m falcon.bench.regret", description=__doc__)
    parser.add_argument("--out", default="regret.json", help="records (default regret.json)")
    parser.add_argument("--plot", help="picture (default: OUT with .png)")
    parser.add_argument("--shapes", type=int, default=52, help="per dtype and threads (default 52)")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="stop after this time; run again to go on")  # fmt: skip
    parser.add_argument("--most", type=int, default=8, help="rivals by predicted time (default 8)")
    parser.add_argument("--dtype", nargs="+", default=list(BOTH))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--no-peers", dest="peers", action="store_false",
                        help="NumPy as installed only")  # fmt: skip
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    if options.worker:
        (dtype,), (threads,) = options.dtype, options.threads
        done = {
            (x.M, x.N, x.K)
            for x in read(Path(options.out))
            if (x.dtype, x.threads) == (dtype, threads)
        }
        for record in measure(dtype, threads, options, done):
            print(json.dumps(asdict(record)), flush=True)
        return 0
    records = run(options)
    for name, value in summary(records).items():
        print(f"{name:<60}{value:.4g}")
    if records:
        draw(records, Path(options.plot or Path(options.out).with_suffix(".png")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
