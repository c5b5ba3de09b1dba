"""Where the time of a call goes, stage by stage, as the engine itself counts it."""

from __future__ import annotations

from statistics import median
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


def cache_bytes() -> dict[str, int]:
    """Bytes of the caches ``l1d``, ``l2`` (per core) and ``l3`` (as shared); empty if unknown."""
    if _core is None:
        return {}
    return {name: size for name, size in _core.cache_sizes().items() if name != "l3_sharers"}


class StageProfile:
    """Multiplies with the engine's own clock on; keeps what each call took, stage by stage.

    Parameters
    ----------
    a, b : ndarray, shapes (M, K), (K, N), of a type that the engine multiplies
    scheme : Scheme or None
        None: the classical algorithm.
    threads : int

    Raises
    ------
    RuntimeError
        falcon's compiled extension is missing.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray, scheme: Scheme | None, threads: int) -> None:
        if _core is None:
            raise RuntimeError("falcon's compiled extension is missing")
        (M, K), N = a.shape, b.shape[1]
        call = {"threads": threads, "isa": isa(), "scheme": engine_scheme(scheme)}
        dtype = of(a.dtype)
        tiling, nbytes = _core.plan(M, N, K, dtype.engine, limit=kept_bytes(), **call)
        self._arrays = [seen(x, dtype) for x in (a, b, np.empty((M, N), a.dtype))]
        self._call = {**call, "blocking": tiling, "workspace": _core.Workspace(nbytes)}
        self.runs: list[dict[str, Any]] = []

    def seconds(self, calls: int) -> float:
        """Return the seconds of the fastest of some calls, which is kept."""
        found = [_core.gemm(*self._arrays, profile=True, **self._call) for _ in range(calls)]
        self.runs.append(min(found, key=lambda run: run["total"]))
        return max(self.runs[-1]["total"], 1e-9)

    def summary(self) -> dict[str, Any]:
        """Return ``stages``, ``workspace`` in bytes and ``passes``.

        Stages are medians of the kept calls, in seconds, each call's being the mean over its
        threads.
        """
        stages = {
            name: median(run[key] / run["threads"] for run in self.runs)
            for key, name in STAGES.items()
        }
        last = self.runs[-1]
        return {"stages": stages, "workspace": last["workspace"], "passes": last["passes"]}
