"""Speed of falcon within other programs: after pauses, in turn with NumPy and torch, on busy CPUs.

``python -m falcon bench --beside``. In a tight loop a library is at its best, because its threads
are awake. Here single calls are timed after something else, and a tight loop in the same round.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import ENGINE, of
from falcon._core.options import thread_count
from falcon._core.text import format_table
from falcon._core.timing import REST_SECONDS, Record, Side, interleave, repeats_for, timed

from .workloads import Case, operands

# Types for which both NumPy and falcon have kernels.
DTYPES = tuple(x.name for x in ENGINE if x.has_blas)
SHAPES = ("334,1436,230", "512,512,512", "1024,1024,1024", "2048,2048,2048", "5000,512,5000")
# Milliseconds of the pause before a single call; in turn with other libraries only the first two.
RESTS = (1, 60, 1000)
TIGHT, ONE = "falcon, tight loop", "falcon, threads=1"
NUMPY = "NumPy, tight loop"
_PYTHON_THREADS = 4
_BUSY, _BUSY_ONE = "falcon, one CPU busy", "falcon, threads=1, one CPU busy"


class _Work:
    """Operands of a case, and the calls that are timed on them."""

    def __init__(self, case: Case) -> None:
        self.a, self.b = operands(case.shape, of(case.dtype).numpy, 1)
        self.out = np.empty((case.shape.M, case.shape.N), self.a.dtype)

    def falcon(self, threads: int | None = None, out: np.ndarray | None = None) -> None:
        falcon.gemm(
            self.a, self.b, backend="cpu", threads=threads, out=self.out if out is None else out
        )

    def numpy(self) -> None:
        np.matmul(self.a, self.b, out=self.out)

    def others(self) -> dict[str, Callable[[], Any]]:
        """Return the calls with which calls of falcon alternate."""
        found: dict[str, Callable[[], Any]] = {"np.matmul": self.numpy}
        if find_spec("torch"):
            import torch

            x, y = torch.from_numpy(self.a), torch.from_numpy(self.b)
            found["torch.mm"] = lambda: torch.mm(x, y)
        return found


def measure(case: Case, rounds: int) -> dict[str, Record]:
    """Time single calls in every condition, and tight loops, in `rounds` interleaved rounds."""
    work = _Work(case)
    sides = [
        _tight(TIGHT, work.falcon),
        _tight(ONE, partial(work.falcon, threads=1)),
        _tight(NUMPY, work.numpy),
    ]
    for milliseconds in RESTS:
        rest = milliseconds / 1000
        sides.append(_single(f"falcon after {milliseconds} ms", work.falcon, _sleeping(rest)))
    for name, other in work.others().items():
        for milliseconds in (0, *RESTS[:2]):
            rested = f" and {milliseconds} ms" if milliseconds else ""
            before = _then(other, _sleeping(milliseconds / 1000))
            sides.append(_single(f"falcon after {name}{rested}", work.falcon, before))
    sides.append(_single("NumPy after falcon", work.numpy, work.falcon))
    sides.append(Side(f"falcon, {_PYTHON_THREADS} Python threads", lambda _: _at_once(work)))
    found = interleave(sides, rounds, most=rounds, seconds=float("inf"))
    with _one_busy_cpu():
        alone = partial(work.falcon, threads=1)
        busy = [_tight(_BUSY, work.falcon), _tight(_BUSY_ONE, alone)]
        found += interleave(busy, rounds, most=rounds, seconds=float("inf"))
    return {record.name: record for record in found}


def _tight(name: str, call: Callable[[], Any]) -> Side:
    """Return a side that repeats the call without pause and takes the median."""

    def loop(_calls: int) -> float:
        first = timed(call)
        return median(timed(call) for _ in range(max(5, 2 * repeats_for(first))))

    return Side(name, loop)


def _single(name: str, call: Callable[[], Any], before: Callable[[], Any]) -> Side:
    def once(_calls: int) -> float:
        before()
        return timed(call)

    return Side(name, once, REST_SECONDS)


def _sleeping(seconds: float) -> Callable[[], None]:
    return lambda: time.sleep(seconds) if seconds else None


def _then(*calls: Callable[[], Any]) -> Callable[[], None]:
    def all_of_them() -> None:
        for call in calls:
            call()

    return all_of_them


def _at_once(work: _Work) -> float:
    """Seconds per call when several Python threads call at once."""
    outs = [np.empty_like(work.out) for _ in range(_PYTHON_THREADS)]
    calls = 4
    with ThreadPoolExecutor(_PYTHON_THREADS) as pool:

        def all_calls() -> None:
            list(pool.map(lambda i: work.falcon(out=outs[i % len(outs)]),
                          range(calls * len(outs))))  # fmt: skip

        return timed(all_calls) / (calls * len(outs))


@contextmanager
def _one_busy_cpu() -> Iterator[None]:
    """Run another process that keeps one CPU busy."""
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()


def _base(name: str) -> str:
    """Return what a condition is compared with: the same library in a tight loop."""
    if name.startswith("NumPy"):
        return NUMPY
    return _BUSY_ONE if name == _BUSY else TIGHT


def document(case: Case, found: dict[str, Record]) -> dict[str, Any]:
    """Return all that was measured, for JSON."""
    return {
        "shape": case.shape.sizes(),
        "dtype": case.dtype,
        "threads": thread_count(),
        "seconds": {name: record.seconds for name, record in found.items()},
        "over": {
            name: {"base": _base(name), **record.over(found[_base(name)]).document()}
            for name, record in found.items()
        },
    }


def table(case: Case, found: dict[str, Record]) -> str:
    """One row per condition: speed, speed-up over the tight loop and over one thread.

    The latter is that of the slowest twentieth of the calls. With one CPU busy, the base is one
    thread with that CPU busy, instead of the tight loop.
    """
    one = found[ONE].median
    rows = [(f"{case.shape} {case.dtype}, {thread_count()} threads", "GFLOP/s", "vs tight loop",
             "threads=1 / slowest 5 %", "")]  # fmt: skip
    for name, record in found.items():
        times = sorted(record.seconds)
        late = times[min(len(times) - 1, int(0.95 * len(times)))]
        base = found[_base(name)]
        rows.append(
            (
                name,
                f"{case.shape.flops / record.median / 1e9:.0f}",
                "" if record is base else str(record.over(base)),
                "" if name.startswith("NumPy") else f"{one / late:.2f}",
                "",
            )
        )
    return format_table(rows)
