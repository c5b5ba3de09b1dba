"""Contests on real calls: when they are held, what they cost, what they change."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS, available_backends
from falcon._core.dtypes import of
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon.decision import contest, learned, machine
from falcon.decision import rates as rates_module
from falcon.decision.contest import Call, hold, plan_for

from . import support

pytestmark = pytest.mark.skipif(
    BACKENDS["cpu"].why_unavailable() is not None, reason="a single backend has no rivals"
)

PROBLEM = Problem(700, 700, 700, of("float32"), a_strided=True, b_strided=True)
A = np.ones((700, 700), np.float32)


@pytest.fixture(autouse=True)
def known(folder, monkeypatch):
    """Nothing, whatever other tests register."""
    monkeypatch.setattr(learned, "generation", lambda: 0)
    forget(monkeypatch)
    yield
    machine.replaced()


def forget(monkeypatch):
    """As a new process."""
    support.forget(monkeypatch)
    monkeypatch.setattr(rates_module, "probed", lambda *_: {"cpu": 1.0, "numpy": 1.0})
    monkeypatch.setattr(contest, "_watches", [])
    monkeypatch.setattr(contest, "_spent", 0.0)
    machine.replaced()


def planned(**options):
    backends = available_backends()
    return plan_for(PROBLEM, Options(**options), backends, backends)


def rival_of(plan):
    return "cpu" if plan.backend.name == "numpy" else "numpy"


@pytest.fixture
def rivals(monkeypatch):
    """Rivals take this share of the time of the choice, 10 ms; returns their runs."""
    runs = []

    def run(self, plan, out):
        runs.append(plan)
        return 0.01 * runs_take[0]

    runs_take = [1.0]
    monkeypatch.setattr(Call, "run", run)
    monkeypatch.setattr(contest, "_LONG", 0.005)  # what they teach is stored at once
    return runs, runs_take


def serve(plan, calls, seconds=0.01, **about):
    call = Call(A, A, None, np.empty_like(A), **about)
    held = []
    for number in range(1, calls + 1):
        if plan.watch.is_over:
            break
        before = contest._spent
        if plan.watch.is_due(seconds):
            hold(plan, call, seconds)
        if contest._spent > before:
            held.append(number)
    return held


def entry(plan):
    return learned._read(learned._path(available_backends())).choices.get(plan.watch.key)


def test_contests_come_after_20_calls_then_after_twice_as_many(rivals):
    runs, take = rivals
    take[0] = 1.5
    plan = planned()
    assert serve(plan, 2000) == [20, 21, 40, 41]
    assert plan.watch.is_over, "the only rival has lost twice"
    assert len(runs) == 4
    assert [x.backend.name for x in runs] == [rival_of(plan)] * 4
    assert entry(plan).contests == 2 and entry(plan).known == "contested"


def test_none_where_a_thread_says_so(rivals, monkeypatch):
    monkeypatch.setattr(contest.this_thread, "without_contests", True, raising=False)
    serve(planned(), 200)
    assert rivals[0] == []


def test_short_calls_are_not_compared(rivals):
    plan = planned()
    assert serve(plan, 200, seconds=0.0019) == [] and plan.watch.is_over
    assert rivals[0] == []


def test_what_calls_of_some_milliseconds_teach_is_stored_at_the_end(rivals, monkeypatch):
    _, take = rivals
    take[0] = 0.8
    monkeypatch.setattr(contest, "_LONG", 0.02)
    ended = []
    monkeypatch.setattr(learned, "register", lambda *x: ended.append(x))
    plan = planned()
    serve(plan, 30)
    assert entry(plan) is None
    flush, *arguments = ended[-1]
    flush(*arguments)
    assert entry(plan).known == "contested"
    assert not learned._pending


def test_three_wins_change_the_choice_of_later_processes(rivals, monkeypatch):
    _, take = rivals
    take[0] = 0.95
    plan = planned()
    held = serve(plan, 2000)
    assert held[-1] == 81 and plan.watch.is_over
    assert planned().backend is plan.backend, "this process keeps its choice"
    forget(monkeypatch)
    later = planned()
    assert later.backend.name == rival_of(plan)
    assert later.known == "contested"
    assert "x as fast as classical on" in later.explain()


def test_a_clear_win_over_a_disturbed_call_is_not(rivals):
    _, take = rivals
    take[0] = 0.8
    plan = planned()
    plan.watch.is_due(0.005)  # one call was that fast
    serve(plan, 30)
    assert entry(plan).choice.backend == plan.backend.name


def test_learn_now_changes_this_process_too(rivals):
    _, take = rivals
    take[0] = 0.8
    plan, before = planned(learn="now"), machine.revision()
    serve(plan, 30)
    assert machine.revision() > before
    assert planned(learn="now").backend.name == rival_of(plan)


@pytest.mark.parametrize("how", ["off", "pinned", "no folder"])
def test_no_contests(monkeypatch, tmp_path, how):
    options = {"learn": "off"} if how == "off" else {}
    if how == "pinned":
        monkeypatch.setenv("FALCON_PROFILE", str(tmp_path / "none.json"))
    if how == "no folder":
        monkeypatch.setattr(learned, "cache_folder", lambda: None)
    assert planned(**options).watch is None


def test_a_clear_win_changes_later_processes_in_any_layout(rivals, monkeypatch):
    _, take = rivals
    take[0] = 0.8
    plan = planned()
    assert serve(plan, 2000) == [20, 21], "one over the fastest call is enough"
    forget(monkeypatch)
    other, backends = Problem(700, 700, 700, of("float32"), a_strided=True), available_backends()
    for problem in (PROBLEM, other):
        assert plan_for(problem, Options(), backends, backends).backend.name == rival_of(plan)
    assert planned(tuned=False).known == "predicted"


def test_contests_take_a_share_of_the_time(monkeypatch):
    """Calls of 10 s: 0.3 s are too little for one, 3 % of 80 calls are enough."""
    clock = [0.0]

    def run(self, plan, out):
        clock[0] += 15.0
        return 15.0

    monkeypatch.setattr(contest, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(Call, "run", run)
    plan = planned()
    held = serve(plan, 5000, seconds=10.0)
    assert held[0] > 300
    assert contest._spent <= 0.01 * 10.0 * held[-1]


@pytest.mark.parametrize("threads", [1, 2])
def test_rivals_wait_until_the_threads_of_the_choice_sleep(rivals, monkeypatch, threads):
    rested = []
    monkeypatch.setattr(contest, "sleep", rested.append)
    monkeypatch.setitem(globals(), "PROBLEM", replace(PROBLEM, threads=threads))
    plan = planned()
    serve(plan, 21)
    assert rested == ([] if threads == 1 else [plan.backend.rest])


@pytest.mark.parametrize("limit", [None, 2**40, 0])
def test_memory_beyond_the_limit_is_not_taken(rivals, limit):
    runs, _ = rivals
    try:
        plan = planned(workspace_limit=limit)
    except ValueError:
        return
    if plan.watch is not None:
        serve(plan, 100)
    assert bool(runs) == (limit != 0)


def test_a_failing_contest_changes_nothing_for_the_call(monkeypatch):
    def run(self, plan, out):
        raise MemoryError("no scratch")

    monkeypatch.setattr(Call, "run", run)
    plan = planned()
    serve(plan, 100)
    assert plan.watch.is_over
    assert entry(plan) is None


def test_calls_count_however_they_come(monkeypatch):
    held = []
    for module in ("recall", "execute"):
        monkeypatch.setattr(f"falcon._front.{module}.hold", lambda *x: held.append(x[0]))
    out = np.empty_like(A)
    for _ in range(10):
        falcon.matmul(A, A)
        falcon.gemm(A, A)
    watch = falcon.plan(A, A).watch
    assert watch.calls == 20 and len(held) == 1
    falcon.gemm(A, A, out=out)
    assert watch.calls == 21


def test_a_contest_writes_to_no_operand(monkeypatch):
    """The rival of a call with c and out writes elsewhere, also where out is c."""
    a, c = (np.random.default_rng(i).integers(-9, 9, (700, 700)).astype("f4") for i in range(2))
    expected = a @ a + c
    for _ in range(45):
        got = c.copy()
        falcon.gemm(a, a, got, beta=1.0, out=got)
        assert (got == expected).all()
    assert sum(x.entry.contests for x in contest._watches if x.entry is not None) >= 1


def test_threads_do_not_wait_for_a_contest(monkeypatch):
    """One thread holds a contest for as long as the others need for their calls."""
    begun, done = threading.Event(), threading.Event()

    def run(self, plan, out):
        begun.set()
        assert done.wait(30)
        return 1.0

    monkeypatch.setattr(Call, "run", run)
    plan = planned()
    call = Call(A, A, None, np.empty_like(A))
    for _ in range(19):
        plan.watch.is_due(0.01)
    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(lambda: plan.watch.is_due(0.01) and hold(plan, call, 0.01))
        assert begun.wait(30)
        other = np.ones((704, 700), np.float32)
        pool.submit(lambda: [falcon.gemm(other, A) for _ in range(50)]).result(timeout=60)
        done.set()
        holder.result(timeout=30)


SIGNAL = """
import signal, numpy as np, falcon
from falcon.decision.contest import Call
a = np.ones((700, 700), np.float32)
inside = []
def handler(*_):
    inside.append(len([falcon.gemm(a, a) for _ in range(50)]))
