"""What is measured on the way, for the processes to come.

A process decides by the rates that it began with, so that its plans, and their bits, stay the same.
Once it has spent twenty times as long in multiplying as it takes to measure, it measures what is
missing, or looks whether stored rates still fit, and stores the outcome: the next process begins
with that. Nothing happens under a pinned profile, nor where nothing can be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from falcon._core.backend import Backend
from falcon._core.locks import ForkLock, in_forked_child
from falcon._core.problem import Problem

from . import machine

# Seconds of multiplying per second of measuring.
_SHARE = 20.0
# What measuring a backend, and a look at it, take (seconds); afterwards what they took counts.
_MEASURING, _LOOKING = 1.0, 0.03
# How often a process looks whether rates fit: a slow minute must end in between.
_LOOKS = 3
_PAUSE_SECONDS = 45.0


@dataclass
class _Account:
    """What a process has spent on products of one type and number of threads, and owes."""

    multiplying: float = 0.0
    measuring: float = 0.0
    begun: float = 0.0
    looks: dict[str, int] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    is_over: bool = False


_lock = ForkLock()
_accounts: dict[tuple[str, int], _Account] = {}


def is_over(problem: Problem) -> bool:
    """Whether nothing is left to be measured for products of this type and number of threads."""
    account = _accounts.get((problem.operand.name, problem.threads))
    return account is not None and account.is_over


def spent(problem: Problem, seconds: float, backends: Sequence[Backend]) -> None:
    """Count the seconds of a product that was compared; measure where enough have been spent.

    Parameters
    ----------
    backends : sequence of Backend
        All that run on the host.
    """
    key = problem.operand.name, problem.threads
    account = _accounts.get(key)
    if account is None:
        account = _accounts.setdefault(key, _open(problem, backends))
    account.multiplying += seconds
    if account.is_over or account.multiplying < _SHARE * (account.measuring + _LOOKING):
        return
    with _lock.lock:
        if account.is_over:
            return
        start = perf_counter()
        if not _looked(account, problem, backends) and not _measured(account, problem, backends):
            return
        account.measuring += perf_counter() - start
        account.is_over = not account.missing and not _to_look_at(account, problem, backends)


def _open(problem: Problem, backends: Sequence[Backend]) -> _Account:
    """Return an account that owes what is not measured yet."""
    known = machine.profile(backends)
    if known.pinned or not machine.is_kept(backends) or _must_not_measure(problem):
        return _Account(is_over=True)
    able = {x.name for x in _compared(problem, backends)}
    keys = {name: known.rates.get(machine.entry(name, problem)) for name in able}
    missing = {name for name, rates in keys.items() if rates is not None and not rates.measured}
    return _Account(begun=perf_counter(), missing=missing)


def _must_not_measure(problem: Problem) -> bool:
    """Whether a forked child would measure OpenMP threads that it cannot start."""
    return problem.device is not None or (in_forked_child() and problem.threads > 1)


def _compared(problem: Problem, backends: Sequence[Backend]) -> list[Backend]:
    return [x for x in backends if x.why_classical_only(problem) is None]


def _to_look_at(account: _Account, problem: Problem, backends: Sequence[Backend]) -> list[Backend]:
    """Backends with stored rates, at which this process has not looked often enough."""
    rates = machine.profile(backends).rates
    found = []
    for x in _compared(problem, backends):
        known = rates.get(machine.entry(x.name, problem))
        if known is not None and known.measured and account.looks.get(x.name, 0) < _LOOKS:
            found.append(x)
    return found


def _looked(account: _Account, problem: Problem, backends: Sequence[Backend]) -> bool:
    """Look at one backend, if it is time; what is faster than stored is measured again."""
    for backend in _to_look_at(account, problem, backends):
        count = account.looks.get(backend.name, 0)
        if perf_counter() - account.begun < count * _PAUSE_SECONDS:
            continue
        account.looks[backend.name] = count + 1
        # A machine that is slower is busy now and will be as fast as stored again.
        if machine.is_faster_than_stored(backend, problem, backends):
            account.missing.add(backend.name)
        return True
    return False


def _measured(account: _Account, problem: Problem, backends: Sequence[Backend]) -> bool:
    """Measure one backend, if the process has multiplied long enough."""
    if account.multiplying < _SHARE * (account.measuring + _MEASURING):
        return False
    for backend in _compared(problem, backends):
        if backend.name in account.missing:
            account.missing.discard(backend.name)
            machine.measure_for_later(backend, problem, backends)
            return True
    return False
