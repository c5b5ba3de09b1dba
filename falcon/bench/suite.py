"""`bench --peers` and `--quick`: falcon and every library, each in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from falcon._core.dtypes import FLOAT32, FLOAT64, dtype_of
from falcon._core.options import thread_count
from falcon._cpu import peak

from . import compare
from .compare import Comparison, Prepared, Say, Side, SideError, own_classical
from .operands import shared
from .peers import FALCON, TABLE, Peer, Worker, falcon_peer, identify
from .records import CLASSICAL
from .workloads import Case

_QUICK_SECONDS = 170.0
_QUICK_CASE_SECONDS = 6.0


class BesidePeers(Comparison):
    """Sides that are processes; one of each is kept while a session lasts."""

    def __init__(self, options: argparse.Namespace, settings: dict[str, Any]) -> None:
        settings = {k: v for k, v in settings.items() if k != "threads" and v != "auto"}
        cases = compare.cases(options, "quick" if options.quick else "squares")
        classical = own_classical(settings, {x.dtype for x in cases})
        self.peers = [falcon_peer(FALCON.name, **settings), falcon_peer(CLASSICAL, **classical),
                      *TABLE]  # fmt: skip
        half = (self.machine()["memory"] or 8 * 2**30) / 2**31
        cases = compare.that_fit(cases, options.max_gib or half, len(self.peers))
        super().__init__(options, settings, cases)
        if options.quick:
            self.budget, self.case_seconds = _QUICK_SECONDS, _QUICK_CASE_SECONDS
            self.is_bounded = True
        self._workers: dict[str, Worker] = {}
        # The identity of every peer.
        self._known: dict[str, dict[str, Any]] = {}

    def identity(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return also the peers and their settings."""
        return {**super().identity(machine), "sides": [asdict(x) for x in self.peers]}

    @contextmanager
    def session(self, document: dict[str, Any], say: Say, seconds: float) -> Iterator[None]:
        """Identify every peer, once per run; end all processes."""
        self._known = {x["peer"]: x for x in document["peers"]}
        dtypes = list(dict.fromkeys(case.dtype for case in self.cases))
        try:
            new = [x for x in self.peers if x.name not in self._known]
            for entry, worker in identify(new, dtypes, self.threads, seconds, say) if new else ():
                self._known[entry["peer"]] = entry
                document["peers"].append(entry)
                if worker is not None:
                    self._workers[entry["peer"]] = worker
            if document["peak"] is None:
                say("each micro-kernel alone")
                document["peak"] = peak_entry(self.threads, dtypes)
            with super().session(document, say, seconds):
                yield
        finally:
            for name in [*self._workers]:
                self._drop(name)

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Let every side multiply once; yield those that can."""
        ready = Prepared([])
        with shared(case.shape, dtype_of(case.dtype).numpy, case.seed) as path:
            for peer in self.peers:
                absent = self._known[peer.name]["absent"]
                if absent and peer.name == FALCON.name:
                    ready.failed[peer.name] = absent
                if absent or not peer.takes(case):
                    continue
                say(f"{case.key}, {peer.name}")
                try:
                    ready.sides.append(self._side(peer, case.dtype, path))
                except SideError as error:
                    ready.failed[peer.name] = str(error)
                    self._drop(peer.name)
        yield ready
        for name in ready.failed:
            self._drop(name)

    def _side(self, peer: Peer, dtype: str, path: str) -> Side:
        """Let a side multiply the operands once."""
        known = self._known[peer.name]
        if peer.name not in self._workers:  # it failed, or another session identified it
            settings = replace(peer, environment=known["environment"][dtype])
            self._workers[peer.name] = Worker(settings, self.threads)
        worker = self._workers[peer.name]
        reply = worker.ask("prepare", path=path)
        about = {
            **{name: known[name] for name in ("library", "version", "threads")},
            **{name: reply.get(name) for name in ("error", "extra_bytes", "plan")},
            "kernel": known["kernels"].get(dtype, "?"),
        }
        return Side(peer.name, worker.seconds, spent=worker.spent, about=lambda _: about)

    def _drop(self, name: str) -> None:
        if name in self._workers:
            self._workers.pop(name).close()


def list_peers(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return each library's version and kernels here, or how to install it."""
    dtypes = compare.dtypes(options) or [FLOAT32.name, FLOAT64.name]
    threads = thread_count(options.threads)
    entries = []
    for entry, worker in identify([x for x in (FALCON, *TABLE) if not x.best], dtypes, threads):
        entries.append(entry)
        if worker is not None:
            worker.close()
    return entries


def peak_entry(threads: int, dtypes: list[str]) -> dict[str, Any]:
    """Measure the micro-kernels of some types alone; return the entry `peak` of the record file."""
    rates = [{"dtype": x.dtype, "isa": x.isa, "gflops": round(x.gflops, 2)}
             for x in peak.measure(threads, dtypes)]  # fmt: skip
    return {"threads": threads, "gflops": rates}
