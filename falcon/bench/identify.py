"""Which library, version and kernels a peer really runs, and how that is known.

Of a library that has no interface for this, the log is read (MKL_VERBOSE, ONEDNN_VERBOSE), and the
names of the kernel libraries that MKL has loaded.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from falcon._core.dtypes import of
from falcon._core.text import format_table

from .peers import Peer, environment_of

_VERBOSE = {"MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
# The kernel libraries that MKL loads, depending on the processor.
_MKL_KERNELS = {"def": "generic", "mc3": "SSE4.2", "avx2": "AVX2", "avx512": "AVX-512"}
_MODULES = {"torch": "torch", "onednn": "torch", "torch cuda": "torch", "cupy": "cupy",
            "falcon gpu": "cupy"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Identity:
    """The library of a peer on this machine.

    Attributes
    ----------
    peer : str
    absent : str
        Why it cannot run here, with the command that installs it; empty if it can.
    library, version : str
    kernels : dict of dtype name to str
        Kernel architecture, if the library tells it.
    threads : int or None
    evidence : str
        How the kernels are known.
    environment : dict of dtype name to dict
        Variables that were set for it.
    """

    peer: str
    absent: str = ""
    library: str = ""
    version: str = ""
    kernels: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    evidence: str = ""
    environment: dict[str, dict[str, str]] = field(default_factory=dict)


def identify(peer: Peer, dtypes: list[str], threads: int) -> Identity:
    """Run a peer once per dtype in a process that logs what it does, and read the log."""
    environment = {dtype: dict(peer.environment) for dtype in dtypes}
    module = _MODULES.get(peer.adapter)
    if module is not None and find_spec(module) is None:
        return Identity(peer.name, f"not installed: {peer.install}")
    done = subprocess.run(
        [sys.executable, "-m", "falcon.bench.worker", peer.adapter, "--probe", ",".join(dtypes)],
        env=environment_of(peer, threads, _VERBOSE), capture_output=True, text=True, check=False,
    )  # fmt: skip
    first = done.stdout.split("\n", 1)[0]
    if first.startswith('{"absent"'):
        return Identity(peer.name, f"{json.loads(first)['absent']}: {peer.install}")
    log, described = read_log(done.stdout)
    if described is None:
        return Identity(peer.name, f"its process ended with status {done.returncode}")
    whole = [line for lines in log.values() for line in lines]
    library, version, evidence = _library(peer.adapter, whole, described)
    processors = _mkl_loaded(described) or _mkl_processors(whole)
    kernels = {
        dtype: _kernel(peer.adapter, dtype, described) or kernel_from_log(lines, processors)
        for dtype, lines in log.items()
    }
    count = described.get("threads")
    for pool in described["pools"]:
        if count is None and pool["internal_api"] in ("openblas", "mkl"):
            count = pool["num_threads"]
    if peer.adapter.startswith("falcon"):
        count = threads
    return Identity(peer.name, "", library, version, kernels, count, evidence, environment)


def read_log(text: str) -> tuple[dict[str, list[str]], dict[str, Any] | None]:
    """Split a probe's output into lines per dtype and the description at its end."""
    log: dict[str, list[str]] = {}
    described, current = None, None
    for line in text.splitlines():
        if line.startswith("probe begin "):
            current = log.setdefault(line.split(" ", 2)[2], [])
        elif line.startswith("probe end "):
            current = None
        elif line.startswith("probe described "):
            described = json.loads(line.split(" ", 2)[2])
        elif current is not None:
            current.append(line)
    return log, described


