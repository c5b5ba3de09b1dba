"""A run without libraries: peers whose speed is given, a clock that only they move."""

import json
from argparse import Namespace
from typing import ClassVar

import pytest

from falcon.bench import suite
from falcon.bench.compare import SideError
from falcon.bench.peers import FALCON, TABLE, falcon_peer
from falcon.bench.run import Run
from falcon.bench.workloads import Case, Shape

from ..doors import Doors

MACHINE = {"cpu": "Test", "cpus": 2, "caches": {"l1d": 32768}, "memory": 2**34,
           "system": "none", "python": "3", "numpy": "2"}  # fmt: skip
PEAK = {"threads": 2, "gflops": [{"dtype": "float32", "isa": "wide", "gflops": 9.5}]}


class FakeWorker:
    """Multiplies in the time that `speeds` says, a list whose last entry repeats."""

    clock: ClassVar = None
    speeds: ClassVar = {}
    log: ClassVar = []
    broken: ClassVar = set()
    share: ClassVar = 1.0  # of a CPU that its process has
    started: ClassVar = []
    stopped = ""

    def __init__(self, peer, threads):
        self.peer, self.name = peer, peer.name
        self.started.append((peer.name, dict(peer.environment)))

    def seconds(self, repeats=1):
        self.log.append((self.name, repeats))
        times = self.speeds[self.name]
        seconds = times.pop(0) if len(times) > 1 else times[0]
        self.clock.move(repeats * seconds)
        return seconds

    def spent(self):
        return self.share * self.clock.now, self.clock.now

    def ask(self, do, **request):
        if do == "prepare":
            if self.name in self.broken:
                raise SideError(self.name, "MemoryError")
            self.clock.move(self.speeds[self.name][0])
            plan = {"backend": "cpu", "scheme": "strassen", "workspace": 2**20, "growth": 2.0}
            return {"error": 1e-16, "extra_bytes": 2**21,
                    "plan": plan if self.name.startswith("falcon") else None}  # fmt: skip
        if self.peer.library == "mkl":
            raise SideError(self.name, "not installed")
        names = {"Old": "narrow", "Older": "narrow"}
        kernel = names.get(self.peer.environment.get("OPENBLAS_CORETYPE"), "wide")
        told = {"library": self.peer.library, "version": "1.0", "threads": 2, "kernel": kernel}
        return {x: dict(told) for x in request["dtypes"]}

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def pretend(monkeypatch, **speeds):
    """Replace what a suite needs from outside; return the class of workers."""
    doors = Doors(monkeypatch)
    FakeWorker.clock, FakeWorker.log, FakeWorker.broken = doors.clock(), [], set()
    FakeWorker.started = []
    FakeWorker.speeds = {name.replace("_", " "): list(x) for name, x in speeds.items()}
    doors.workers(FakeWorker)
    doors.peers(peak=PEAK, machine=MACHINE)
    rates = {"float32": {"Zen": 5.0, "Old": 2.0}, "float64": {"Zen": 5.0, "Old": 7.0}}
    doors.numbers(coretypes=("Old", "Older", "Zen"))
    doors.peers(rates=lambda workers, dtype, seconds: rates[dtype])
    return FakeWorker


def comparison(*, sizes=(8, 16), dtypes=("float32",), more=(), rounds=5, case_seconds=1e9):
    """Falcon, its classical path and NumPy."""
    nothing = dict.fromkeys(("dtype", "shape", "model", "workload", "quick", "max_gib"))
    options = Namespace(**nothing, sizes=[], threads=2, rounds=rounds, case_seconds=case_seconds)
    what = suite.BesidePeers(options, {})
    what.cases = [Case("squares", Shape(n, n, n), x) for x in dtypes for n in sizes]
    what.peers = [FALCON, falcon_peer("falcon classical", scheme="classical"), TABLE[0], *more]
    return what


def whole_run():
    """The document of a whole run, by pretended workers."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.1], numpy=[1.2])
        mkl = next(x for x in TABLE if x.name == "mkl")
        kept = Run(None, comparison(dtypes=("float32", "float64"), more=(mkl,)))
        assert kept.measure(float("inf"))
        return json.loads(json.dumps(kept.document))
