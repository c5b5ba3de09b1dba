"""The machine that a measurement ran on, and how busy it was with other things."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import falcon
from falcon._core.options import thread_count
from falcon._cpu.backend import cache_bytes
from falcon._front.info import cpu_model, numpy_held

# If other work takes a larger share of the processors than this, figures cannot be trusted.
BUSY = 0.1
_LOAD_SECONDS = 0.3


def describe_machine() -> dict[str, Any]:
    """Return processor, caches, memory, system and versions for the record file."""
    memory = None
    with suppress(AttributeError, ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_model(),
        "cpus": thread_count(),
        "caches": cache_bytes(),
        "memory": memory,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numpy_held": numpy_held(),
    }


def describe_falcon() -> dict[str, Any]:
    """Return falcon's version and, if it runs from a repository, its commit."""
    folder = Path(falcon.__file__).parent
    found: dict[str, Any] = {"version": falcon.__version__, "commit": None, "modified": None}
    with suppress(OSError, subprocess.CalledProcessError):
        found["commit"] = _git(folder, "rev-parse", "--short=10", "HEAD")
        found["modified"] = bool(_git(folder, "status", "--porcelain", "--", "."))
    return found


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def load() -> dict[str, Any]:
    """Measure how busy the machine is with other work, while falcon runs nothing (0.3 s).

    Returns dict: ``average``: load average over a minute, which counts our own work too; ``busy``
    and ``stolen``: shares of the processors' time that went to other processes and, on a virtual
    machine, to other virtual machines. None if the system does not tell them.
    """
    found: dict[str, Any] = {"average": None, "busy": None, "stolen": None}
    with suppress(OSError, AttributeError):
        found["average"] = round(os.getloadavg()[0], 2)
    try:
        import psutil
    except ImportError:
        return found
    before = psutil.cpu_times()
    time.sleep(_LOAD_SECONDS)
    after = psutil.cpu_times()
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    # guest time is counted as user time already
    total = sum(spent.values()) - spent.get("guest", 0) - spent.get("guest_nice", 0)
    if total > 0:
        stolen = spent.get("steal", 0.0)
        idle = spent["idle"] + spent.get("iowait", 0.0)
        found["stolen"] = round(stolen / total, 3)
        found["busy"] = round(max(0.0, 1 - (idle + stolen) / total), 3)
    return found
