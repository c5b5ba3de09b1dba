"""Peers: other libraries, each at a stated setting, run in worker processes of their own.

To add one: an adapter and what it says of itself in `adapters`, and a line in `TABLE`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from falcon._core import dtypes
from falcon._core.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, of
from falcon._core.timing import Side, interleave

from .compare import SideError
from .operands import shared
from .workloads import Shape

# Candidates for OPENBLAS_CORETYPE on x86; the fastest on this machine is found by trying.
_CORETYPES = ("SkylakeX", "Cooperlake", "Sapphirerapids", "Zen", "Haswell")
_TRIAL = Shape(1536, 1536, 1536)
_TRIAL_ROUNDS = 3
# The value of a variable whose best value is found by trying, before the peer runs.
BEST = "?"


@dataclass(frozen=True, slots=True)
class Peer:
    """One entry of the table: which adapter, under which environment."""

    name: str  # the name that is printed
    adapter: str  # key of `falcon.bench.adapters.ADAPTERS`
    dtypes: tuple[str, ...]  # names of the types that it multiplies
    install: str  # the command that installs it
    # Set before the library is loaded; the value "?" is found by trying.
    environment: dict[str, str] = field(default_factory=dict)

    def multiplies(self, dtype: np.dtype) -> bool:
        """Whether the peer has a product of that dtype."""
        return of(dtype).name in self.dtypes


_BLAS = tuple(row.name for row in dtypes.TABLE if row.has_blas)
# Small types for which libraries have products, with wider sums.
_SMALL = (FLOAT16.name, BFLOAT16.name, INT8.name)
FALCON = Peer("falcon", "falcon", (*_BLAS, *_SMALL), "")
TABLE = (
    Peer("numpy", "numpy", _BLAS, "pip install numpy"),
    Peer("numpy (best kernels)", "numpy", _BLAS, "pip install numpy", {"OPENBLAS_CORETYPE": BEST}),
    Peer("mkl", "mkl", (*_BLAS, *_SMALL[1:]), "pip install mkl"),
    Peer("torch", "torch", (*_BLAS, *_SMALL), "pip install torch"),
    Peer("onednn", "onednn", (FLOAT32.name,), "pip install torch"),
)


def falcon_peer(name: str, adapter: str = "falcon", **settings: Any) -> Peer:
    """Return falcon as a side of a comparison; settings have their names in `falcon.config`."""
    variables = {f"FALCON_{key.upper()}": str(x) for key, x in settings.items() if x is not None}
    return replace(FALCON, name=name, adapter=adapter, environment=variables)


class AbsentError(Exception):
    """The peer's library is not installed."""


class Worker:
    """A running peer; a context manager that ends the process.

    Raises AbsentError: the library is not installed (the message holds the command that installs
    it).
    Raises SideError: it failed.
    """

    def __init__(self, peer: Peer, threads: int) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            [sys.executable, "-m", "falcon.bench.worker", peer.adapter],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment_of(peer, threads),
        )  # fmt: skip
        absent = self._read()["absent"]
        if absent:
            self.close()
            raise AbsentError(f"{absent}: {peer.install}")

    def ask(self, do: str, **request: Any) -> Any:
        """Send a request; return what the method of `worker.Server` returned."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # there is no reply then
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        reply = self._read()
        if "failed" in reply:
            raise SideError(self.peer.name, reply["failed"])
        return reply["done"]

    def seconds(self, repeats: int = 1) -> float:
        """Time the fastest of some calls."""
        return self.ask("time", repeats=repeats)

    def close(self) -> None:
        """End the process, at once: it may be stuck in a call."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideError(self.peer.name, "its process ended unexpectedly")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def environment_of(peer: Peer, threads: int) -> dict[str, str]:
    """Return the environment of a peer's process: ours, with its threads and its settings."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    chosen = {name: x for name, x in peer.environment.items() if x != BEST}
    return {**os.environ, **dict.fromkeys(names, str(threads)), **chosen}


def identify(peer: Peer, dtypes: list[str], threads: int) -> dict[str, Any]:
    """Return a record file's entry of a peer: what it is here, or why it is absent."""
    found: dict[str, Any] = dict.fromkeys(("absent", "library", "version"), "")
    found |= {"peer": peer.name, "threads": None, "kernels": {}, "environment": {}, "tried": {}}
    able = [x for x in dtypes if peer.multiplies(of(x).numpy)] or [FLOAT32.name]
    searched = BEST in peer.environment.values()
    try:
        for part in ([x] for x in able) if searched else (able,):
            best, tried = best_environment(peer, threads, part[0])
            with Worker(best, threads) as worker:
                told = worker.ask("describe", dtypes=part)
            kernels = found["kernels"] | told["kernels"]
            found |= {**told, "kernels": kernels}
            found["environment"] |= dict.fromkeys(part, best.environment)
            found["tried"] |= {part[0]: tried} if tried else {}
    except (AbsentError, RuntimeError) as error:
        found["absent"] = str(error)
    return found


def best_environment(peer: Peer, threads: int, dtype: str) -> tuple[Peer, dict[str, float]]:
    """Return the peer with the OPENBLAS_CORETYPE that is the fastest here, and what was tried."""
    if BEST not in peer.environment.values():
        return peer, {}
    rates = coretype_rates(threads, dtype)
    best = {"OPENBLAS_CORETYPE": max(rates, key=lambda x: rates[x])} if rates else {}
    return replace(peer, environment=best), rates


def coretype_rates(threads: int, dtype: str = "float32") -> dict[str, float]:
    """Try every OPENBLAS_CORETYPE that runs here: GFLOP/s of NumPy at 1536; empty off x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {}
    sides = []
    with shared(_TRIAL, of(dtype).numpy, seed=0) as path, ExitStack() as workers:
        for name in _CORETYPES:
            # Kernels that this CPU cannot run end the worker.
            with suppress(RuntimeError, OSError):
                peer = replace(TABLE[0], environment={"OPENBLAS_CORETYPE": name})
                worker = workers.enter_context(Worker(peer, threads))
                worker.ask("prepare", path=path)
                sides.append(Side(name, worker.seconds))
        found = interleave(sides, _TRIAL_ROUNDS, most=_TRIAL_ROUNDS)
    return {x.name: _TRIAL.flops / min(x.seconds) / 1e9 for x in found}
