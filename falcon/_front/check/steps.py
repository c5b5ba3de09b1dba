"""The steps of a check, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from falcon._backends import BACKENDS, DEVICE
from falcon._core.config import config
from falcon._core.dtypes import DType
from falcon._core.options import FIELDS
from falcon._cpu.each import kernels
from falcon._cpu.extension import why_missing

from . import calls
from .exact import fractions, whole
from .kernels import of_isa, threads
from .large import large
from .record import machine
from .result import CheckResult, Row
from .speeds import Speed, compared, measure
from .trial import Failure, Trial, sizes_of

# Settings that say on what the process may run; all others are as by default while it is checked.
_KEPT = "threads", "share_threads"
_USUAL: Any = {name: x.default for name, x in FIELDS.items() if name not in _KEPT}


class Step(NamedTuple):
    """A part of the check; `run` adds to a trial."""

    name: str
    run: Callable[[Trial], None]


class Check:
    """A check that is running: `names` of its steps, and how many are `done`."""

    def __init__(self, *, speeds: bool = True) -> None:
        self._start = time.monotonic()
        self._steps = list(_steps())
        with config(**_USUAL):
            self._products = compared() if speeds else []
        self._rows: list[Row] = []
        self._failures: list[Failure] = []
        self._speeds: list[Speed] = []
        self.names = [x.name for x in self._steps]
        self.names += [f"speed of {sizes_of(sizes)} {row}" for row, sizes in self._products]
        self.done = 0

    def steps(self) -> Iterator[str]:
        """Run all steps; yield the name of each before it runs."""
        names = iter(self.names)
        try:
            for step in self._steps:
                yield next(names)
                with config(**_USUAL):
                    self._run(step)
                self.done += 1
            for row, sizes in self._products:
                yield next(names)
                with config(**_USUAL):
                    self._measure(row, sizes)
                self.done += 1
        finally:
            whole.cache_clear()
            fractions.cache_clear()

    def result(self) -> CheckResult:
        """Return what was found until now."""
        found = tuple(self._rows), tuple(self._failures), tuple(self._speeds)
        return CheckResult(*found, machine(), time.monotonic() - self._start)

    def _run(self, step: Step) -> None:
        trial, start = Trial(step.name), time.monotonic()
        try:
            step.run(trial)
        except MemoryError:
            trial.skip("not enough memory")
        except Exception as error:  # the other steps may still tell more
            trial.fail({"step": "the step itself"}, error)
        about = trial.products, trial.worst, len(trial.failures), trial.is_skipped
        self._rows.append(Row(trial.step, trial.about, *about, time.monotonic() - start))
        self._failures += trial.failures

    def _measure(self, row: DType, sizes: tuple[int, int, int]) -> None:
        trial = Trial("speed")
        try:
            self._speeds.append(measure(row, sizes))
        except MemoryError:
            return
        except Exception as error:
            trial.fail({"sizes": sizes_of(sizes), "type": str(row)}, error)
        self._failures += trial.failures


def _steps() -> Iterator[Step]:
    """Yield the steps for what runs here."""
    every = kernels()
    for isa in dict.fromkeys(x.isa for x in every):
        yield Step(f"kernels {isa}", partial(of_isa, [x for x in every if x.isa == isa]))
    if every:
        yield Step("threads", partial(threads, every))
    else:
        yield Step("kernels", lambda trial: trial.skip(why_missing()))
    for name in (*BACKENDS, DEVICE):
        yield Step(f"backend {name}", partial(calls.of_backend, name))
    yield Step("NaN and Inf", calls.not_finite)
    yield Step("batches", calls.batches)
    yield Step("packed B", calls.packed)
    yield Step("large product", large)
