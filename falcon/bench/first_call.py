"""The time of a process's first call: ``python -m falcon.bench.first_call``.

Every measurement runs in a new process. On a "fresh machine" the cache folder is empty; a "later
process" finds what an earlier one has stored there. The first product of each is compared with the
median of the next ones, and so is NumPy's. Also measured are a fresh plan, and what a recalled call
takes longer than np.matmul. All figures are medians over the processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import falcon
from falcon._core.text import format_table

_REPEATS = 9
_PLANS = 60
# Recalled calls and calls of np.matmul, alternating.
_PAIRS = 3000
# Targets; "over the next": how much longer than a repeated call.
_TARGETS = {
    "fresh machine: first call minus the next, ms": 50.0,
    "later process: first call minus the next, ms": 20.0,
    "fresh plan, ms": 0.2,
    "recalled call minus np.matmul, us": 2.8,
}


def worker(size: int, dtype: str, library: str) -> dict[str, float]:
    """Measure in this process, which has done nothing yet."""
    some = np.random.default_rng(0).standard_normal(2**16).astype(dtype)
    a, b = np.resize(some, (size, size)), np.resize(some[::-1], (size, size))
    multiply: Callable[..., Any] = falcon.matmul if library == "falcon" else np.matmul
    times = []
    for _ in range(1 + _REPEATS):
        start = perf_counter()
        multiply(a, b)
        times.append(perf_counter() - start)
    found = {"first": times[0], "next": median(times[1:])}
    if library == "falcon":
        plans = []
        for fewer in range(1, _PLANS + 1):
            start = perf_counter()
            falcon.plan(a[fewer:], b)
            plans.append(perf_counter() - start)
        found |= {"plan": median(plans), "recall": _recalled()}
    return found


def _recalled() -> float:
    """Seconds that a recalled call takes longer than np.matmul."""
    a, out = np.ones((8, 8)), np.empty((8, 8))
    # A named backend: otherwise so small a call is not even looked up.
    falcon.gemm(a, a, out=out, backend="numpy")
    sides: tuple[list[float], list[float]] = ([], [])
    for _ in range(_PAIRS):
        start = perf_counter()
        falcon.gemm(a, a, out=out, backend="numpy")
        middle = perf_counter()
        np.matmul(a, a, out)
        sides[0].append(middle - start)
        sides[1].append(perf_counter() - middle)
    return median(sides[0]) - median(sides[1])


def measure(size: int, dtype: str, processes: int) -> dict[str, float]:
    """Return the figures: medians over that many processes of each kind."""
    runs: dict[str, list[dict[str, float]]] = {"fresh": [], "later": [], "numpy": []}
    for _ in range(processes):
        with tempfile.TemporaryDirectory(prefix="falcon-first-") as folder:
            runs["fresh"].append(_run(size, dtype, "falcon", folder))
            runs["later"].append(_run(size, dtype, "falcon", folder))
            runs["numpy"].append(_run(size, dtype, "numpy", folder))

    def typical(kind: str, of: Callable[[dict[str, float]], float]) -> float:
        return median(of(x) for x in runs[kind])

    fresh, later, plan, recall = _TARGETS
    return {
        fresh: 1e3 * typical("fresh", lambda x: x["first"] - x["next"]),
        later: 1e3 * typical("later", lambda x: x["first"] - x["next"]),
        plan: 1e3 * typical("later", lambda x: x["plan"]),
        recall: 1e6 * typical("later", lambda x: x["recall"]),
        "repeated call, ms": 1e3 * typical("later", lambda x: x["next"]),
        "np.matmul: first call minus the next, ms": 1e3
        * typical("numpy", lambda x: x["first"] - x["next"]),
        "np.matmul, repeated call, ms": 1e3 * typical("numpy", lambda x: x["next"]),
    }


def _run(size: int, dtype: str, library: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "falcon.bench.first_call", "--worker", library]
    command += ["--size", str(size), "--dtype", dtype]
    # With its own cache folder, and no pinned profile.
    own = {"FALCON_CACHE_DIR": folder, "FALCON_PROFILE": ""}
    done = subprocess.run(command, env=os.environ | own, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m falcon.bench.first_call", description=__doc__)
    parser.add_argument("--size", type=int, default=1500, help="M = N = K (default 1500)")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--processes", type=int, default=7, help="of each kind (default 7)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        print(json.dumps(worker(options.size, options.dtype, options.worker)))
        return 0
    found = measure(options.size, options.dtype, options.processes)
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    rows = [("", "measured", "target", "")]
    rows += [(name, f"{x:.3g}", f"{_TARGETS.get(name, '-')}", "") for name, x in found.items()]
    print(format_table(rows, left=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
