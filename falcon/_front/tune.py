"""`machine`, `tune`, `compare`: what is known of the machine; measuring instead of predicting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from falcon._backends import available_backends
from falcon._core.dtypes import of
from falcon._core.options import thread_count
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.problem import Problem
from falcon.decision import MachineProfile, profile
from falcon.decision.machine import measure_all, replaced
from falcon.decision.tuned import Choice, remember

from .families.numpy import NUMPY
from .planner import plan_for, requested
from .validate import check_numeric

# Threads of OpenBLAS spin for almost 0.1 s after a call: falcon's next call took up to twice as
# long (Strassen at 1500, 2 threads). Falcon's own sleep sooner.
_REST_AFTER = {"numpy": 0.12}
_REST_SECONDS = 0.02
# Two sides closer than this are equal: the model's choice stays.
_CLEARLY = 1.01


def machine() -> MachineProfile:
    """Return what has been measured of this machine: stored earlier, or so far in this process.

    Returns
    -------
    MachineProfile
        Immutable; a later decision that needs another backend or dtype makes a new one. Nothing
        is measured here: `python -m falcon tune` does, and the first decision that needs it.

    Examples
    --------
    >>> import falcon
    >>> "cpu" in falcon.machine().key
    True
    """
    return profile(available_backends())


def measure_machine(
    dtypes: Iterable[npt.DTypeLike], threads: Sequence[int], tick: Callable[[str], None]
) -> MachineProfile:
    """Measure this machine thoroughly and store the profile; see `machine.measure_all`."""
    counts = sorted({thread_count(x) for x in threads})
    return measure_all(available_backends(), [of(np.dtype(x)) for x in dtypes], counts, tick)


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and what it took.

    Attributes
    ----------
    candidate : Candidate
    seconds : float
        Least of the rounds.
    ratio : float
        Median over the rounds of its time over that of the first candidate.
    """

    candidate: Candidate
    seconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """What `tune` found for a shape: the candidates that it measured, the choice first."""

    problem: Problem
    measured: tuple[Measured, ...]

    def __str__(self) -> str:
        first = self.measured[0]
        label = f"{first.candidate.option.label} on {first.candidate.option.backend}"
        return f"{self.problem}: {label}, {first.seconds * 1e3:.2f} ms"