signal.signal(signal.SIGUSR1, handler)
run = Call.run
def interrupted(self, plan, out):
    signal.raise_signal(signal.SIGUSR1)
    return run(self, plan, out)
Call.run = interrupted
for _ in range(60):
    falcon.gemm(a, a)
print(sum(inside) > 0)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal on this system")
def test_a_signal_handler_may_multiply_during_a_contest(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SIGNAL], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "True"


# --- warm_up --------------------------------------------------------------------------------


def test_warm_up_compares_at_once(rivals):
    _, take = rivals
    before = planned().backend
    take[0] = 1.0
    falcon.warm_up([(700, 700, 700)], threads=1)
    found = planned()
    assert found.known == "contested" and found.backend is before


def test_warm_up_refuses():
    falcon.warm_up([(300, 310, 320)], dtype=">f8", threads=1)
    for shape in ((1, 2), (0, 5, 5), (1, 2, True), ("a", 1, 1)):
        with pytest.raises(ValueError, match="expected three positive integers"):
            falcon.warm_up([shape])
    with pytest.raises(TypeError, match="dtype"):
        falcon.warm_up(dtype="S5")


# --- predictions ----------------------------------------------------------------------------

LARGE = Problem(2100, 2000, 1900, of("float32"), a_strided=True, b_strided=True)


