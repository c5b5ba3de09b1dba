"""Measuring rates during use, for later processes.

A process decides by the rates that it started with, so that its plans, and the bits of its results,
stay the same. Once it has multiplied for twenty times as long as measuring takes, it measures the
rates that are missing, or checks whether stored rates still fit, and stores the outcome for later
processes. Nothing is measured under a pinned profile, or where nothing can be stored.
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
# Seconds that measuring and checking a backend are expected to take; the real ones are added up.
_MEASURING, _CHECKING = 1.0, 0.03
# Checks in a process, and the seconds between them: a slow minute must not spoil all of them.
_CHECKS = 3
_PAUSE_SECONDS = 45.0


@dataclass
class _Account:
    """Seconds spent on products of one dtype and number of threads, and what is not measured."""

    multiplying: float = 0.0
    measuring: float = 0.0
    begun: float = 0.0
    checks: dict[str, int] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    is_over: bool = False


_lock = ForkLock()
_accounts: dict[tuple[str, int], _Account] = {}


def is_over(problem: Problem) -> bool:
    """Whether nothing is left to be measured for products of this type and number of threads."""
    account = _accounts.get((problem.operand.left.name, problem.threads))
    return account is not None and account.is_over


def spent(problem: Problem, seconds: float, backends: Sequence[Backend]) -> None:
    """Count the seconds of a product; measure once enough have been spent.

    Parameters
    ----------
    backends : sequence of Backend
        All that run on the host.
    """
    problem = problem.measured
    key = problem.operand.name, problem.threads
    account = _accounts.get(key)
    if account is None:
        account = _accounts.setdefault(key, _open(problem, backends))
    account.multiplying += seconds
    if account.is_over or account.multiplying < _SHARE * (account.measuring + _CHECKING):
        return
    with _lock.lock:
        if account.is_over:
            return
        start = perf_counter()
        if not _checked(account, problem, backends) and not _measured(account, problem, backends):
            return
        account.measuring += perf_counter() - start
        account.is_over = not account.missing and not _to_check(account, problem, backends)


def _open(problem: Problem, backends: Sequence[Backend]) -> _Account:
    """Return an account that lists what is not measured yet."""
    known = machine.profile(backends)
    if known.pinned or not machine.is_kept(backends) or _must_not_measure(problem):
        return _Account(is_over=True)
    able = {x.name for x in _compared(problem, backends)}
    keys = {name: known.rates.get(machine.entry(name, problem)) for name in able}
    missing = {name for name, rates in keys.items() if rates is not None and not rates.measured}
    return _Account(begun=perf_counter(), missing=missing)


def _must_not_measure(problem: Problem) -> bool:
    """Whether the product is on a device, or needs threads that a forked child cannot start."""
    return problem.device is not None or (in_forked_child() and problem.threads > 1)


def _compared(problem: Problem, backends: Sequence[Backend]) -> list[Backend]:
    return [x for x in backends if x.why_classical_only(problem) is None]


def _to_check(account: _Account, problem: Problem, backends: Sequence[Backend]) -> list[Backend]:
    """Backends with stored rates that this process has not checked often enough."""
    rates = machine.profile(backends).rates
    found = []
    for x in _compared(problem, backends):
        known = rates.get(machine.entry(x.name, problem))
        if known is not None and known.measured and account.checks.get(x.name, 0) < _CHECKS:
            found.append(x)
    return found


def _checked(account: _Account, problem: Problem, backends: Sequence[Backend]) -> bool:
    """Check one backend, if it is time; one that is faster than stored is measured again."""
    for backend in _to_check(account, problem, backends):
        count = account.checks.get(backend.name, 0)
        if perf_counter() - account.begun < count * _PAUSE_SECONDS:
            continue
        account.checks[backend.name] = count + 1
        # A slower machine is only busy now, and will be as fast as stored again.
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
