"""Probes of the machine: what a product takes here, found out within some milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from sys import platform
from threading import get_native_id
from time import perf_counter, sleep
from typing import TypeVar

_Run = TypeVar("_Run")

# Seconds of a run, and of all: after the first number the probe ends if the two fastest runs agree
# (then nothing has disturbed them), else after the second.
RUN_SECONDS = 0.002
_SECONDS = 0.007, 0.025
_LEAST_RUNS = 3
_AGREE = 1.03
# Seconds that a probe waits for other threads of the process to fall asleep.
_MOST_WAIT = 0.08


def probed(run: Callable[[], _Run], seconds: Callable[[_Run], float]) -> list[_Run]:
    """Run a product some times, after a first time that does not count.

    Before the first product of a probe, `wait_for_threads`; not between, since threads of the
    library that is probed may spin too.

    Parameters
    ----------
    run : callable
        Multiplies.
    seconds : callable
        Takes what `run` returns, returns the seconds that it took.

    Returns
    -------
    list
        What `run` returned, at least twice.
    """
    run()
    start, runs = perf_counter(), [run(), run()]
    while (spent := perf_counter() - start) < _SECONDS[1]:
        first, second = sorted(map(seconds, runs))[:2]
        if spent >= _SECONDS[0] and len(runs) >= _LEAST_RUNS and second <= first * _AGREE:
            break
        runs.append(run())
    return runs


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
    if platform != "linux":
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
