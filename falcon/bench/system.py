"""The machine, the process and the falcon that a measurement ran on."""

from __future__ import annotations

import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import falcon
from falcon._core.options import thread_count
from falcon._cpu.backend import cache_bytes
from falcon._front.info import machine_used
from falcon._numpy.rates import blas_name, held
from falcon._tools.cpus import cpu_model, memory_bytes


def describe_machine() -> dict[str, Any]:
    """Return processor, caches, memory, system and versions for the record file."""
    return {
        "cpu": cpu_model(),
        "cpus": thread_count(),
        "caches": cache_bytes(),
        "numpy_blas": blas_name(),
        "numpy_held": held(),
        "rates_of": machine_used(),
        "memory": memory_bytes() or None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def process_bytes(field: str) -> int | None:
    """Return the resident set of this process (VmRSS), or its peak (VmHWM); only Linux tells it."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        line = re.search(rf"^{field}:\s*(\d+) kB", file.read(), re.MULTILINE)
        return int(line[1]) * 1024 if line else None
    return None


def reset_peak() -> None:
    """Let the peak of `process_bytes` begin anew, on Linux."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def describe_falcon() -> dict[str, Any]:
    """Return falcon's version and, if it runs from a repository, its commit."""
    folder = Path(falcon.__file__).parent
    about: dict[str, Any] = {"version": falcon.__version__, "commit": None, "modified": None}
    with suppress(OSError, subprocess.CalledProcessError):
        about["commit"] = _git(folder, "rev-parse", "--short=10", "HEAD")
        about["modified"] = bool(_git(folder, "status", "--porcelain", "--", "."))
    return about


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
