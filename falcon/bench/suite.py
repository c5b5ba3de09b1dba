"""`bench --peers`, `--quick` and `--split`: falcon and every library, each in its own process."""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.options import thread_count
from falcon._core.timing import REST_SECONDS, TOLERANCE, interleave
from falcon._cpu import peak

from . import compare
from .compare import Comparison, Prepared, Say, Side, SideError, own_classical
from .operands import shared
from .peers import BEST, FALCON, TABLE, AbsentError, Peer, Worker, falcon_peer, identify
from .records import CLASSICAL, PACKED, session
from .system import describe_machine
from .workloads import BOTH, WORKLOADS, Case, Shape, guessed_seconds

_QUICK_SECONDS = 170.0
_QUICK_CASE_SECONDS = 6.0
_SPLIT_SIZES = (512, 1024, 2048, 4096)
# falcon's sides of --split, besides its choice and its classical kernel.
_SPLIT: dict[str, dict[str, Any]] = {
    "falcon native": {"arithmetic": "native"},
    "falcon bf16x6": {"arithmetic": "bf16x6", "scheme": "classical"},
    "falcon bf16x6 strassen": {"arithmetic": "bf16x6", "scheme": "strassen"},
    "falcon bf16x3": {"arithmetic": "bf16x3", "scheme": "classical", "max_growth": 16},
}
# The comparison of NumPy with itself: the product, and how many pairs.
_CHECKED = Shape(1024, 1024, 1024)
_CHECK_PAIRS = 9


