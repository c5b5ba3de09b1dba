"""Peers: other libraries, each at a stated setting, run in worker processes of their own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from .workloads import Shape

# What OpenBLAS may choose from on x86; the fastest on this machine is found by trying.
_CORETYPES = ("SkylakeX", "Cooperlake", "Sapphirerapids", "Zen", "Haswell")
_TRIAL = Shape(1536, 1536, 1536)


@dataclass(frozen=True, slots=True)
class Peer:
    """One entry of the table: which worker, under which environment.

    Attributes
    ----------
    name : str
        As printed.
    worker : str
        Key of `falcon.bench.worker.PEERS`.
    dtypes : str
        Type characters that it multiplies.
    install : str
        The command that installs it.
    environment : dict
        Set before the library is loaded.
    """

    name: str
    worker: str
    dtypes: str
    install: str
    environment: dict[str, str] = field(default_factory=dict)


FALCON = Peer("falcon", "falcon", "fd", "")
TABLE = (
    Peer("numpy", "numpy", "fdFD", "pip install numpy"),
    Peer("numpy (best kernels)", "numpy", "fdFD", "pip install numpy", {"OPENBLAS_CORETYPE": "?"}),
    Peer("mkl", "mkl", "fd", "pip install mkl"),
    Peer("torch", "torch", "fd", "pip install torch"),
    Peer("onednn", "onednn", "f", "pip install torch"),
)


class AbsentError(Exception):
    """The peer's library is not installed."""


class Worker:
    """A running peer; a context manager that ends the process.

    Raises
    ------
    AbsentError
        The library is not installed (the message holds the command that installs it).
    RuntimeError
        The worker failed.
    """

    def __init__(self, peer: Peer, threads: int, environment: dict[str, str] | None = None) -> None:
        settings = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
                    "MKL_NUM_THREADS": str(threads)}  # fmt: skip
        chosen = {k: v for k, v in {**peer.environment, **(environment or {})}.items() if v != "?"}
        self.peer = peer
        self._process = subprocess.Popen(
            [sys.executable, "-m", "falcon.bench.worker", peer.worker],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **settings, **chosen},
        )  # fmt: skip
        first = self._read()
        if "absent" in first:
            self.close()
            raise AbsentError(f"{peer.name} is not installed: {peer.install}")

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and return the reply."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        reply = self._read()
        if "failed" in reply:
            raise RuntimeError(f"peer {self.peer.name}: {reply['failed']}")
        return reply

    def prepare(self, shape: Shape, dtype: str, seed: int) -> None:
        """Make operands and run once."""
        self.ask("prepare", M=shape.M, N=shape.N, K=shape.K, dtype=dtype, seed=seed)

    def seconds(self, repeats: int = 1) -> float:
        """Time the fastest of some calls."""
        return self.ask("time", repeats=repeats)["seconds"]

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait(timeout=30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker of peer {self.peer.name} ended unexpectedly")
        return json.loads(line)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def best_coretype(threads: int, dtype: str = "float32") -> str | None:
    """Find the OPENBLAS_CORETYPE with which NumPy is fastest here; None off x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    times = {}
    for name in _CORETYPES:
        try:
            with Worker(TABLE[0], threads, {"OPENBLAS_CORETYPE": name}) as worker:
                worker.prepare(_TRIAL, dtype, 0)
                times[name] = worker.seconds(repeats=5)
        except (RuntimeError, OSError):  # kernels that this CPU cannot run end the worker
            continue
    return min(times, key=lambda name: times[name]) if times else None
