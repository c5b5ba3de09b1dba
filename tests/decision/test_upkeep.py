"""A process decides by the rates that it started with, and measures for the next process."""

import dataclasses
from importlib import import_module

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS, available_backends
from falcon._core.dtypes import of
from falcon._core.probe import Probe
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon.decision import machine, upkeep
from falcon.decision.machine import profile, rates
from falcon.decision.store import read_profile

BEGIN = Rates(1e9, 1e9, 1e9, measured=False)
FOUND = Rates(2e9, 3e9, 4e9, probe=0.001)
F4 = of("float32")
PROBLEM = Problem(1, 1, 1, F4, threads=1)


class Made:
    """A backend whose speed is made up, and takes no time to measure."""

    rates_type = Rates

    def __init__(self, name="made up"):
        self.name, self.measured, self.probes = name, 0, []

    def identity(self, device=None):
        return {"kernels": "fast"}

    def why_classical_only(self, problem):
        return None

    def starting(self, problem, probe):
        self.probes.append(probe)
        return BEGIN

    def measure(self, problem, thorough=False):
        self.measured += 1
        return FOUND


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Start from a machine of which nothing is known, whose clock stands still."""
    as_a_new_process(monkeypatch)
    monkeypatch.setattr(machine, "_probe", lambda *_: 0.001)
    monkeypatch.setattr(upkeep, "perf_counter", lambda: 0.0)
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FALCON_PROFILE", raising=False)
    return tmp_path / "cache"


def as_a_new_process(monkeypatch):
    monkeypatch.setattr(machine, "_profiles", {})
    monkeypatch.setattr(machine, "_kept", True)
    monkeypatch.setattr(upkeep, "_accounts", {})


def multiply(backend, seconds):
    upkeep.spent(PROBLEM, seconds, [backend])


def test_a_process_begins_with_shipped_rates_and_stores_them(monkeypatch):
    backend = Made()
    assert rates(backend, PROBLEM, [backend]) == BEGIN
    as_a_new_process(monkeypatch)
    assert rates(backend, PROBLEM, [backend]) == BEGIN
    assert backend.probes == [True], "the probe of one process serves the next"
    assert backend.measured == 0
    assert "not measured yet" in str(profile([backend]))


def test_it_is_measured_after_twenty_times_the_time_for_the_next_process(monkeypatch):
    backend = Made()
    assert rates(backend, PROBLEM, [backend]) == BEGIN
    before = machine.revision()
    multiply(backend, 19.9)
    assert backend.measured == 0
    multiply(backend, 0.2)
    assert backend.measured == 1
    assert upkeep.is_over(PROBLEM)
    assert rates(backend, PROBLEM, [backend]) == BEGIN, "plans of this process stay"
    assert machine.revision() == before
    as_a_new_process(monkeypatch)
    assert rates(backend, PROBLEM, [backend]) == FOUND
    assert backend.measured == 1


def test_a_process_that_began_earlier_does_not_undo_it(monkeypatch):
    backend, path = Made(), None
    rates(backend, PROBLEM, [backend])
    path = profile([backend]).path
    multiply(backend, 30)
    other = Problem(1, 1, 1, of("float64"), threads=1)
    rates(backend, other, [backend])  # writes all that this process knows
    stored = read_profile(path)[1]
    assert stored["made up", "float32", 1] == FOUND
    assert stored["made up", "float64", 1] == BEGIN


def test_backends_are_measured_one_after_the_other(monkeypatch):
    backends = [Made("one"), Made("two")]
    clock = [0.0]

    def slow(problem, thorough=False):
        clock[0] += 2.0
        return FOUND

    monkeypatch.setattr(upkeep, "perf_counter", lambda: clock[0])
    for x in backends:
        x.measure = slow
        rates(x, PROBLEM, backends)
    upkeep.spent(PROBLEM, 21, backends)
    assert clock[0] == 2.0
    upkeep.spent(PROBLEM, 38, backends)
    assert clock[0] == 2.0, "two seconds were spent: the next is due after 60"
    upkeep.spent(PROBLEM, 2, backends)
    assert clock[0] == 4.0
    assert upkeep.is_over(PROBLEM)


@pytest.mark.parametrize("how", ["pinned", "no folder", "unwritable"])
def test_nothing_is_measured_that_no_later_process_would_read(monkeypatch, folder, tmp_path, how):
    if how == "pinned":
        monkeypatch.setenv("FALCON_PROFILE", str(tmp_path / "none.json"))
    elif how == "no folder":
        monkeypatch.setattr(machine, "cache_folder", lambda: None)
    else:
        folder.write_text("a file where the folder should be")
    backend = Made()
    assert rates(backend, PROBLEM, [backend]) == BEGIN
    multiply(backend, 1e6)
    assert backend.measured == 0
    assert upkeep.is_over(PROBLEM)
    assert backend.probes == [how != "pinned"], "what a pinned file lacks is taken as shipped"


@pytest.mark.parametrize(("slower", "again"), [(0.2, 1), (0.8, 1), (1.0, 0), (5.0, 0)])
def test_what_a_busy_machine_stored_is_measured_again(monkeypatch, slower, again):
    """Only where the machine is faster than stored: one that is slower now is busy now."""
    backend = Made()
    rates(backend, PROBLEM, [backend])
    multiply(backend, 30)
    as_a_new_process(monkeypatch)
    backend.measured = 0
    looks, clock = [], [0.0]
    monkeypatch.setattr(upkeep, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(machine, "_slower_than_stored", lambda *x: looks.append(x) or slower)
    assert rates(backend, PROBLEM, [backend]) == FOUND
    multiply(backend, 0.5)
    assert not looks, "a look takes 0.03 s"
    for expected in (1, 2, 3, 3):
        for _ in range(3):
            multiply(backend, 0.4)
        assert len(looks) == expected
        clock[0] += 60
    assert backend.measured == 0
    multiply(backend, 20)
    assert backend.measured == again
    assert upkeep.is_over(PROBLEM)


def test_calls_are_counted_until_all_is_measured(monkeypatch):
    a = np.ones((1024, 1024), np.float32)
    monkeypatch.setattr("falcon.decision.recent.cache_folder", lambda: None)
    machine.replaced()
    plan = falcon.plan(a, a)
    falcon.matmul(a, a)
    account = upkeep._accounts["float32", plan.threads]
    falcon.matmul(a, a)
    assert account.multiplying >= 0 and not account.is_over
    counted = []
    for module in ("recall", "execute"):
        monkeypatch.setattr(f"falcon._front.{module}.spent", lambda *x: counted.append(x))
    falcon.matmul(a, a)  # which is known without planning
    falcon.gemm(a, a, beta=1.0, c=a)  # and which is not
    assert len(counted) == 2
    account.is_over = True
    for _ in range(2):
        falcon.matmul(a, a)
    assert len(counted) == 2
    machine.replaced()


def test_small_products_that_are_compared_are_counted(monkeypatch):
    """Also where a known call goes straight to np.matmul."""
    a = np.ones((300, 300), np.float32)
    machine.replaced()
    for _ in range(2):
        falcon.matmul(a, a)
    counted = []
    monkeypatch.setattr("falcon._front.recall.spent", lambda *x: counted.append(x[:2]))
    monkeypatch.setattr("falcon._front.recall.is_over", lambda _: False)
    falcon.matmul(a, a)
    ((problem, seconds),) = counted
    assert (problem.M, problem.N, problem.K) == (300, 300, 300)
    assert seconds > 0
    machine.replaced()


def test_every_backend_has_rates_to_begin_with():
    for backend in available_backends():
        for name in ("float32", "float64", "bfloat16", "int32"):
            problem = Problem(1, 1, 1, of(name), threads=2)
            if backend.why_not(problem) or backend.why_classical_only(problem):
                continue
            shipped = backend.starting(problem, False)
            assert shipped == backend.starting(problem, False), "a function of the file alone"
            probed = backend.starting(problem, True)
            assert not shipped.measured and not probed.measured
            assert probed.multiply > 0
            assert {x.name for x in dataclasses.fields(probed)} == {
                x.name for x in dataclasses.fields(Rates)
            }


@pytest.mark.skipif(BACKENDS["cpu"].why_unavailable() is not None, reason="the engine's rates")
def test_a_probe_scales_all_speeds_of_the_engine(monkeypatch):
    from falcon._cpu import starting
    from falcon._cpu.extension import isa

    problem = Problem(1, 1, 1, of("float32"), threads=2)
    shipped = BACKENDS["cpu"].starting(problem, False)
    as_fast = starting._row(problem.operand, 2, isa())["probed"]
    monkeypatch.setattr(starting, "_probe", lambda *_: (2 * as_fast, False))
    probed = BACKENDS["cpu"].starting(problem, True)
    for name in ("multiply", "add", "bandwidth", "update", "update_far", "store"):
        assert getattr(probed, name) == pytest.approx(getattr(shipped, name) / 2)
    assert probed.combine == pytest.approx([x / 2 for x in shipped.combine])
    assert probed.pack == pytest.approx([x / 2 for x in shipped.pack])
    assert probed.disturbance == pytest.approx(2 * shipped.disturbance)
    assert probed.tile == shipped.tile


@pytest.mark.skipif(BACKENDS["cpu"].why_unavailable() is not None, reason="the engine's rates")
@pytest.mark.parametrize(
    ("of_two", "disturbed", "of_one", "expected"),
    [(3.0, False, 1.0, 3.0), (3.0, True, 1.1, 1.1), (1.2, True, 2.0, 1.2), (3.0, True, 3.5, 3.0)],
)
def test_where_all_runs_are_disturbed_one_thread_is_probed(
    monkeypatch, of_two, disturbed, of_one, expected
):
    from falcon._cpu import starting
    from falcon._cpu.extension import isa

    def probe(operand, threads, isa, rates):
        slower, found = {2: (of_two, disturbed), 1: (of_one, True)}[threads]
        assert rates == starting._shipped(operand, threads, isa)
        return slower * starting._row(operand, threads, isa)["probed"], found

    monkeypatch.setattr(starting, "_probe", probe)
    assert starting._slower(F4, 2, isa()) == pytest.approx(expected)


def test_a_probe_scales_products_by_numpy(monkeypatch):
    from falcon._numpy import rates as of_numpy

    monkeypatch.setattr(of_numpy, "size_of", lambda *_: 768)
    problem, found = Problem(1, 1, 1, F4, threads=2), []
    for milliseconds in (3, 6):
        monkeypatch.setattr(of_numpy, "probed", lambda _, x=milliseconds: Probe(1e-3 * x, False))
        found.append(BACKENDS["numpy"].starting(problem, True))
    once, twice = found
    assert twice.multiply == pytest.approx(once.multiply / 2)
    assert twice.surface == pytest.approx([2 * x for x in once.surface])
    # All of the least time is predicted for that size, but for what caches save.
    predicted = 2 * 768**3 / once.multiply + sum(once.surface) * 768**2
    assert of_numpy._PROBED * predicted == pytest.approx(3e-3)


@pytest.mark.parametrize("name", [x.name for x in available_backends()])
def test_a_probe_waits_once_for_threads_and_before_it_runs(monkeypatch, name):
    """NumPy's threads spin after its own runs: to wait again would take 60 ms."""
    module = import_module({"cpu": "falcon._cpu.starting", "numpy": "falcon._numpy.rates"}[name])
    done = []
    monkeypatch.setattr(module, "wait_for_threads", lambda: done.append("waited"))
    monkeypatch.setattr(module, "probed", lambda run: done.append("ran") or Probe(run(), False))
    monkeypatch.setattr(module, "timed", lambda _: done.append("ran") or 1e-3, raising=False)
    BACKENDS[name].starting(Problem(1, 1, 1, F4, threads=2), True)
    assert done[0] == "waited"
    assert done.count("waited") == 1
    assert "ran" in done


def test_warm_up(monkeypatch):
    measured = []
    monkeypatch.setattr("falcon._front.warm.measure_all", lambda *x, **y: measured.append((x, y)))
    falcon.warm_up([(300, 310, 320)], dtype=">f8", threads=1)
    assert not measured
    falcon.warm_up([], measure=True, threads=1)
    ((_, (kind,), counts, _), how) = measured[0]
    assert (kind.name, counts, how) == ("float32", [1], {"thorough": False})
    for shape in ((1, 2), (0, 5, 5), (1, 2, True), ("a", 1, 1)):
        with pytest.raises(ValueError, match="expected three positive integers"):
            falcon.warm_up([shape])
    with pytest.raises(TypeError, match="dtype"):
        falcon.warm_up(dtype="S5")


def test_warm_up_leaves_a_pinned_profile_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("FALCON_PROFILE", str(tmp_path / "none.json"))
    monkeypatch.setattr("falcon._front.warm.measure_all", lambda *_, **__: 1 / 0)
    falcon.warm_up([], measure=True)
