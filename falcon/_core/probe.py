"""Probes of the machine: what a product takes here, found out within some milliseconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
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


def probed(
    call: Callable[[int], Callable[[], _Run]],
    seconds: Callable[[_Run], float],
    least: int,
    most: int,
) -> tuple[int, list[_Run]]:
    """Run products of a size that suits the machine.

    Parameters
    ----------
    call : callable
        Takes a size, returns a function that multiplies cubes of that size.
    seconds : callable
        Takes what that function returns, returns the seconds that it took.
    least, most : int
        Bounds of the size, multiples of 96 (as sizes between them are).

    Returns
    -------
    size : int
    runs : list
        What the function returned, without the first run.
    """
    wait_for_threads()
    run, size = call(least), least
    run()
    if most > least:
        size = size_of(RUN_SECONDS, 2 * least**3 / max(seconds(run()), 1e-6), least, most)
        run = call(size)
        run()
    start, runs = perf_counter(), [run(), run()]
    while (spent := perf_counter() - start) < _SECONDS[1]:
        first, second = sorted(map(seconds, runs))[:2]
        if spent >= _SECONDS[0] and len(runs) >= _LEAST_RUNS and second <= first * _AGREE:
            break
        runs.append(run())
    return size, runs


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
    if not hasattr(os, "sched_getaffinity"):
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
