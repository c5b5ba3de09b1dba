"""Peers: libraries, each at a stated setting, run in worker processes of their own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from falcon._core.dtypes import FLOAT32, of
from falcon._core.options import as_variables
from falcon._core.timing import Side, interleave

from .adapters import LIBRARIES
from .compare import SideError
from .operands import shared
from .workloads import Case, Shape

# Candidates for OPENBLAS_CORETYPE on x86; the fastest on this machine is found by trying.
_CORETYPES = ("SkylakeX", "Cooperlake", "Sapphirerapids", "Zen", "Haswell")
_TRIAL = Shape(1536, 1536, 1536)
_TRIAL_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Peer:
    """A library at a stated setting."""

    name: str  # the name that is printed
    library: str  # key of `adapters.LIBRARIES`
    best: bool = False  # whether the best OPENBLAS_CORETYPE is found by trying, before it runs
    environment: dict[str, str] = field(default_factory=dict)  # set before the library is loaded

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the types that it multiplies."""
        return LIBRARIES[self.library].dtypes

    def takes(self, case: Case) -> bool:
        """Whether it multiplies this type, and batches if it is one."""
        library = LIBRARIES[self.library]
        return case.dtype in library.dtypes and (library.batches or not case.shape.batch)


FALCON = Peer("falcon", "falcon")
TABLE = (
    Peer("numpy", "numpy"),
    Peer("numpy (best kernels)", "numpy", best=True),
    *(Peer(name, name) for name in LIBRARIES if name not in ("falcon", "numpy")),
)


def falcon_peer(name: str, **options: Any) -> Peer:
    """Return falcon as a side of a comparison, with some options of `falcon.config`."""
    return replace(FALCON, name=name, environment=as_variables(options))


class Worker:
    """A running peer; a context manager that ends the process.

    Raises SideError: it failed, or the library is not installed.
    """

    def __init__(self, peer: Peer, threads: int) -> None:
        self.peer = peer
        limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "falcon.bench.worker", peer.library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **dict.fromkeys(limits, str(threads)), **peer.environment},
        )  # fmt: skip

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


def identify(peer: Peer, dtypes: list[str], threads: int) -> dict[str, Any]:
    """Return a record file's entry of a peer: what it is here, or why it is absent."""
    entry: dict[str, Any] = dict.fromkeys(("absent", "library", "version"), "")
    entry |= {"peer": peer.name, "threads": None, "kernels": {}, "environment": {}, "tried": {}}
    try:
        for dtype in [x for x in dtypes if x in peer.dtypes] or [FLOAT32.name]:
            rates = coretype_rates(threads, dtype) if peer.best else {}
            best = {"OPENBLAS_CORETYPE": max(rates, key=lambda x: rates[x])} if rates else {}
            environment = {**peer.environment, **best}
            with Worker(replace(peer, environment=environment), threads) as worker:
                described = worker.ask("describe", dtype=dtype)
            entry["kernels"][dtype] = described.pop("kernel")
            entry["environment"][dtype] = environment
            entry["tried"] |= {dtype: rates} if rates else {}
            entry |= described
    except SideError as error:
        entry["absent"] = f"{error}: pip install {LIBRARIES[peer.library].package}"
    return entry


def coretype_rates(threads: int, dtype: str) -> dict[str, float]:
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
        records = interleave(sides, _TRIAL_ROUNDS, most=_TRIAL_ROUNDS)
    return {x.name: _TRIAL.flops / min(x.seconds) / 1e9 for x in records}
