"""`Cluster`: what a plan knows of the workers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import dask

import falcon
from falcon._front.surface import host_engine, thread_count
from falcon._tools.cpus import memory_bytes, usable_cpus


@dataclass(frozen=True)
class Cluster:
    """The workers on which arrays are computed: processes, or the threads of this one."""

    workers: int = 1  # processes
    slots: int = 1  # tasks that run at once in all of them
    threads: int = 1  # of falcon, in each task
    memory: int | None = None  # bytes of the smallest worker; None: not limited
    kernels: tuple[str, ...] = ()  # instruction sets in use; with several, last bits differ
    addresses: tuple[str, ...] = ()  # of workers of equally many threads: tasks can be sent there

    @property
    def task_bytes(self) -> int | None:
        """Bytes for each task that runs at the same time."""
        return None if self.memory is None else self.memory * self.workers // self.slots


# By client: the addresses of its workers, and what was found of them.
_known: WeakKeyDictionary[Any, tuple[frozenset, Cluster]] = WeakKeyDictionary()


def current_cluster(threads: int | None) -> Cluster:
    """Return the cluster on which arrays would be computed now.

    `threads`: of falcon in each task; None: all CPUs of a machine, shared by the tasks that run
    there at once. Raises RuntimeError if a worker has no falcon, or another version.
    """
    known = client()
    found = _local() if known is None else _distributed(known)
    return found if threads is None else replace(found, threads=threads)


def client() -> Any:
    """Return the client that computes arrays here, if it is one of distributed."""
    get = dask.base.get_scheduler()
    found = getattr(get, "__self__", None)
    return found if "distributed" in sys.modules and hasattr(found, "scheduler_info") else None


def _local() -> Cluster:
    """Describe the threads of this process."""
    get, slots = dask.base.get_scheduler(), int(dask.config.get("num_workers", 0) or usable_cpus())
    if get is not None and get.__module__ == "dask.local":  # synchronous
        slots = 1
    memory = memory_bytes() or None
    return Cluster(1, slots, max(1, thread_count() // slots), memory, (_about()[1],))


def _about() -> tuple[str, str, int]:
    """Return version, kernels and CPUs; runs on the workers."""
    return falcon.__version__, host_engine().kernels(), usable_cpus()


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
    nthreads = [x["nthreads"] for x in workers.values()]
    memory = min((x["memory_limit"] for x in workers.values() if x["memory_limit"]), default=None)
    alike = tuple(workers) if len({*nthreads}) == 1 else ()
    found = Cluster(len(workers), sum(nthreads), 1, memory, addresses=alike)
    if not client.asynchronous:  # a client in an event loop cannot wait
        told = client.run(_about, on_error="return")
        for address, x in told.items():
            if isinstance(x, BaseException):
                raise RuntimeError(f"worker {address} cannot import falcon.dask: {x!r}") from x
            if x[0] != falcon.__version__:
                raise RuntimeError(
                    f"worker {address} has falcon {x[0]}, this process {falcon.__version__}: "
                    "install the same version everywhere"
                )
        cpus = [x[2] // hosts[workers[at]["host"]] for at, x in told.items() if at in workers]
        kernels = tuple(sorted({x[1] for x in told.values()}))
        found = replace(found, threads=max(1, min(cpus, default=1)), kernels=kernels)
    _known[client] = frozenset(workers), found
    return found
