"""Peers: libraries, each at a stated setting, run in worker processes of their own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from math import inf
from threading import TIMEOUT_MAX
from typing import Any, Self

import falcon
from falcon._core.dtypes import FLOAT32, dtype_of
from falcon._core.options import FIELDS, as_variables
from falcon._tools.timing import Side, interleave
from falcon.schemes.loaders import is_name
from falcon.schemes.writing import to_json

from .adapters import LIBRARIES
from .compare import Say, SideError
from .operands import shared
from .workloads import Case, Shape

# Candidates for OPENBLAS_CORETYPE on x86; the fastest on this machine is found by trying.
_CORETYPES = ("SkylakeX", "Cooperlake", "Sapphirerapids", "Zen", "Haswell")
_TRIAL = Shape(1536, 1536, 1536)
_TRIAL_ROUNDS, _TRIAL_CALLS = 3, 2
# Variables that set the number of threads of the libraries.
_LIMITS = ("FALCON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
           "VECLIB_MAXIMUM_THREADS")  # fmt: skip
# Shares of the time of a run in which libraries must have started, at least so many seconds, and in
# which kernels are tried.
_STARTING, _LEAST_STARTING, _TRYING = 0.5, 5.0, 0.05


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
        self.stopped = ""  # why, if this process ended it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "falcon.bench.worker", peer.library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **dict.fromkeys(_LIMITS, str(threads)), **peer.environment},
        )  # fmt: skip
        assert self._process.stdin is not None
        name = peer.environment.get(FIELDS["scheme"].metadata["variable"], "")
        scheme = to_json(falcon.schemes.get(name)) if is_name(name) else ""  # that of a file
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(scheme) + "\n")

    def ask(self, do: str, **request: Any) -> Any:
        """Send a request; return what the method of `worker.Server` returned."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # there is no reply then
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideError(self.peer.name, self.stopped or "its process ended unexpectedly")
        reply = json.loads(line)
        if "failed" in reply:
            raise SideError(self.peer.name, reply["failed"])
        return reply["done"]

    def seconds(self, repeats: int = 1) -> float:
        """Return the median of the seconds of some calls."""
        return self.ask("time", repeats=repeats)

    def spent(self) -> list[float]:
        """Return the seconds of CPUs that timings have used, and how long they took."""
        return self.ask("spent")

    def stop(self, why: str) -> None:
        """Let a request that another thread waits for fail, and all others."""
        self.stopped = why
        self._process.kill()

    def close(self) -> None:
        """End the process, at once: it may be stuck in a call."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def identify(
    peers: Sequence[Peer],
    dtypes: Sequence[str],
    threads: int,
    seconds: float = inf,
    say: Say = lambda _: None,
) -> list[tuple[dict[str, Any], Worker | None]]:
    """Start all peers at once; return a record file's entry of each: what it is, or why it is not.

    `seconds`: of the whole run; of libraries that take too long to start, falcon alone is awaited.
    Returns also the process that runs each peer, to be closed.
    """
    room = max(_LEAST_STARTING, _STARTING * seconds)
    say("starting the libraries")
    with ThreadPoolExecutor(len(peers) * len(_CORETYPES)) as pool, ExitStack() as running:
        told: dict[Worker, Future[Any]] = {}
        for peer in (y for x in peers for y in _settings(x)):
            worker = running.enter_context(Worker(peer, threads))
            mine = [x for x in dtypes if x in peer.dtypes] or [FLOAT32.name]
            told[worker] = pool.submit(worker.ask, "describe", dtypes=mine)
        optional = {y: x for x, y in told.items() if x.peer.library != FALCON.library}
        for late in wait(optional, min(room, TIMEOUT_MAX)).not_done:
            optional[late].stop(f"not ready after {room:.0f} s of --time-budget")
        found = []
        for peer in peers:
            some = {x: y for x, y in told.items() if x.peer.name == peer.name}
            found.append(_identified(peer, some, _TRYING * seconds, say))
        for unused in told.keys() - {worker for _, worker in found}:
            unused.close()
        running.pop_all()
    return found


def _settings(peer: Peer) -> list[Peer]:
    """Return a peer with each OPENBLAS_CORETYPE, if the best is to be found, or as it is."""
    if not peer.best or platform.machine().lower() not in ("x86_64", "amd64"):
        return [peer]
    names = ({"OPENBLAS_CORETYPE": x} for x in _CORETYPES)
    return [replace(peer, environment={**peer.environment, **x}) for x in names]


def _identified(
    peer: Peer, asked: Mapping[Worker, Future[Any]], seconds: float, say: Say
) -> tuple[dict[str, Any], Worker | None]:
    """Return the entry of a peer and its process.

    `asked`: by process, what it tells of itself; `seconds`: for trying kernels, in its first type.
    """
    entry: dict[str, Any] = dict.fromkeys(("absent", "library", "version"), "")
    entry |= {"peer": peer.name, "threads": None, "kernels": {}, "environment": {}, "tried": {}}
    able: dict[tuple[str, ...], Worker] = {}  # by kernels: several names may stand for the same
    for worker, told in asked.items():
        try:  # kernels that this CPU cannot run end the process
            able.setdefault(tuple(x["kernel"] for x in told.result().values()), worker)
        except SideError as error:
            entry["absent"] = str(error)
            if not worker.stopped:
                entry["absent"] += f": pip install {LIBRARIES[peer.library].package}"
    if not able:
        return entry, None
    entry["absent"] = ""
    worker = next(iter(able.values()))
    if len(able) > 1:
        dtype = next(iter(asked[worker].result()))
        say(f"trying OpenBLAS's kernels, {dtype}")
        workers = {x.peer.environment["OPENBLAS_CORETYPE"]: x for x in able.values()}
        rates = entry["tried"][dtype] = coretype_rates(workers, dtype, seconds)
        worker = workers[max(rates, key=lambda x: rates[x])]
    for dtype, about in asked[worker].result().items():
        entry["kernels"][dtype] = about["kernel"]
        entry["environment"][dtype] = worker.peer.environment
        entry |= {name: about[name] for name in ("library", "version", "threads")}
    return entry, worker


def coretype_rates(workers: Mapping[str, Worker], dtype: str, seconds: float) -> dict[str, float]:
    """Return the GFLOP/s of NumPy's kernels at 1536, by OPENBLAS_CORETYPE.

    `seconds`: about how long it may take.
    """
    with shared(_TRIAL, dtype_of(dtype).numpy, seed=0) as path:
        for x in workers.values():
            x.ask("prepare", path=path)
        sides = [Side(name, x.seconds) for name, x in workers.items()]
        records = interleave(sides, _TRIAL_ROUNDS, most=_TRIAL_ROUNDS, calls=_TRIAL_CALLS,
                             limit=seconds)  # fmt: skip
    return {x.name: _TRIAL.flops / min(x.seconds) / 1e9 for x in records}
