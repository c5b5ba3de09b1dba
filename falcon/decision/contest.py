"""Plans that last: by what was measured in calls, else by the model; and contests on real calls.

A forecast from a moment's rates may be wrong; the calls themselves are the best measurement. After
20 calls of a problem, then 40, 80 ..., at most six times, two calls run the choice as always and
then a rival on the same operands, into scratch memory: the first wakes its threads and touches its
memory, the second counts. Pairs count, not single times; what they show is stored (`learned.py`)
and serves later processes. All contests of a process together take at most 0.3 s, or 3 % of the
time that it multiplies if that is more, after a minute 0.75 %.

No lock is held by a thread that others wait for: a call that finds another contest going on does
without one, and a contest that fails changes nothing for the call, whose product is there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import perf_counter, sleep
from typing import Any

import numpy as np

from falcon._core.backend import Backend
from falcon._core.cpus import memory_bytes
from falcon._core.locks import ForkLock
from falcon._core.options import Options
from falcon._core.plan import Plan
from falcon._core.problem import Problem

from . import learned
from .candidates import are_candidates_made
from .learned import Choice, Entry, Learned
from .machine import replaced
from .rates import rates
from .select import choice_of, planned, select

_log = logging.getLogger("falcon")

# Seconds from which a prediction is worth storing.
_WORTH_KEEPING = 0.003
# Calls before the first contest.
_CALLS = 20
# Seconds that contests may take in any case; and their share of the time, in the first minute of
# multiplying and after it.
_LEAST, _MINUTE, _SHARE, _SHARE_LATER = 0.3, 60.0, 0.03, 0.0075
# A rival is expected to take at most that many times as long as the choice: else it is no rival.
_EXPECTED = 1.15
# The result of a contest is thrown away; it takes at most this part of the memory.
_SCRATCH = 16
# What a call of less than _LONG seconds teaches is stored at the process's end. One of less than
# _SHORTEST is not compared: planning the rival would take as long.
_LONG, _SHORTEST = 0.02, 0.002

# Its attribute `without_contests` is set in threads whose calls are not compared:
# `falcon.accelerate` is not told whether `out` is new memory, whose first use takes as long as a
# small product.
this_thread = threading.local()
_lock = ForkLock()
_watches: list[Watch] = []
_spent = 0.0  # seconds


@dataclass(frozen=True, slots=True)
class Call:
    """The operands of a call, as `Plan.execute` takes them; `fresh`: `out` is new memory."""

    a: Any
    b: Any
    c: Any
    out: Any
    alpha: Any = 1
    beta: Any = 0
    fresh: bool = False

    def run(self, plan: Plan, out: Any) -> float:
        """Return the seconds of a plan."""
        start = perf_counter()
        plan.execute(self.a, self.b, self.c, out, alpha=self.alpha, beta=self.beta)
        return perf_counter() - start


class Watch:
    """Counts the calls of a plan, until it has been compared often enough.

    `key`: of the store.
    `told`: digest of the rates of the prediction.
    `entry`: what is stored; None: made when it is needed.
    `every`: all that run on the host.
    """

    def __init__(self, key: str, told: str, entry: Entry | None, every: Sequence[Backend]) -> None:
        self.key, self.told, self.entry, self.every = key, told, entry, every
        self.rival: tuple[Choice, Plan] | None = None
        self.calls, self.next = 0, _CALLS * 2 ** (entry.contests if entry is not None else 0)
        self.served, self.fastest, self.is_over = 0.0, inf, False

    def is_due(self, seconds: float) -> bool:
        """Count a call; return whether it is time for a contest."""
        self.calls += 1
        self.served += seconds
        if seconds < self.fastest:
            self.fastest = seconds
        return self.calls >= self.next


def plan_for(
    problem: Problem, options: Options, backends: Sequence[Backend], every: Sequence[Backend]
) -> Plan:
    """Plan a problem: by what was measured for it, else by the model.

    `backends`: those that may be used; see `falcon.decision.select`.
    `every`: all that run on the host; on a GPU, that one.
    """
    rates_of = partial(rates, backends=every)
    policy = backends[0].policy(problem)
    alone = len(backends) == 1 and policy.why_too_small(problem) is not None
    if alone or not policy.is_compared(problem) or not learned.is_storable(problem, options):
        return select(problem, options, backends, rates_of)
    key, told = learned.digest(problem, options), ""
    stored = learned.known(every).choices
    entry = _measured(stored, key, problem) if options.tuned else None
    if entry is None:
        told = learned.rates_digest([(x, rates_of(x, problem)) for x in backends])
        entry = stored.get(key)
        if entry is not None and (entry.known != "predicted" or entry.rates != told):
            entry = None
    # Once the candidates are made, comparing takes less time than building a stored choice.
    if entry is not None and (entry.known != "predicted" or not are_candidates_made()):
        made = planned(problem, options, backends, rates_of, entry.choice, entry.why)
        if made is not None:
            return _watched(replace(made, known=entry.known), Watch(key, told, entry, every))
    start = perf_counter()
    made = select(problem, options, backends, rates_of)
    watch = Watch(key, told, entry, every)
    if perf_counter() - start > _WORTH_KEEPING:
        watch.entry = predicted = _entry(made, told, entry)
        learned.change(lambda x: x.keep(key, _joined(x, key, predicted)), every)
    return _watched(made, watch)


def _measured(stored: dict[str, Entry], key: str, problem: Problem) -> Entry | None:
    """Return what was measured for a problem, or for the same product of operands by rows."""
    found = stored.get(key)
    if (found is None or found.known == "predicted") and not problem.symmetric:
        found = stored.get(learned.digest(problem.plain, Options()))
    return found if found is not None and found.known != "predicted" else None


def _entry(made: Plan, told: str, before: Entry | None) -> Entry:
    """Return a prediction as it is stored, with what is known of earlier comparisons."""
    rivals = tuple(choice_of(made.problem, x.option) for x in made.rivals)
    choice = choice_of(made.problem, made.option)
    entry = Entry(made.problem.in_full, choice, "predicted", made.why, told, rivals)
    if before is not None and before.choice == choice:
        entry = replace(entry, pairs=before.pairs, contests=before.contests)
    return entry


def _joined(found: Learned, key: str, mine: Entry) -> Entry:
    """Return the stored entry where that knows more of the same choice, else `mine`."""
    other = found.choices.get(key)
    same = other is not None and other.choice == mine.choice
    return other if other is not None and same and other.contests > mine.contests else mine


def _watched(made: Plan, watch: Watch) -> Plan:
    """Return the plan with its watch, where contests may be held and have not been."""
    entry, learn = watch.entry, made.options.learn
    rivals = made.rivals if entry is None else entry.rival()
    if learn == "off" or not rivals or not (learn == "now" or learned.has_file(watch.every)):
        return made
    _watches.append(watch)
    return replace(made, watch=watch)


def hold(plan: Plan, call: Call, seconds: float) -> None:
    """Hold a contest if it is time for one, after a call of `plan` that took some seconds."""
    global _spent
    watch, lock = plan.watch, _lock.lock
    if getattr(this_thread, "without_contests", False):
        return
    if watch.served < _SHORTEST * watch.calls:
        watch.is_over = True
    if watch.is_over or not lock.acquire(blocking=False):
        return
    start = perf_counter()
    try:
        if not _is_affordable(watch):
            watch.next = watch.calls + watch.calls // 8 + 1
        elif watch.rival is None:
            _prepare(plan, call)
        else:
            _compare(plan, call, seconds, plan.options.learn == "now")
    except Exception as error:  # the product is there, whatever happens to a contest
        watch.is_over = True
        _log.info("falcon: %s is not compared any more: %s", plan.problem, error)
    finally:
        lock.release()
        _spent += perf_counter() - start


def hold_now(plan: Plan, call: Call) -> None:
    """Hold all contests of a plan at once, and use what they show in this process too."""
    watch = plan.watch
    while watch is not None and not watch.is_over:
        watch.is_due(call.run(plan, call.out))
        seconds = call.run(plan, call.out)
        watch.is_due(seconds)
        if watch.rival is None:
            _prepare(plan, call)
        else:
            _compare(plan, call, seconds, True)


def _is_affordable(watch: Watch) -> bool:
    """Whether contests, with one more, stay within their share of the time."""
    served = sum(x.served for x in _watches)
    most = _SHARE * min(served, _MINUTE) + _SHARE_LATER * max(0.0, served - _MINUTE)
    runs = 2 if watch.rival is None else 1
    return _spent + runs * _EXPECTED * watch.served / watch.calls <= max(most, _LEAST)


def _prepare(plan: Plan, call: Call) -> None:
    """Plan the next rival, and run it for the first time."""
    watch, problem, options = plan.watch, plan.problem, plan.options
    if watch.entry is None:
        watch.entry = _entry(plan, watch.told, None)
    rival = watch.entry.rival()
    able = [x for x in watch.every if x.why_not(problem) is None]
    made = rival and planned(
        problem, options, able, partial(rates, backends=watch.every), rival, "compared"
    )
    nbytes = problem.M * problem.N * problem.result.itemsize
    most = memory_bytes() // _SCRATCH
    if made and options.workspace_limit is not None:
        most = min(most, options.workspace_limit - made.workspace)
    if not made or nbytes > most:
        watch.is_over = True
        return
    call.run(made, np.empty_like(call.out))
    watch.rival = rival, made


def _compare(plan: Plan, call: Call, seconds: float, in_this_process: bool) -> None:
    """Run the rival after a call of the choice that took some seconds, and store the outcome."""
    watch = plan.watch
    rival, made = watch.rival
    scratch = np.empty_like(call.out)
    if not call.fresh:
        scratch.fill(0)  # memory that was written to before, as that of the choice
    if made.backend.name != plan.backend.name and plan.threads > 1:
        sleep(plan.backend.rest)
    took = call.run(made, scratch)
    usual, before = watch.served / watch.calls, watch.entry
    outcome = rival, took / min(seconds, usual), took / watch.fastest

    def update(found: Learned) -> None:
        found.keep(watch.key, _joined(found, watch.key, before).compared(*outcome))

    soon = in_this_process or seconds > _LONG
    learned.change(update, watch.every, in_this_process=in_this_process, soon=soon)
    watch.entry, watch.rival = before.compared(*outcome), None
    watch.next = _CALLS * 2**watch.entry.contests
    if watch.entry.choice != before.choice:
        watch.is_over = True  # this process keeps its plan
        if in_this_process:
            replaced()
    watch.is_over = watch.is_over or watch.entry.rival() is None
