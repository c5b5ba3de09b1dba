"""CPUs (by affinity and quota), their name, and memory (by cgroup limit) of this process."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]


class _Cpus(threading.local):
    """A thread's last answer, reused for `_CPUS_SECONDS`: the system call takes a microsecond."""

    count = 0
    until = 0.0


_cpus = _Cpus()
_CPUS_SECONDS = 0.01
_ROOT = Path("/")
# The default limit of a workspace, and the share of the memory that it may take.
_LARGEST_KEPT = 512 * 2**20
_MEMORY_SHARE = 32
# Without a limit, cgroups of version 1 tell the largest number of whole pages in 63 bits.
_UNLIMITED = 2**62


def usable_cpus() -> int:
    """CPUs in the thread's affinity mask, cut down to the cgroup's quota where there is one."""
    now = monotonic()
    if now >= _cpus.until:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        _cpus.count = max(1, min(cpus or 1, cpu_quota() or cpus or 1))
        _cpus.until = now + _CPUS_SECONDS
    return _cpus.count


def memory_bytes() -> int:
    """Bytes of memory: the machine's, or a limit of the cgroup or the process; 0 if unknown."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = 0
    limits = (memory, memory_limit(), *_process_limits())
    return min((x for x in limits if x and x > 0), default=0)


def kept_bytes() -> int:
    """Bytes of workspace that a call takes by default: 1/32 of the memory, at most 512 MiB."""
    memory = memory_bytes()
    return min(_LARGEST_KEPT, memory // _MEMORY_SHARE) if memory else _LARGEST_KEPT // 8


def _process_limits() -> list[int]:
    """Return the limits of this process's address space and data; -1 for none."""
    if resource is None:
        return []
    return [resource.getrlimit(x)[0] for x in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]


@cache  # read once, because every call needs it
def cpu_quota(root: Path = _ROOT) -> int | None:
    """Return the least quota of this process's cgroup and those above it, in whole CPUs.

    That is rounded up; None if there is no quota. `root`: the folder that holds /proc and /sys.
    """
    found = []
    # UTF-8: other codecs are imported when first used, for which a forked child may wait.
    for folder in _folders(root, "cpu"):
        for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            # The root of the tree has no such file; "max" and -1: no quota.
            with suppress(ArithmeticError, OSError, ValueError):
                text = " ".join((folder / x).read_text("utf-8") for x in files)
                quota, period = map(int, text.split())
                if quota > 0:
                    found.append(max(1, -(-quota // period)))
    return min(found, default=None)


@cache
def memory_limit(root: Path = _ROOT) -> int | None:
    """Return the least memory limit of this process's cgroup and those above it, in bytes."""
    found = []
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file, or "max"
                found.append(int((folder / name).read_text("utf-8")))
        # Of version 1: also the limits of groups above a container's, which it does not see.
        with suppress(LookupError, OSError, ValueError):
            words = (folder / "memory.stat").read_text("utf-8").split()
            found.append(int(words[words.index("hierarchical_memory_limit") + 1]))
    return min((x for x in found if x < _UNLIMITED), default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroups, of both versions, and of those above them."""
    try:
        groups = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    top = root / "sys/fs/cgroup"
    for line in groups:
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        is_second = number == "0" and not names
        if is_second or controller in names.split(","):
            parts = [x for x in path.split("/") if x not in ("", ".", "..")]
            for count in range(len(parts), -1, -1):
                yield (top if is_second else top / controller).joinpath(*parts[:count])


def cpu_model() -> str:
    """Marketing name of the CPU, if the system tells it."""
    found = _cpuinfo()
    return found.get("model name") or found.get("Model") or platform.processor()


def cpu_family() -> str:
    """Vendor and family number of an x86 CPU, such as "AuthenticAMD 26"; empty if unknown."""
    found = _cpuinfo()
    return f"{found.get('vendor_id', '')} {found.get('cpu family', '')}".strip()


@cache
def _cpuinfo() -> dict[str, str]:
    """Return what Linux tells of the first CPU, and of the machine (after all CPUs, on Arm)."""
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                found.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    return found
