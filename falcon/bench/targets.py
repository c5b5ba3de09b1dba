"""The table of targets of the CPU backend, measured: ``python -m falcon bench --targets``.

Every side runs in a worker process of its own, and all sides of a case take turns, round by round.
"Best library" is the fastest of NumPy with its best OpenBLAS kernels and oneDNN at that shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

import numpy as np

from falcon._core.text import format_table

from .measure import REST_SECONDS
from .operands import SharedOperands
from .peers import TABLE, AbsentError, Peer, Worker, best_coretype, falcon_peer
from .workloads import BOTH, Shape, quick_shapes

_SCHEMES = ("auto", "strassen", "strassen@strassen")


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: falcon's sides against the others at some shapes."""

    title: str
    target: float
    shapes: tuple[Shape, ...]
    dtype: str
    falcon: tuple[Peer, ...]
    others: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case measured; rates are effective GFLOP/s of the sides that won."""

    title: str
    target: float
    ratio: float
    falcon: str
    falcon_rate: float
    other: str
    other_rate: float


def _schemes(**settings: Any) -> tuple[Peer, ...]:
    return tuple(falcon_peer(x, backend="cpu", scheme=x, **settings) for x in _SCHEMES)


def cases(coretype: str | None, *, large: bool) -> list[Case]:
    """Return the cases; `large` adds those at 8192."""
    environment = {"OPENBLAS_CORETYPE": coretype} if coretype else {}
    openblas = Peer("openblas " + (coretype or ""), "numpy", BOTH, "", environment)
    haswell = Peer("openblas Haswell", "numpy", BOTH, "", {"OPENBLAS_CORETYPE": "Haswell"})
    onednn = next(peer for peer in TABLE if peer.name == "onednn")
    libraries = (openblas, onednn)
    classical = (falcon_peer("classical", backend="cpu", scheme="classical"),)
    best = _schemes()
    quick = tuple(quick_shapes())
    tall = tuple(x for x in quick if x.M >= 2048)
    square = {n: (Shape(n, n, n),) for n in (2048, 4096, 8192)}
    prefill = tuple(Shape(512, n, k) for n, k in ((3584, 3584), (4608, 3584), (4096, 7168)))
    online = (falcon_peer("strassen online", backend="cpu", scheme="strassen"),)
    packed = (falcon_peer("strassen packed", "falcon packed", backend="cpu", scheme="strassen"),)
    avx2 = (falcon_peer("classical avx2", backend="cpu", scheme="classical", isa="avx2"),)
    table = [
        Case("classical f32 2048", 0.97, square[2048], "float32", classical, libraries),
        Case("classical f32 4096", 0.97, square[4096], "float32", classical, libraries),
        Case("classical f64 2048", 1.05, square[2048], "float64", classical, (openblas,)),
        Case("classical f64 4096", 1.05, square[4096], "float64", classical, (openblas,)),
        Case("classical f32 model layers", 0.97, quick, "float32", classical, libraries),
        Case("LCMA f32 4096", 1.10, square[4096], "float32", best, libraries),
        Case("LCMA f64 4096", 1.25, square[4096], "float64", best, (openblas,)),
        Case("LCMA f32 model layers, M >= 2048", 1.10, tall, "float32", best, libraries),
        Case("the same over own classical", 1.05, tall, "float32", best, classical),
        Case("B packed over online, M = 512", 1.05, prefill, "float32", packed, online),
        Case("AVX2 classical f32 4096", 0.95, square[4096], "float32", avx2, (haswell,)),
        Case("AVX2 LCMA f32 4096", 1.08, square[4096], "float32", _schemes(isa="avx2"),
             (haswell,)),
    ]  # fmt: skip
    if large:
        limited = _schemes(workspace_limit="256MiB")
        table += [
            Case("LCMA f32 8192", 1.25, square[8192], "float32", best, libraries),
            Case("8192 within 256 MiB", 1.10, square[8192], "float32", limited, libraries),
        ]
    return table


def run_case(case: Case, threads: int, rounds: int, tick: Callable[[], None]) -> Outcome:
    """Measure a case: geometric mean over its shapes of the median ratio of the best sides."""
    ratios, winners = [], []
    for shape in case.shapes:
        sides = _start([*case.falcon, *case.others], threads)
        try:
            times = _interleave(sides, shape, case.dtype, rounds, tick)
        finally:
            for side in sides:
                side.close()
        names = [side.peer.name for side in sides]
        ours = [i for i, name in enumerate(names) if name in {x.name for x in case.falcon}]
        others = [i for i in range(len(names)) if i not in ours]
        own = min(ours, key=lambda i: median(times[i]))
        other = min(others, key=lambda i: median(times[i]))
        ratios.append(median(y / x for x, y in zip(times[own], times[other], strict=True)))
        flops = 2.0 * shape.M * shape.N * shape.K
        rates = [flops / median(times[i]) / 1e9 for i in (own, other)]
        winners.append((names[own], rates[0], names[other], rates[1]))
    first = winners[0] if len(winners) == 1 else ("", _mean(w[1] for w in winners),
                                                  "", _mean(w[3] for w in winners))  # fmt: skip
    return Outcome(case.title, case.target, _mean(ratios), *first)


def _start(peers: list[Peer], threads: int) -> list[Worker]:
    sides = []
    for peer in peers:
        try:
            sides.append(Worker(peer, threads))
        except AbsentError:
            continue
    return sides


def _interleave(
    sides: list[Worker], shape: Shape, dtype: str, rounds: int, tick: Callable[[], None]
) -> list[list[float]]:
    with SharedOperands(shape, np.dtype(dtype), seed=1) as operands:
        for side in sides:
            side.prepare(operands)
    repeats = 1 if shape.M * shape.N * shape.K > 1e10 else 3
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for i, side in enumerate(sides):
            time.sleep(REST_SECONDS)
            times[i].append(side.seconds(repeats))
        tick()
    return times


def _mean(values: Iterable[float]) -> float:
    logs = [log(x) for x in values]
    return exp(sum(logs) / len(logs))


def format_outcomes(outcomes: Iterable[Outcome]) -> str:
    """Return the table."""
    rows = [("case", "target", "ratio", "met", "GFLOP/s", "other's", "sides")]
    for x in outcomes:
        met = "yes" if x.ratio >= x.target else "no"
        sides = f"{x.falcon} against {x.other}" if x.falcon else "geometric means"
        rows.append((x.title, f"{x.target:.2f}", f"{x.ratio:.3f}", met,
                     f"{x.falcon_rate:.1f}", f"{x.other_rate:.1f}", sides))  # fmt: skip
    return format_table(rows)


def run(threads: int, rounds: int, *, large: bool, tick: Callable[[], None]) -> Iterator[Outcome]:
    """Measure the table, a case at a time; `tick` is called after every round of a shape."""
    for case in cases(best_coretype(threads), large=large):
        yield run_case(case, threads, rounds, tick)