def large(**options):
    backends = available_backends()
    return plan_for(LARGE, Options(**options), backends, backends)


def as_new(monkeypatch):
    from falcon.decision import candidates

    forget(monkeypatch)
    candidates._candidates_of.cache_clear()


@pytest.mark.parametrize("options", [{}, {"max_growth": 1.0}])
def test_the_next_process_makes_the_same_plan_without_comparing(monkeypatch, options):
    monkeypatch.setattr(contest, "_WORTH_KEEPING", 0.0)
    as_new(monkeypatch)
    first = large(**options)
    table = first.explain()
    as_new(monkeypatch)
    monkeypatch.setattr(contest, "select", lambda *_: 1 / 0)
    second = large(**options)
    assert (second.option, second.why, second.seconds) == (first.option, first.why, first.seconds)
    assert second.scheme == first.scheme
    assert second.known == "predicted"
    monkeypatch.undo()
    assert second.explain() == table


def test_a_prediction_by_other_rates_is_not_used(monkeypatch):
    monkeypatch.setattr(contest, "_WORTH_KEEPING", 0.0)
    as_new(monkeypatch)
    large()
    as_new(monkeypatch)
    monkeypatch.setattr(rates_module, "probed", lambda *_: {"cpu": 0.8, "numpy": 1.0})
    compared = []
    select = contest.select
    monkeypatch.setattr(contest, "select", lambda *x: compared.append(x) or select(*x))
    large()
    assert compared


def test_what_a_user_registered_is_not_stored(monkeypatch):
    monkeypatch.setattr(contest, "_WORTH_KEEPING", 0.0)
    monkeypatch.setattr(learned, "generation", lambda: 1)
    assert large().watch is None
    assert not learned._read(learned._path(available_backends())).choices