def tune(
    shapes: Iterable[tuple[int, int, int]],
    *,
    dtype: npt.DTypeLike = np.float32,
    candidates: int = 5,
    rounds: int = 5,
    backend: str = "auto",
    max_growth: float | None = None,
    threads: int | None = None,
    tick: Callable[[], None] | None = None,
) -> list[Tuned]:
    """Measure the candidates of best predicted time for each shape, and remember the fastest.

    What is remembered is used by later calls, also in other processes on this machine, where the
    setting `tuned` is on: ``falcon.config(tuned=True)`` or FALCON_TUNED=1. A profile pinned by
    FALCON_PROFILE overrules it.

    Parameters
    ----------
    shapes : iterable of (M, N, K)
    dtype : dtype
        float32 by default.
    candidates : int
        How many are measured per shape, besides the classical algorithms.
    rounds : int
        Interleaved timings of each.
    backend, max_growth, threads
        As for `gemm`.
    tick : callable, optional
        Called after every shape.

    Returns
    -------
    list of Tuned

    Raises
    ------
    ValueError, TypeError
        As `gemm`; a shape is not three positive integers; `candidates` or `rounds` is below 1.

    Examples
    --------
    >>> import falcon
    >>> falcon.tune([], dtype="float64")
    []
    """
    native = np.dtype(dtype).newbyteorder("=")
    check_numeric("dtype", native)
    for name, value in (("candidates", candidates), ("rounds", rounds)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a positive integer")
    given = {"backend": backend, "max_growth": max_growth, "threads": threads}
    options = replace(requested("tune", tuple(given), given), tuned=False)
    found = []
    for shape in shapes:
        sizes = tuple(shape)
        if len(sizes) != 3 or not all(
            isinstance(x, int | np.integer) and not isinstance(x, bool) and x > 0 for x in sizes
        ):
            raise ValueError(f"shape {shape!r}: expected three positive integers M, N, K")
        M, N, K = map(int, sizes)
        problem = NUMPY.problem((M, K), (K, N), None, None, of(native), options)
        measured = compare(plan_for(problem, options), candidates, rounds)
        best = min(measured, key=lambda x: x.ratio)
        if best.ratio * _CLEARLY > measured[0].ratio:
            best = measured[0]
        option = best.candidate.option
        label = None if option.scheme is None else option.scheme.name
        remember(problem, Choice(option.backend, label, best.seconds), available_backends())
        replaced()  # after every shape: Ctrl-C leaves what was done
        others = tuple(x for x in measured if x is not best)
        found.append(Tuned(problem, (best, *others)))
        if tick is not None:
            tick()
    return found


def compare(plan: Plan, most: int, rounds: int) -> list[Measured]:
    """Measure the choice of a plan, its `most` best candidates and every classical algorithm.

    Parameters
    ----------
    plan : Plan
        Of operands that BLAS can read as they stand.
    most : int
        Candidates by predicted time, the choice among them.
    rounds : int
        Timings per candidate; they take turns.

    Returns
    -------
    list of Measured
        The choice first.
    """
    problem = plan.problem
    first = Candidate(plan.option, plan.seconds)
    rivals = [x for x in plan.candidates[1:] if x.allowed]
    rivals = rivals[: most - 1] + [x for x in rivals[most - 1 :] if x.option.scheme is None]
    sides = [first, *rivals]
    backends = {x.name: x for x in available_backends()}
    some = np.random.default_rng(0).integers(0, 9, 2**12).astype(problem.operand.numpy)
    a, b = np.resize(some, (problem.M, problem.K)), np.resize(some, (problem.K, problem.N))
    out = np.empty((problem.M, problem.N), problem.result.numpy)

    def call(option: Option) -> Callable[[], None]:
        made = plan.instead(option, backends[option.backend])
        return lambda: made.backend.execute(made, a, b, None, out)

    rests = [rest_after(x.option.backend) for x in sides]
    times = take_turns([call(x.option) for x in sides], rounds, rests)
    return [
        Measured(side, min(x), median(a / b for a, b in zip(x, times[0], strict=True)))
        for side, x in zip(sides, times, strict=True)
    ]


def rest_after(backend: str) -> float:
    """Seconds of sleep after which a backend's threads disturb nobody."""
    return _REST_AFTER.get(backend, _REST_SECONDS)


def take_turns(
    calls: Sequence[Callable[[], Any]],
    rounds: int,
    rests: Sequence[float],
    *,
    least: int = 1,
    alternate: bool = False,
) -> list[list[float]]:
    """Time every call once per round, in turn; if one is short, all count by the fastest of a few.

    Parameters
    ----------
    rests : sequence of float
        Seconds of sleep after each call's timing.
    least : int
        Every call counts by the fastest of at least that many, unless all take a tenth of a second.
    alternate : bool
        Every other round goes through the calls backwards.

    Returns
    -------
    list per call of list of float
        Seconds.
    """
    found: list[list[float]] = [[] for _ in calls]
    shortest = float("inf")
    for call, rest in zip(calls, rests, strict=True):
        shortest = min(shortest, _seconds(call))
        time.sleep(rest)
    count = max(least if shortest < 0.1 else 1, min(40, int(0.02 / shortest) + 1))
    turns = list(zip(calls, found, rests, strict=True))
    for number in range(rounds):
        for call, times, rest in reversed(turns) if alternate and number % 2 else turns:
            times.append(min(_seconds(call) for _ in range(count)))
            time.sleep(rest)
    return found


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)