class BesidePeers(Comparison):
    """Sides that are processes; one of each is kept while a session lasts."""

    def __init__(self, options: argparse.Namespace, settings: dict[str, Any]) -> None:
        settings = {k: v for k, v in settings.items() if k != "threads" and v != "auto"}
        self.peers = (_split if options.split else _sides)(options, settings)
        super().__init__(options, settings, _cases(options, len(self.peers)))
        if options.quick:
            self.budget, self.case_seconds = _QUICK_SECONDS, _QUICK_CASE_SECONDS
        self._workers: dict[str, Worker] = {}
        # The identity of every peer.
        self._known: dict[str, dict[str, Any]] = {}

    def machine(self) -> dict[str, Any]:
        """Return the machine; `peers` says what NumPy runs on."""
        return describe_machine()

    def asked(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return also the peers and their settings."""
        return {**super().asked(machine), "sides": [asdict(x) for x in self.peers]}

    def seconds(self, case: Case) -> float:
        """Guess from the number of sides and operations."""
        sides = sum(x.multiplies(of(case.dtype).numpy) for x in self.peers)
        return (self.rounds + 1) * sides * (REST_SECONDS + 0.1 + guessed_seconds(case.shape))

    @contextmanager
    def session(self, found: dict[str, Any], say: Say) -> Iterator[None]:
        """Check that the machine is quiet; identify every peer, once per run; end all processes."""
        found["sessions"].append(session(self_check(self.threads)))
        self._known = {x["peer"]: x for x in found["peers"]}
        dtypes = list(dict.fromkeys(case.dtype for case in self.cases))
        try:
            for peer in self.peers:
                if peer.name not in self._known:
                    say(f"identifying {peer.name}")
                    self._known[peer.name] = identify(peer, dtypes, self.threads)
                    found["peers"].append(self._known[peer.name])
            found["peak"] = found["peak"] or peak_entry(self.threads)
            yield
        finally:
            for name in [*self._workers]:
                self._drop(name)

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Let every side multiply once; yield those that can."""
        ready = Prepared([])
        seed = zlib.crc32(case.key.encode())
        with shared(case.shape, of(case.dtype).numpy, seed) as path:
            for peer in self.peers:
                known = self._known[peer.name]
                if known["absent"] or not peer.multiplies(of(case.dtype).numpy):
                    continue
                say(f"{case.key}, {peer.name}")
                try:
                    worker = self._worker(peer, known["environment"][case.dtype])
                    reply = worker.ask("prepare", path=path)
                except (AbsentError, SideError) as error:
                    ready.failed[peer.name] = str(error)
                    self._drop(peer.name)
                    continue
                about = {
                    **{name: known[name] for name in ("library", "version", "threads")},
                    **{name: reply.get(name) for name in ("error", "extra_bytes", "plan")},
                    "kernel": known["kernels"].get(case.dtype, "?"),
                }
                ready.sides.append(Side(peer.name, worker.seconds, about=partial(_told, about)))
        yield ready
        for name in ready.failed:
            self._drop(name)

    def _worker(self, peer: Peer, environment: dict[str, str]) -> Worker:
        peer, worker = replace(peer, environment=environment), self._workers.get(peer.name)
        if worker is None or worker.peer != peer:  # with other settings for another dtype
            self._drop(peer.name)
            worker = self._workers[peer.name] = Worker(peer, self.threads)
        return worker

    def _drop(self, name: str) -> None:
        if name in self._workers:
            self._workers.pop(name).close()


def _told(about: dict[str, Any], _: float) -> dict[str, Any]:
    return about


def _sides(options: argparse.Namespace, settings: dict[str, Any]) -> list[Peer]:
    classical = own_classical(settings, compare.dtypes(options) or BOTH)
    packed = [falcon_peer(PACKED, PACKED, **settings)] if options.packed else []
    return [falcon_peer(FALCON.name, **settings), *packed,
            falcon_peer(CLASSICAL, **classical), *TABLE]  # fmt: skip


def _split(options: argparse.Namespace, settings: dict[str, Any]) -> list[Peer]:
    """Return the sides of --split; those for which there are kernels: schemes of parts need AMX."""
    if compare.dtypes(options) not in ([], ["float32"]):
        raise ValueError("--split multiplies float32; leave out --dtype")
    options.dtype = "float32"
    if not compare.given_shapes(options):
        options.sizes = [f"{n},{n},{n}" for n in _SPLIT_SIZES]
    settings = {k: v for k, v in settings.items() if k not in ("scheme", "arithmetic")}
    classical = own_classical({**settings, "arithmetic": "native"}, ["float32"])
    made = {FALCON.name: settings, CLASSICAL: classical}
    made |= {name: {**settings, **how} for name, how in _SPLIT.items()}

    def runs(how: dict[str, Any]) -> bool:
        try:
            falcon.plan((2, 2), (2, 2), "float32", **how)
        except TypeError:
            return False
        return True

    return [*(falcon_peer(name, **how) for name, how in made.items() if runs(how)), *TABLE]


def _cases(options: argparse.Namespace, sides: int) -> list[Case]:
    """Return the cases that fit in memory with a result per side."""
    asked, given = compare.dtypes(options), compare.given_shapes(options)
    cases = [Case("given", shape, x) for shape in given for x in asked or ["float32"]]
    usual = "quick" if options.quick else "squares"
    for name in options.workload or ([] if given else [usual]):
        workload = WORKLOADS[name]
        cases += [Case(name, y, x) for x in asked or workload.dtypes for y in workload.shapes()]
    half = (describe_machine()["memory"] or 8 * 2**30) / 2**31
    cases = list({case.key: case for case in cases}.values())
    return compare.that_fit(cases, options.max_gib or half, sides)


def list_peers(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return each library's version and kernels here, or how to install it."""
    dtypes, threads = compare.dtypes(options) or list(BOTH), thread_count(options.threads)
    return [identify(peer, dtypes, threads) for peer in (FALCON, *TABLE)
            if BEST not in peer.environment.values()]  # fmt: skip


def peak_entry(threads: int) -> dict[str, Any]:
    """Measure the micro-kernels alone; return the entry `peak` of the record file."""
    found = [{"dtype": x.dtype, "isa": x.isa, "gflops": round(x.gflops, 2)}
             for x in peak.measure(threads)]  # fmt: skip
    return {"threads": threads, "gflops": found}


def self_check(threads: int) -> dict[str, Any]:
    """Compare NumPy with itself, in two processes: the median ratio must come out at 1.00.

    It is tried twice, because a single disturbance does not mean that the machine is noisy.
    """
    sides = []
    with shared(_CHECKED, np.dtype("float32"), 0) as path, ExitStack() as workers:
        for name in ("numpy", "numpy again"):
            worker = workers.enter_context(Worker(TABLE[0], threads))
            worker.ask("prepare", path=path)
            sides.append(Side(name, worker.seconds))
        for _ in range(2):
            first, second = interleave(sides, _CHECK_PAIRS, most=_CHECK_PAIRS)
            estimate = first.over(second)
            passed = abs(estimate.median - 1) <= TOLERANCE
            if passed:
                break
    return {**estimate.document(), "passed": passed}
