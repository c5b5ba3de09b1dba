"""Falcon beside its peers, case by case, in interleaved rounds; can be stopped and resumed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from falcon._core.dtypes import of
from falcon._core.timing import REST_SECONDS, TOLERANCE, Side, interleave
from falcon._cpu import peak

from .operands import SharedOperands
from .peers import TABLE, AbsentError, Peer, Worker, identify
from .records import case_entry, session
from .run import Run
from .system import load
from .workloads import Case, Shape, guessed_seconds

# The comparison of NumPy with itself: the product, and how many pairs.
_CHECKED = Shape(1024, 1024, 1024)
_CHECK_PAIRS = 9


@dataclass(frozen=True)
class Spec:
    """What is to be measured."""

    cases: list[Case]
    sides: list[Peer]  # falcon first, whose speed-ups over the others are computed
    threads: int
    rounds: int  # least number of rounds of a case
    # Time after which a case gets no rounds beyond these, even if a ratio is not known.
    case_seconds: float

    def asked(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return what must be the same when a run is resumed."""
        return {
            "machine": machine,
            "threads": self.threads,
            "rounds": self.rounds,
            "cases": [case.key for case in self.cases],
            "sides": [asdict(side) for side in self.sides],
        }

    def seconds(self, case: Case) -> float:
        """Guess how long a case takes."""
        sides = sum(side.multiplies(of(case.dtype).numpy) for side in self.sides)
        return (self.rounds + 1) * sides * (REST_SECONDS + 0.1 + guessed_seconds(case.shape))


class Suite:
    """One session of a run: measures what is not measured yet, until the time is up.

    `progress`: called with the guessed seconds of the step just done, and its name.
    """

    def __init__(self, spec: Spec, kept: Run, progress: Callable[[float, str], None]) -> None:
        self.spec, self.kept, self.progress = spec, kept, progress
        self._workers: dict[str, Worker] = {}
        # The identity of every peer, filled by `_identify`.
        self._known: dict[str, dict[str, Any]] = {}

    def run(self, deadline: float) -> bool:
        """Measure until a time of `time.monotonic`; return whether the run is complete."""
        found, threads = self.kept.found, self.spec.threads
        left = self.kept.left(self.spec.cases)
        if not left:
            return True
        before = {"before": load(), "after": None}
        found["sessions"].append(session(before, self_check(threads)))
        try:
            self._identify()
            found["peak"] = found["peak"] or peak_entry(threads)
            return self.kept.measure(left, self._case, deadline, self.spec.seconds)
        finally:
            for worker in self._workers.values():
                worker.close()
            before["after"] = load()
            self.kept.save()

    def _identify(self) -> None:
        """Identify every peer, once per run."""
        self._known = {x["peer"]: x for x in self.kept.found["peers"]}
        dtypes = list(dict.fromkeys(case.dtype for case in self.spec.cases))
        for peer in self.spec.sides:
            if peer.name not in self._known:
                self.progress(0.0, f"identifying {peer.name}")
                self._known[peer.name] = identify(peer, dtypes, self.spec.threads)
                self.kept.found["peers"].append(self._known[peer.name])

    def _worker(self, peer: Peer) -> Worker:
        worker = self._workers.get(peer.name)
        if worker is not None and worker.peer != peer:  # with other settings for another dtype
            self._drop(peer)
            worker = None
        if worker is None:
            worker = self._workers[peer.name] = Worker(peer, self.spec.threads)
        return worker

    def _drop(self, peer: Peer) -> None:
        worker = self._workers.pop(peer.name, None)
        if worker is not None:
            worker.close()

    def _case(self, case: Case) -> dict[str, Any]:
        """Measure a case; return its entry."""
        able = [
            replace(side, environment=self._known[side.name]["environment"][case.dtype])
            for side in self.spec.sides
            if not self._known[side.name]["absent"] and side.multiplies(of(case.dtype).numpy)
        ]
        looked = {"before": load()}
        about, failed = self._prepare(case, able)
        count = iter(range(1, 10**9))

        def after_round(_: Any) -> None:
            self.progress(0.0, f"{case.key}, round {next(count)}")

        sides = [Side(x.name, self._worker(x).seconds) for x in able if x.name in about]
        if not sides:
            raise RuntimeError("; ".join(failed.values()))
        spec = self.spec
        measured = interleave(
            sides, spec.rounds, seconds=spec.case_seconds, after_round=after_round
        )
        looked["after"] = load()
        self.progress(spec.seconds(case), case.key)
        sessions = [len(self.kept.found["sessions"]) - 1]
        return case_entry(case, measured, about, sessions=sessions, load=looked, failed=failed)

    def _prepare(
        self, case: Case, able: list[Peer]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Let every side multiply once; return facts of those that can, errors of the others."""
        about: dict[str, dict[str, Any]] = {}
        failed = {}
        seed = zlib.crc32(case.key.encode())
        with SharedOperands(case.shape, of(case.dtype).numpy, seed) as operands:
            for side in able:
                self.progress(0.0, f"{case.key}, {side.name}")
                known = self._known[side.name]
                try:
                    reply = self._worker(side).prepare(operands)
                except AbsentError:
                    continue
                except RuntimeError as error:
                    failed[side.name] = str(error)
                    self._drop(side)
                    continue
                about[side.name] = {
                    **{name: known[name] for name in ("library", "version", "threads")},
                    **{name: reply.get(name) for name in ("error", "extra_bytes", "plan")},
                    "kernel": known["kernels"].get(case.dtype, "?"),
                }
        return about, failed


def peak_entry(threads: int) -> dict[str, Any]:
    """Measure the micro-kernels alone; return the entry `peak` of the record file."""
    found = [{"dtype": x.dtype, "isa": x.isa, "gflops": round(x.gflops, 2)}
             for x in peak.measure(threads)]  # fmt: skip
    return {"threads": threads, "gflops": found}


def self_check(threads: int) -> dict[str, Any]:
    """Compare NumPy with itself, in two processes: the median ratio must come out at 1.00.

    It is tried twice, because a single disturbance does not mean that the machine is noisy.
    """
    with (
        SharedOperands(_CHECKED, np.dtype("float32"), 0) as operands,
        Worker(TABLE[0], threads) as one,
        Worker(TABLE[0], threads) as two,
    ):
        for worker in (one, two):
            worker.prepare(operands)
        sides = [Side("numpy", one.seconds), Side("numpy again", two.seconds)]
        for _ in range(2):
            first, second = interleave(sides, _CHECK_PAIRS, most=_CHECK_PAIRS)
            estimate = first.over(second)
            passed = abs(estimate.median - 1) <= TOLERANCE
            if passed:
                break
    return {**estimate.document(), "passed": passed}
