"""Falcon beside its peers, case by case: interleaved rounds that can stop and go on at any time."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from falcon._core.timing import REST_SECONDS, TOLERANCE, Side, interleave

from .identify import identify
from .operands import SharedOperands
from .own import Task
from .peers import BEST, TABLE, AbsentError, Peer, Worker, coretype_rates
from .stream import Stream
from .system import describe_falcon, load
from .workloads import Case, Shape, guessed_seconds

# NumPy against itself: the product, and how many pairs.
_CHECKED = Shape(1024, 1024, 1024)
_CHECK_PAIRS = 9


@dataclass(frozen=True)
class Spec:
    """What is to be measured.

    Attributes
    ----------
    cases : list of Case
    sides : list of Peer
        Falcon first; ratios are those of its time to the others'.
    tasks : list of Task
        What falcon measures of itself.
    threads, rounds : int
        Rounds that each case has at least.
    case_seconds : float
        Time after which a case ends, though a ratio is not known, once it has its rounds.
    """

    cases: list[Case]
    sides: list[Peer]
    tasks: list[Task]
    threads: int
    rounds: int
    case_seconds: float

    def header(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return what must be the same for a run to go on."""
        return {
            "machine": machine,
            "threads": self.threads,
            "rounds": self.rounds,
            "cases": [case.key for case in self.cases],
            "labels": [case.shape.label for case in self.cases],
            "sides": [asdict(side) for side in self.sides],
            "tasks": [task.key for task in self.tasks],
        }

    def seconds(self, case: Case) -> float:
        """Guess how long a case takes."""
        sides = sum(side.multiplies(np.dtype(case.dtype)) for side in self.sides)
        return (self.rounds + 1) * sides * (REST_SECONDS + 0.1 + guessed_seconds(case.shape))


class TimeUpError(Exception):
    """The time budget is used up."""


