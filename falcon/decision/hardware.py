"""The CPU's name and family."""

from __future__ import annotations

import platform
from functools import cache


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
