"""CPUs (by affinity and quota) and memory (by cgroup limit) that this process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import monotonic

# cgroup v1 reports no limit as the largest multiple of the page size in 64 bits.
_NO_LIMIT = 2**60


class _Cpus(threading.local):
    """A thread's last answer, reused for `_CPUS_SECONDS`: the system call takes a microsecond."""

    count = 0
    until = 0.0


_cpus = _Cpus()
_CPUS_SECONDS = 0.01


# The default limit of a workspace, and the share of the memory that it may take.
_LARGEST_KEPT = 512 * 2**20
_MEMORY_SHARE = 32


def usable_cpus() -> int:
    """CPUs in the thread's affinity mask, cut down to the cgroup's quota where there is one."""
    now = monotonic()
    if now >= _cpus.until:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        _cpus.count = max(1, min(cpus or 1, _cpu_quota() or cpus or 1))
        _cpus.until = now + _CPUS_SECONDS
    return _cpus.count


def memory_bytes() -> int:
    """Bytes of memory: the machine's, or the limit of the cgroup; 0 if unknown."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = 0
    limit = _memory_limit()
    return min(memory or limit, limit) if limit is not None else memory


def kept_bytes() -> int:
    """Bytes of workspace that a call takes by default: 1/32 of the memory, at most 512 MiB."""
    memory = memory_bytes()
    return min(_LARGEST_KEPT, memory // _MEMORY_SHARE) if memory else _LARGEST_KEPT // 8


@cache
def _cpu_quota() -> int | None:
    """CPUs by the cgroup's quota, rounded up; read once, because every call needs it."""
    return cpu_quota(Path("/"))


@cache
def _memory_limit() -> int | None:
    return memory_limit(Path("/"))


def cpu_quota(root: Path) -> int | None:
    """Return the least quota of this process's cgroup and those above it, in whole CPUs.

    Returns None if there is no quota. `root` is the folder that holds /proc and /sys.
    """
    found = []
    for folder in _folders(root, "cpu"):
        try:
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text("ascii").split()
            else:
                quota, period = (
                    (folder / f"cpu.cfs_{name}_us").read_text("ascii")
                    for name in ("quota", "period")
                )
            if quota != "max" and int(quota) > 0 and int(period) > 0:
                found.append(-(-int(quota) // int(period)))
        except (OSError, ValueError):  # the root of the tree has no such file
            continue
    return min(found, default=None)


def memory_limit(root: Path) -> int | None:
    """Return the least memory limit of this process's cgroup and those above it, in bytes."""
    found = []
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            try:
                found.append(int((folder / name).read_text("ascii")))
            except (OSError, ValueError):  # a file of the other cgroup version, or "max"
                continue
    return min((x for x in found if 0 < x < _NO_LIMIT), default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and of those above it, for v2 and v1.

    ``/proc/self/cgroup`` gives the path of the group in the hierarchy; ``mountinfo`` tells which
    part of the hierarchy is mounted where. In a container, often only the group itself is mounted.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
        mounts = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    path_of: dict[str, str] = {}
    for line in groups:
        _, names, path = [*line.split(":", 2), "", ""][:3]
        path_of |= dict.fromkeys(names.split(","), path)  # v2 has the name ""
    for line in mounts:
        fields, _, kind = line.partition(" - ")
        about, system = fields.split(), kind.split()
        if len(about) < 5 or not system or system[0] not in ("cgroup", "cgroup2"):
            continue
        name = "" if system[0] == "cgroup2" else controller
        if name not in path_of or (name and name not in system[-1].split(",")):
            continue
        top = root / about[4].lstrip("/")
        inside = path_of[name]
        if about[3] != "/" and (inside + "/").startswith(about[3] + "/"):
            inside = inside[len(about[3]) :]
        parts = [x for x in inside.split("/") if x not in ("", ".", "..")]
        for count in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:count])
