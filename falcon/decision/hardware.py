"""The CPU's name and cache sizes, and the measured speed of its caches, memory and threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

# Cache sizes in bytes where the system does not tell them.
_FALLBACK_CACHES = {"l2": 2**20, "l3": 2**25}
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Streaming:
    """Bandwidth that a number of threads reach together, bytes/s.

    Attributes
    ----------
    threads : int
    read, copy : dict of str to float
        Per level ("L2", "L3", "memory"): a matrix read once (a maximum), and bytes read plus bytes
        written of a copy.
    region : float
        Seconds to give each of that many waiting threads an empty task and wait for all.
    """

    threads: int
    read: dict[str, float]
    copy: dict[str, float]
    region: float


def cpu_model() -> str:
    """Marketing name of the CPU, if the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cache_sizes() -> dict[str, int]:
    """Bytes of L1d, L2 and L3 of the first CPU, if the system tells them (Linux)."""
    sizes: dict[str, int] = {}
    folder = "/sys/devices/system/cpu/cpu0/cache"
    try:
        for index in sorted(os.listdir(folder)):
            if not index.startswith("index"):
                continue
            level, kind, size = (
                _read(f"{folder}/{index}/{name}") for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                sizes["l1d" if level == "1" else f"l{level}"] = int(size.rstrip("K")) * 1024
    except (OSError, ValueError):
        pass
    return sizes


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def streaming(threads: int) -> Streaming:
    """Measure `Streaming` for a number of threads (about 0.3 s)."""
    caches = {**_FALLBACK_CACHES, **cache_sizes()}
    # Bytes per thread, of the source and of the target of a copy. Both together are half of L2; for
    # all threads a third of L3; and far more than L3.
    sizes = {
        "L2": caches["l2"] // 4,
        "L3": caches["l3"] // (6 * threads),
        "memory": max(2 * caches["l3"], 2**26) // threads,
    }
    read, copy = {}, {}
    with ThreadPoolExecutor(threads) as pool:
        region = min(_seconds(pool, [_nothing] * threads) for _ in range(50))
        for level, size in sizes.items():
            pairs = [np.ones((2, max(size, 4096) // 8)) for _ in range(threads)]
            passes = max(1, 2**22 // size)  # so that a call takes longer than handing it over
            total = passes * threads * pairs[0][0].nbytes
            sums = [partial(_read_often, x[0], passes) for x in pairs]
            copies = [partial(_copy_often, x, passes) for x in pairs]
            read[level] = total / min(_seconds(pool, sums) for _ in range(_ROUNDS))
            copy[level] = 2 * total / min(_seconds(pool, copies) for _ in range(_ROUNDS))
    return Streaming(threads, read, copy, region)


def _nothing() -> None:
    pass


def _read_often(x: np.ndarray, passes: int) -> None:
    for _ in range(passes):
        x.max()


def _copy_often(pair: np.ndarray, passes: int) -> None:
    for _ in range(passes):
        np.copyto(pair[1], pair[0])


def _seconds(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], None]]) -> float:
    start = perf_counter()
    for done in [pool.submit(call) for call in calls]:
        done.result()
    return perf_counter() - start
