"""`Cluster`: workers, their memory, threads, kernels, bandwidth, and the chunks they hold."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import dask
import numpy as np
from dask._task_spec import convert_legacy_graph

import falcon
from falcon._backends import host_engine
from falcon._core.cpus import usable_cpus
from falcon._core.options import thread_count

# Where nothing was measured: bytes/s of dask's own first guess, and of NumPy's sums.
_BANDWIDTH, _SUMS = 1e8, 4e9
_PROBE = 2**25  # bytes
_MOST_SECONDS = 2  # that a probe waits for busy workers


@dataclass(frozen=True)
class Cluster:
    """What a plan knows of the workers.

    Attributes
    ----------
    workers, slots : int
        Processes, and tasks that run at once in all of them.
    threads : int
        Of falcon, in each task.
    share : float
        Of a CPU that each thread has: below 1 where a machine runs more tasks than it has CPUs.
    memory : int or None
        Bytes of the smallest worker; None: not limited.
    kernels : tuple of str
        Instruction sets in use; several: results' last bits depend on the worker.
    bandwidth, sums : float
        Bytes/s that a worker receives, and that a sum of chunks reads and writes.
    addresses : tuple of str
        Of workers of equally many threads, to which tasks can be sent.
    """

    workers: int = 1
    slots: int = 1
    threads: int = 1
    memory: int | None = None
    kernels: tuple[str, ...] = ()
    bandwidth: float = _BANDWIDTH
    sums: float = _SUMS
    share: float = 1.0
    addresses: tuple[str, ...] = ()

    @property
    def room(self) -> int | None:
        """Bytes for each task that runs at the same time."""
        return None if self.memory is None else self.memory * self.workers // self.slots


_known: WeakKeyDictionary[Any, tuple[frozenset, Cluster]] = WeakKeyDictionary()


def current(threads: int | None) -> Cluster:
    """Return the cluster on which arrays would be computed now.

    Bandwidths are measured once per set of workers (a fraction of a second).

    Parameters
    ----------
    threads : int, optional
        Of falcon in each task; by default all CPUs of a machine, shared by the tasks that run there
        at once.

    Raises
    ------
    RuntimeError
        A worker has no falcon, or another version than this process.
    """
    client = _client()
    found = _local() if client is None else _distributed(client)
    return found if threads is None else replace(found, threads=threads)


def _client() -> Any:
    """Return the client that computes arrays here, if it is one of distributed."""
    get = dask.base.get_scheduler()
    client = getattr(get, "__self__", None)
    return client if "distributed" in sys.modules and hasattr(client, "scheduler_info") else None


def _local() -> Cluster:
    """Describe the threads of this process."""
    get, cpus = dask.base.get_scheduler(), thread_count()
    slots = int(dask.config.get("num_workers", None) or usable_cpus())
    if get is not None and get.__module__ == "dask.local":  # synchronous
        slots = 1
    return Cluster(1, slots, max(1, cpus // slots), None, (_kernels(),), np.inf)


def _kernels() -> str:
    return host_engine().kernels()


def _about() -> tuple[str, str, int]:
    """Return version, kernels and CPUs; runs on the workers."""
    return falcon.__version__, _kernels(), usable_cpus()


def _distributed(client: Any) -> Cluster:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if not workers:
        return Cluster()
    known = _known.get(client)
    if known is not None and known[0] == workers.keys():
        return known[1]
    hosts: dict[str, int] = {}
    for x in workers.values():
        hosts[x["host"]] = hosts.get(x["host"], 0) + x["nthreads"]
    slots, memory = sum(x["nthreads"] for x in workers.values()), None
    if limits := [x["memory_limit"] for x in workers.values() if x["memory_limit"]]:
        memory = min(limits)
    found = Cluster(len(workers), slots, 1, memory)
    if len({x["nthreads"] for x in workers.values()}) == 1:
        found = replace(found, addresses=tuple(workers))
    if not client.asynchronous:  # a client in an event loop cannot wait
        told = client.run(_about, on_error="return")
        _check(told)
        cpus = [x[2] / hosts[workers[at]["host"]] for at, x in told.items() if at in workers]
        least, kernels = min(cpus, default=1), tuple(sorted({x[1] for x in told.values()}))
        found = replace(found, threads=max(1, int(least)), share=min(1.0, least), kernels=kernels)
        found = _measured(client, list(workers), found)
    _known[client] = frozenset(workers), found
    return found


def _check(told: dict[str, Any]) -> None:
    """Raise RuntimeError unless all workers have this falcon."""
    for address, x in told.items():
        if isinstance(x, BaseException):
            raise RuntimeError(f"worker {address} cannot import falcon.dask: {x!r}") from x
        if x[0] != falcon.__version__:
            raise RuntimeError(
                f"worker {address} has falcon {x[0]}, this process {falcon.__version__}: install "
                "the same version everywhere"
            )


def _measured(client: Any, workers: list[str], found: Cluster) -> Cluster:
    """Time a sum on a worker, and a transfer between two; keep guesses where workers are busy."""
    from distributed import TimeoutError as Late

    how: dict[str, Any] = {"pure": False, "priority": 10}
    with suppress(Late, TimeoutError):
        x = client.submit(np.ones, _PROBE // 8, workers=workers[:1], **how)
        sums = client.submit(_sums, x, workers=workers[:1], **how).result(_MOST_SECONDS)
        found = replace(found, sums=sums)
        if len(workers) > 1:
            start = perf_counter()
            client.submit(len, x, workers=workers[1:2], **how).result(_MOST_SECONDS)
            found = replace(found, bandwidth=_PROBE / (perf_counter() - start))
    return found


def holders(x: Any, on: Cluster) -> np.ndarray | None:
    """Return which worker, by its place in `addresses`, holds each chunk of a persisted matrix.

    None where it is not known of all.
    """
    client = _client()
    if client is None or client.asynchronous or not (held := client.futures_of(x)):
        return None
    told = client.who_has(held)
    graph = convert_legacy_graph(dict(x.__dask_graph__()))
    found = np.empty(x.numblocks, int)
    for at in np.ndindex(found.shape):
        key = (x.name, *at)
        while key not in told and len(before := graph[key].dependencies) == 1:
            (key,) = before  # for example x.T of a persisted x: it is transposed where it lies
        if not told.get(key) or told[key][0] not in on.addresses:
            return None
        found[at] = on.addresses.index(told[key][0])
    return found


def _sums(x: np.ndarray) -> float:
    """Return the bytes/s that a sum reads and writes."""
    start = perf_counter()
    np.add(x, x)
    return 3 * x.nbytes / (perf_counter() - start)
