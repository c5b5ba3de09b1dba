"""Where the time of a call goes, stage by stage, as the engine itself counts it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from falcon._core.dtypes import of
from falcon.schemes import Scheme

from .backend import isa
from .extension import seen

try:
    from . import _core
    from .pool import kept_bytes
    from .programs import engine_scheme
except ImportError:
    _core = None  # type: ignore[assignment]

# As the engine's profile names them, and as the cost model does.
STAGES = {
    "combine_a": "combine A",
    "combine_b": "combine B",
    "gemm": "multiply",
    "update": "combine H",
    "wait": "wait",
}
_REST_SECONDS = 0.05


def cache_bytes() -> dict[str, int]:
    """Bytes of the caches ``l1d``, ``l2`` (per core) and ``l3`` (as shared); empty if unknown."""
    if _core is None:
        return {}
    return {name: size for name, size in _core.cache_sizes().items() if name != "l3_sharers"}


def stage_seconds(
    a: np.ndarray, b: np.ndarray, scheme: Scheme | None, threads: int, rounds: int = 3
) -> dict[str, Any]:
    """Profile the fastest of some calls.

    Parameters
    ----------
    a, b : ndarray, shapes (M, K), (K, N), of a type that the engine multiplies
    scheme : Scheme or None
        None: the classical algorithm.
    threads : int
    rounds : int
        Calls, after an untimed one.

    Returns
    -------
    dict
        ``total`` seconds; ``stages``: seconds of each, the mean over the threads; ``workspace`` in
        bytes; ``passes``.

    Raises
    ------
    RuntimeError
        falcon's compiled extension is missing.
    """
    if _core is None:
        raise RuntimeError("falcon's compiled extension is missing")
    (M, K), N = a.shape, b.shape[1]
    dtype = of(a.dtype)
    a, b, out = (seen(x, dtype) for x in (a, b, np.empty((M, N), a.dtype)))
    engine = engine_scheme(scheme)
    call = {"threads": threads, "isa": isa(), "scheme": engine}
    tiling, nbytes = _core.plan(M, N, K, dtype.engine, limit=kept_bytes(), **call)
    workspace = _core.Workspace(nbytes)
    runs = []
    for _ in range(rounds + 1):
        time.sleep(_REST_SECONDS)
        runs.append(
            _core.gemm(a, b, out, blocking=tiling, workspace=workspace, profile=True, **call)
        )
    best = min(runs[1:], key=lambda run: run["total"])
    stages = {name: best[key] / best["threads"] for key, name in STAGES.items()}
    return {
        "total": best["total"],
        "stages": stages,
        "workspace": best["workspace"],
        "passes": best["passes"],
    }
