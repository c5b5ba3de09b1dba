"""What this process may use of the machine: CPUs by affinity and quota, memory."""

from __future__ import annotations

import os
import threading
from functools import cache
from time import monotonic


class _Cpus(threading.local):
    """What a thread was told last, till it asks again: the question takes a microsecond."""

    count = 0
    until = 0.0


_cpus = _Cpus()
_CPUS_SECONDS = 0.01


def usable_cpus() -> int:
    """CPUs in the thread's affinity mask, cut down to the cgroup's quota where there is one."""
    now = monotonic()
    if now >= _cpus.until:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        _cpus.count = max(1, min(cpus or 1, _cpu_quota() or cpus or 1))
        _cpus.until = now + _CPUS_SECONDS
    return _cpus.count


@cache
def _cpu_quota() -> int | None:
    """CPUs by the cgroup's quota, rounded up; read once, because every call asks."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no cgroup v2, or "max": no quota
        return None


def memory_bytes() -> int:
    """Bytes of the machine's memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
