"""Probes of the machine: what a product takes here, found out within some milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import get_native_id
from time import perf_counter, sleep

if sys.platform != "win32":
    from resource import RUSAGE_SELF, getrusage

# Seconds of a run, and of all: after the first number the probe ends if nothing has disturbed the
# fastest run and another agrees, after the second if nothing has disturbed the fastest, else after
# the third.
RUN_SECONDS = 0.002
_SECONDS = 0.007, 0.025, 0.075
_LEAST_RUNS = 3
_AGREE = 1.03
# Seconds that a probe waits for other threads of the process to fall asleep.
_MOST_WAIT = 0.08


@dataclass(frozen=True, slots=True)
class Probe:
    """Seconds of the fastest run, and whether other programs took a CPU away from every such run.

    Runs that take at most 3 % longer count as such. Where the system does not tell of CPUs that are
    taken away (Windows, and a virtual machine's own), `disturbed` is false.
    """

    seconds: float
    disturbed: bool


def probed(run: Callable[[], float]) -> Probe:
    """Run a product some times, after a first time that does not count.

    Before the first product of a probe, `wait_for_threads`; not between, since threads of the
    library that is probed may spin too.

    Parameters
    ----------
    run : callable
        Multiplies, and returns the seconds that it took.
    """
    run()
    start, runs = perf_counter(), [_watched(run), _watched(run)]
    while not _is_enough(runs, perf_counter() - start):
        runs.append(_watched(run))
    return _best(runs)


def _is_enough(runs: list[tuple[float, bool]], spent: float) -> bool:
    if spent >= _SECONDS[2]:
        return True
    first, second = sorted(time for time, _ in runs)[:2]
    soon = spent >= _SECONDS[0] and len(runs) >= _LEAST_RUNS and second <= first * _AGREE
    return (soon or spent >= _SECONDS[1]) and not _best(runs).disturbed


def _watched(run: Callable[[], float]) -> tuple[float, bool]:
    """Return the seconds of a run, and whether it lost a CPU."""
    before = _losses()
    return run(), _losses() > before


def _losses() -> int:
    """Return how often the system has taken a CPU away from a thread of this process."""
    return 0 if sys.platform == "win32" else getrusage(RUSAGE_SELF).ru_nivcsw


def _best(runs: list[tuple[float, bool]]) -> Probe:
    least = min(time for time, _ in runs)
    return Probe(least, all(lost for time, lost in runs if time <= least * _AGREE))


def size_of(seconds: float, rate: float, least: int, most: int) -> int:
    """Return the size of cubes that take some seconds at a rate in flop/s, a multiple of 96."""
    return int(min(max((seconds * rate / 2) ** (1 / 3), least), most)) // 96 * 96


def wait_for_threads() -> None:
    """Wait until no other thread of this process runs, at most 80 ms (on Linux).

    Threads of OpenBLAS spin for some 60 ms after a product; a probe in that time would find other
    libraries half as fast as they are.
    """
    end = perf_counter() + _MOST_WAIT
    while _others_run() and perf_counter() < end:
        sleep(0.002)


def _others_run() -> bool:
    if sys.platform != "linux":
        return False
    own = str(get_native_id())
    try:
        states = [
            (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
            for task in Path("/proc/self/task").iterdir()
            if task.name != own
        ]
    except (OSError, IndexError):  # no such files, or a thread ended
        return False
    return b"R" in states