def _library(adapter: str, lines: list[str], described: dict[str, Any]) -> tuple[str, str, str]:
    if adapter == "numpy":
        for pool in described["pools"]:
            if "numpy" in pool["filepath"] and pool["internal_api"] != "openmp":
                version = f"{described['numpy']} ({pool['internal_api']} {pool['version']})"
                return "NumPy", version, "threadpoolctl"
        return "NumPy", described["numpy"], "threadpoolctl knows no BLAS of NumPy"
    if adapter == "mkl":
        evidence = "MKL_VERBOSE" + (", libraries loaded" if _mkl_loaded(described) else "")
        return "oneMKL", _mkl_version(lines), evidence
    if adapter == "torch":
        return "PyTorch mm", described["torch"], "MKL_VERBOSE, ONEDNN_VERBOSE"
    if adapter == "onednn":
        found = re.search(r"oneDNN v([\d.]+)", "\n".join(lines))
        version = f"{found[1] if found else '?'} (PyTorch {described['torch']})"
        return "oneDNN", version, "ONEDNN_VERBOSE"
    if adapter in ("cupy", "torch cuda"):
        name = "CuPy matmul" if adapter == "cupy" else "PyTorch mm"
        version = described.get("cupy") or described["torch"]
        return f"{name}, cuBLAS", f"{version} (cuBLAS {described['cublas']})", "the library"
    return "falcon", described["falcon"], "falcon.show_config"


def _kernel(adapter: str, dtype: str, described: dict[str, Any]) -> str:
    """Return the kernels of a library that can be asked; empty for those that only log."""
    if adapter == "numpy":
        for pool in described["pools"]:
            if "numpy" in pool["filepath"] and pool.get("architecture"):
                return pool["architecture"]
        return "?"
    if adapter in ("cupy", "torch cuda", "falcon gpu"):
        return described["device"]
    if adapter.startswith("falcon"):
        return described["kernels"].get(f"{of(dtype).engine} kernel", "NumPy's BLAS")
    return ""


def kernel_from_log(lines: list[str], processors: str) -> str:
    """Return the kernel of the last product that MKL or oneDNN has logged.

    Parameters
    ----------
    lines : list of str
        The log.
    processors : str
        What is known of MKL's kernels, which its log does not name.
    """
    for line in reversed(lines):
        found = re.match(r"onednn_verbose,.*?exec,cpu,(?:inner_product|matmul),([^,]+)", line)
        if found:
            return f"oneDNN {found[1]}"
        if re.match(r"MKL_VERBOSE \w*GEMM\w*\(", line):
            return f"MKL {processors}"
    return "?"


def _mkl_loaded(described: dict[str, Any]) -> str:
    for name in described["loaded"]:
        found = re.match(r"(libmkl_(def|mc3|avx2|avx512)\w*)\.so", name)
        if found:
            return f"{_MKL_KERNELS[found[2]]} ({found[1]})"
    return ""


def _mkl_processors(lines: list[str]) -> str:
    """Return the processor that MKL logs, once per process; its kernels may be linked in."""
    found = re.search(r"MKL_VERBOSE .* architecture (.*?),", "\n".join(lines))
    return f'for "{found[1]}"' if found else "?"


def _mkl_version(lines: list[str]) -> str:
    found = re.search(r"MKL_VERBOSE oneMKL (\S+)(?: Update (\d+))?", "\n".join(lines))
    return ".".join(filter(None, found.groups())) if found else "?"


def format_identities(found: list[Identity]) -> str:
    """Return the table of peers, and a line of those that are absent with how to install them."""
    rows = [("peer", "library", "version", "threads", "kernels")]
    absent = "; ".join(f"{x.peer} ({x.absent})" for x in found if x.absent)
    for x in found:
        if x.absent:
            continue
        kernels = "; ".join(f"{dtype}: {kernel}" for dtype, kernel in x.kernels.items())
        if len(set(x.kernels.values())) == 1:
            kernels = next(iter(x.kernels.values()))
        rows.append((x.peer, x.library, x.version, str(x.threads or "?"),
                     f"{kernels}  {format_settings(x.environment)}".rstrip()))  # fmt: skip
    return format_table(rows, left=3) + (f"\nabsent: {absent}" if absent else "")


def format_settings(environment: dict[str, dict[str, str]]) -> str:
    """Return the variables that were set, only once if they are the same for every dtype."""
    words = {k: " ".join(f"{x}={y}" for x, y in v.items()) for k, v in environment.items()}
    if len(set(words.values())) <= 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{dtype}: {word}" for dtype, word in words.items())
