"""Falcon beside its peers, case by case, in interleaved rounds; can be stopped and resumed."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from falcon._core.dtypes import of
from falcon._core.timing import REST_SECONDS, TOLERANCE, Side, interleave, records_of

from .identify import identify
from .operands import SharedOperands
from .own import Task
from .peers import BEST, TABLE, AbsentError, Peer, Worker, coretype_rates
from .records import case_entry, session
from .run import Run
from .system import load
from .workloads import Case, Shape, guessed_seconds

# The comparison of NumPy with itself: the product, and how many pairs.
_CHECKED = Shape(1024, 1024, 1024)
_CHECK_PAIRS = 9


@dataclass(frozen=True)
class Spec:
    """What is to be measured.

    Attributes
    ----------
    cases : list of Case
    sides : list of Peer
        Falcon first, whose speed-ups over the others are computed.
    tasks : list of Task
        Measurements of falcon alone.
    threads : int
    rounds : int
        Least number of rounds of a case.
    case_seconds : float
        Time after which a case gets no rounds beyond these, even if a ratio is not known.
    """

    cases: list[Case]
    sides: list[Peer]
    tasks: list[Task]
    threads: int
    rounds: int
    case_seconds: float

    def asked(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return what must be the same when a run is resumed."""
        return {
            "machine": machine,
            "threads": self.threads,
            "rounds": self.rounds,
            "cases": [case.key for case in self.cases],
            "sides": [asdict(side) for side in self.sides],
            "tasks": [task.key for task in self.tasks],
        }

    def seconds(self, case: Case) -> float:
        """Guess how long a case takes."""
        sides = sum(side.multiplies(of(case.dtype).numpy) for side in self.sides)
        return (self.rounds + 1) * sides * (REST_SECONDS + 0.1 + guessed_seconds(case.shape))


class TimeUpError(Exception):
    """The time budget is used up."""


class Suite:
    """One session of a run: measures what is not measured yet, until the time is up.

    Parameters
    ----------
    spec : Spec
    kept : Run
    deadline : float
        In terms of `time.monotonic`; at least one round is always made.
    progress : callable
        Called with the guessed seconds of the step just done, and its name.
    """

    def __init__(
        self, spec: Spec, kept: Run, deadline: float, progress: Callable[[float, str], None]
    ) -> None:
        self.spec, self.kept, self.deadline = spec, kept, deadline
        self.progress = progress
        self.session = len(kept.found["sessions"])
        self._workers: dict[str, Worker] = {}
        # The identity of every peer, filled by `_identified`.
        self._known: dict[str, dict[str, Any]] = {}
        self._worked = False

    def run(self) -> bool:
        """Measure; return whether the run is complete."""
        found, cases = self.kept.found, self._left(self.spec.cases)
        if not cases and not self._left(self.spec.tasks):
            return True
        before = {"before": load(), "after": None}
        found["sessions"].append(session(before, self_check(self.spec.threads)))
        try:
            sides = self._identified()
            for case in cases:
                self._case(case, sides)
                self.progress(self.spec.seconds(case), case.key)
            self._close()
            for task in self._left(self.spec.tasks):
                self._allow(task.seconds)
                made = task.run()
                if task.kind == "peak":
                    found["peak"] = made[0]
                else:
                    found[task.kind] += made
                self.kept.finish(task.key)
                self._worked = True
                self.progress(task.seconds, task.key)
        except TimeUpError:
            return False
        finally:
            self._close()
            before["after"] = load()
            self.kept.save()
        return True

    def _left(self, parts: Sequence[Any]) -> list[Any]:
        return [x for x in parts if x.key not in self.kept.done]

    def _allow(self, seconds: float) -> None:
        """Stop the session if these seconds would exceed its time."""
        if self._worked and time.monotonic() + seconds > self.deadline:
            raise TimeUpError

    # --- the peers ---------------------------------------------------------------------------

    def _identified(self) -> list[Peer]:
        """Identify every peer, once per run; return the sides that are installed."""
        known = {x["peer"]: x for x in self.kept.found["peers"]}
        dtypes = list(dict.fromkeys(case.dtype for case in self.spec.cases))
        devices = {side.device for side in self.spec.sides}
        others = [peer for peer in TABLE if peer.device not in devices]
        for peer in [*self.spec.sides, *others]:
            if peer.name not in known:
                self.progress(0.0, f"identifying {peer.name}")
                known[peer.name] = self._identity(peer, dtypes)
                self.kept.found["peers"].append(known[peer.name])
        self._known = known
        return [peer for peer in self.spec.sides if not known[peer.name]["absent"]]

    def _identity(self, peer: Peer, dtypes: list[str]) -> dict[str, Any]:
        able = [x for x in dtypes if peer.multiplies(of(x).numpy)] or ["float32"]
        if BEST not in peer.environment.values():
            return {**asdict(identify(peer, able, self.spec.threads)), "tried": {}}
        parts, tried = [], {}
        for dtype in able:
            tried[dtype] = rates = coretype_rates(self.spec.threads, dtype)
            best = {"OPENBLAS_CORETYPE": max(rates, key=lambda x: rates[x])} if rates else {}
            parts.append(identify(replace(peer, environment=best), [dtype], self.spec.threads))
        found = asdict(parts[0])
        for part in parts[1:]:
            found["kernels"].update(part.kernels)
            found["environment"].update(part.environment)
        return {**found, "tried": tried}

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
            replace(side, environment=self._known[side.name]["environment"][case.dtype])
            for side in sides
            if side.multiplies(of(case.dtype).numpy)
        ]
        held = self.kept.case(case.key) or {"sessions": [], "sides": {}, "load": None}
        rounds = [
            dict(zip(held["sides"], x, strict=True))
            for x in zip(*(side["seconds"] for side in held["sides"].values()), strict=True)
        ]
        self._allow(2 * len(able) * (REST_SECONDS + 0.1 + guessed_seconds(case.shape)))
        looked = held["load"] or {"before": load(), "after": None}
        about, failed = self._prepare(case, able)
        sessions = sorted({*held["sessions"], self.session})
        begun = time.monotonic()

        def keep(seconds: dict[str, float]) -> None:
            nonlocal begun
            rounds.append(seconds)
            measured = [x for x in records_of(rounds) if x.name in about]
            self.kept.put_case(case_entry(case, measured, about, sessions=sessions, load=looked,
                                          failed=failed))  # fmt: skip
            self._worked = True
            self.progress(0.0, f"{case.key}, round {len(rounds)}")
            took, begun = time.monotonic() - begun, time.monotonic()
            self._allow(took)

        timers = [Side(x.name, self._worker(x).seconds) for x in able if x.name in about]
        interleave(timers, self.spec.rounds, seconds=self.spec.case_seconds, earlier=tuple(rounds),
                   after_round=keep)  # fmt: skip
        looked["after"] = load()
        self.kept.finish(case.key)

    def _prepare(
        self, case: Case, able: list[Peer]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Let every side multiply once; return facts of those that can, errors of the others."""
        about: dict[str, dict[str, Any]] = {}
        failed = {}
        with SharedOperands(
            case.shape, of(case.dtype).numpy, zlib.crc32(case.key.encode())
        ) as operands:
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
