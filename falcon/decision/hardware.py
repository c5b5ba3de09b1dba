"""The CPU's name and family."""

from __future__ import annotations

import platform


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


def cpu_family() -> str:
    """Vendor and family number of an x86 CPU, such as "AuthenticAMD 26"; empty if unknown."""
    found = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = (x.strip() for x in line.partition(":"))
                if name in ("vendor_id", "cpu family"):
                    found[name] = value
                if len(found) == 2:
                    return f"{found['vendor_id']} {found['cpu family']}"
    except OSError:
        pass
    return ""