class Suite:
    """One session of a run: what the stream does not hold yet, until the time is up.

    Parameters
    ----------
    spec : Spec
    stream : Stream
    deadline : float
        By `time.monotonic`; at least one round is made whatever it is.
    progress : callable
        Called with the guessed seconds of what was just done and a word about it.
    """

    def __init__(
        self, spec: Spec, stream: Stream, deadline: float, progress: Callable[[float, str], None]
    ) -> None:
        self.spec, self.stream, self.deadline = spec, stream, deadline
        self.progress = progress
        self.session = len(stream.of("session"))
        self._workers: dict[str, Worker] = {}
        # Variables per peer and dtype, as found out by `_identified`.
        self._settings: dict[str, dict[str, dict[str, str]]] = {}
        self._worked = False

    def run(self) -> bool:
        """Measure; return whether the run is complete."""
        if self._complete():
            return True
        self.stream.append(
            {
                "session": self.session,
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "falcon": describe_falcon(),
                "load": load(),
                "self_check": self_check(self.spec.threads),
            }
        )
        try:
            sides = self._identified()
            for case in self.spec.cases:
                if case.key not in self._done("done"):
                    self._case(case, sides)
                    self.progress(self.spec.seconds(case), case.key)
            self._close()
            for task in self.spec.tasks:
                if task.key not in self._done("task"):
                    self._allow(task.seconds)
                    self.stream.append({"task": task.key, "kind": task.kind, "found": task.run()})
                    self._worked = True
                    self.progress(task.seconds, task.key)
        except TimeUpError:
            return False
        finally:
            self._close()
            self.stream.append({"ended": self.session, "load": load()})
        return True

    def _complete(self) -> bool:
        done, tasks = self._done("done"), self._done("task")
        return all(case.key in done for case in self.spec.cases) and all(
            task.key in tasks for task in self.spec.tasks
        )

    def _done(self, kind: str) -> set[str]:
        return {line[kind] for line in self.stream.of(kind)}

    def _allow(self, seconds: float) -> None:
        """Stop the session if so many seconds would exceed its time."""
        if self._worked and time.monotonic() + seconds > self.deadline:
            raise TimeUpError

    # --- the peers ---------------------------------------------------------------------------

    def _identified(self) -> list[Peer]:
        """Find out, once per run, what every peer is; return the sides that are here."""
        known = {line["identity"]: line for line in self.stream.of("identity")}
        dtypes = list(dict.fromkeys(case.dtype for case in self.spec.cases))
        devices = {side.device for side in self.spec.sides}
        others = [peer for peer in TABLE if peer.device not in devices]
        sides = []
        for peer in [*self.spec.sides, *others]:
            if peer.name not in known:
                self.progress(0.0, f"looking at {peer.name}")
                known[peer.name] = self._identity(peer, dtypes)
                self.stream.append(known[peer.name])
            found = known[peer.name]["found"]
            if not found["absent"] and peer not in others:
                sides.append(peer)
                self._settings[peer.name] = found["environment"]
        return sides

    def _identity(self, peer: Peer, dtypes: list[str]) -> dict[str, Any]:
        able = [x for x in dtypes if peer.multiplies(np.dtype(x))] or ["float32"]
        if BEST not in peer.environment.values():
            found = asdict(identify(peer, able, self.spec.threads))
            return {"identity": peer.name, "found": found, "tried": {}}
        parts, tried = [], {}
        for dtype in able:
            tried[dtype] = rates = coretype_rates(self.spec.threads, dtype)
            best = {"OPENBLAS_CORETYPE": max(rates, key=lambda x: rates[x])} if rates else {}
            parts.append(identify(replace(peer, environment=best), [dtype], self.spec.threads))
        found = asdict(parts[0])
        for part in parts[1:]:
            found["kernels"].update(part.kernels)
            found["environment"].update(part.environment)
        return {"identity": peer.name, "found": found, "tried": tried}

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

    def _close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    # --- a case --------------------------------------------------------------------------------

    def _case(self, case: Case, sides: list[Peer]) -> None:
        able = [
            replace(side, environment=self._settings[side.name][case.dtype])
            for side in sides
            if side.multiplies(np.dtype(case.dtype))
        ]
        rounds = [x["seconds"] for x in self.stream.of("round") if x["round"] == case.key]
        self._allow(2 * len(able) * (REST_SECONDS + 0.1 + guessed_seconds(case.shape)))
        before = load()
        prepared = self._prepare(case, able)
        able = [side for side in able if side.name in prepared]
        self.stream.append(
            {"prepared": case.key, "in": self.session, "load": before, "sides": prepared}
        )
        able = [side for side in able if "failed" not in prepared[side.name]]
        begun = time.monotonic()

        def keep(seconds: dict[str, float]) -> None:
            nonlocal begun
            self.stream.append({"round": case.key, "in": self.session, "seconds": seconds})
            rounds.append(seconds)
            self._worked = True
            self.progress(0.0, f"{case.key}, round {len(rounds)}")
            took, begun = time.monotonic() - begun, time.monotonic()
            self._allow(took)

        timers = [Side(side.name, self._worker(side).seconds) for side in able]
        interleave(timers, self.spec.rounds, seconds=self.spec.case_seconds, earlier=rounds,
                   after_round=keep)  # fmt: skip
        self.stream.append({"done": case.key, "load": load()})

    def _prepare(self, case: Case, able: list[Peer]) -> dict[str, Any]:
        dtype = np.dtype(case.dtype)
        found: dict[str, Any] = {}
        with SharedOperands(case.shape, dtype, zlib.crc32(case.key.encode())) as operands:
            for side in able:
                self.progress(0.0, f"{case.key}, {side.name}")
                try:
                    found[side.name] = self._worker(side).prepare(operands)
                except AbsentError:
                    continue
                except RuntimeError as error:
                    found[side.name] = {"failed": str(error)}
                    self._drop(side)
        return found


def self_check(threads: int) -> dict[str, Any]:
    """Compare NumPy with itself, in two processes: the median ratio must come out at 1.00.

    Tried twice, because one hiccup of the machine is not yet a noisy one.
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
