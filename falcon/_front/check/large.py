"""One product larger than the caches: some of its rows by their bounds, all by Freivalds' test."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core.cpus import memory_bytes
from falcon._core.dtypes import FLOAT32
from falcon._cpu.backend import cache_bytes
from falcon._front.gemm import gemm
from falcon._front.plan import plan
from falcon._front.planner import predicted
from falcon._front.verify import verify

from .exact import difference, norms
from .trial import Trial, sizes_of

# Bytes of the last-level cache where it is not known.
_USUAL_CACHE = 32 * 2**20
# Shares of the free memory: of the operands with the result, and of a workspace.
_OPERANDS, _WORKSPACE = 1 / 4, 1 / 8
_LONGEST = 4.0  # seconds that a product may be predicted to take
_LEAST = 300
_ROWS, _STRIP = 32, 512  # rows and columns that are compared at a time


def large(trial: Trial) -> None:
    """Multiply by what "auto" chooses, and by Strassen's scheme."""
    free = free_bytes()
    wanted = 1.5 * max(cache_bytes().get("l3", 0), _USUAL_CACHE)
    sizes = _sizes(min(wanted, _OPERANDS * free))
    while _seconds(sizes) > _LONGEST and sizes[2] > _LEAST:
        sizes = *sizes[:2], sizes[2] // 2
    M, N, K = sizes
    nbytes = 4 * (M * K + K * N + M * N)
    trial.about = f"{sizes_of(sizes)}, {nbytes // 2**20} MiB"
    if nbytes < wanted / 1.5:
        trial.about += ", which fits the caches"
    random = np.random.default_rng(sizes)
    a, b = (2 * random.random(x, np.float32) - 1 for x in ((M, K), (K, N)))
    limit = int(_WORKSPACE * free)
    engine = host_engine().name
    for scheme, backend in (("auto", "auto"), ("strassen", engine)):
        options: Any = {"scheme": scheme, "backend": backend, "workspace_limit": limit}
        chosen = plan(a, b, **options)
        where = {
            "backend": f"backend {chosen.backend.name}",
            "type": str(FLOAT32),
            "sizes": sizes_of(sizes),
            "scheme": chosen.label,
        }
        call, ratios_of = partial(gemm, a, b, **options), partial(_ratios, chosen, a, b)
        c = trial.near(where, call, ratios_of)
        if c is not None:
            said = verify(a, b, c, growth=chosen.growth)
            trial.note(where, f"Freivalds' test: {said.why}" if said.is_wrong else "")


def _sizes(nbytes: float) -> tuple[int, int, int]:
    """Return odd sizes, K about half as long as M and N, of so many bytes of float32."""
    n = max(int(sqrt(nbytes / 8)), _LEAST)
    return n // 2 * 2 + 3, n // 2 * 2 - 1, n // 4 * 2 + 1


def _seconds(sizes: tuple[int, int, int]) -> float:
    M, N, K = sizes
    return predicted(plan((M, K), (K, N), "float32", scheme="classical")).total


def _ratios(chosen: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return errors over bounds in some rows."""
    index = np.unique(np.linspace(0, len(a) - 1, _ROWS).astype(int))
    rows, columns = (norms(x, axis).astype(np.float64) for x, axis in ((a, 1), (b, 0)))
    # The largest norm too: it bounds all rows if nothing is scaled.
    bound = chosen.error_bound(np.append(rows[index], rows.max()), columns)[:-1]
    left, found = a[index].astype(np.float64), np.empty_like(bound)
    for start in range(0, len(columns), _STRIP):
        strip = slice(start, start + _STRIP)
        some = c[index, strip].astype(np.float64)
        found[:, strip] = np.abs(difference(some, left, b[:, strip].astype(np.float64)))
    return found / bound


def free_bytes() -> int:
    """Return the memory that this process can still have, as far as the system tells it."""
    found = [memory_bytes() or 4 * 2**30]
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", "rb") as file:
        line = next(x for x in file if x.startswith(b"MemAvailable"))
        found.append(int(line.split()[1]) * 1024)
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            used = 0
            with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            found.append(max(limit - used, 0))
    return min(found)
