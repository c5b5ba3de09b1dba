"""Shipped rates, and probes that survive noise."""

from dataclasses import asdict

import numpy as np
import pytest

from falcon._backends import available_backends
from falcon._core.dtypes import of
from falcon._core.plan import Candidate, Option
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon.decision import machine, starting
from falcon.decision import rates as rates_module
from falcon.decision.rates import speeds

from .support import forget

F4 = of("float32")
PROBLEM = Problem(1024, 1024, 1024, F4, threads=2)
ONE_SECOND = Rates(1.0, 1.0, 1.0)


def row(backend, kernels="fast", dtype="float32", threads=1, cpu="", **about):
    return {
        **{"backend": backend, "kernels": kernels, "dtype": dtype, "threads": threads},
        **{"cpu": cpu, "multiply": 1e9, "add": 1e9, "bandwidth": 1e9, **about},
    }


class Made:
    """A backend whose products take made-up times, on a clock of the test's own."""

    rest = 0.0
    is_library = False
    rates_type = Rates

    def __init__(self, name, times=(), kernels="fast", clock=None):
        self.name, self._kernels, self.clock = name, kernels, clock
        self.times = iter(times)

    def kernels(self):
        return self._kernels

    def identity(self, device=None):
        return {"kernels": self._kernels}

    def why_not(self, problem):
        return None

    def candidates(self, problem, schemes, limit):
        return [Option(self.name, None, (problem.M, problem.N, problem.K), 0)]

    def predicted(self, problem, option, rates):
        return Candidate(option, (("multiply", 0.001),))

    def execute(self, plan, a, b, c, out, *, alpha=1, beta=0, mirror=None):
        self.clock[0] += next(self.times)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(starting, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def rows(monkeypatch):
    found = []
    monkeypatch.setattr(starting, "_rows", lambda: found)
    starting._nearest.cache_clear()
    yield found
    starting._nearest.cache_clear()


# --- rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "int32", "int64", "complex64"])
def test_every_backend_has_rates_to_begin_with(name):
    for backend in available_backends():
        problem = Problem(1, 1, 1, of(name), threads=3)
        if backend.why_not(problem) is None:
            found = starting.starting(backend, problem)
            assert found == starting.starting(backend, problem)
            assert found.multiply > 0


def test_a_gpu_has_none():
    assert starting.starting(Made("gpu"), PROBLEM) is None


def test_the_nearest_row(rows, monkeypatch):
    monkeypatch.setattr(starting, "cpu_family", lambda: "mine")
    rows += [
        row("x", multiply=1.0, dtype="float64"),
        row("x", multiply=2.0, kernels="slow"),
        row("x", multiply=3.0, cpu="other"),
        row("x", multiply=4.0, cpu="mine"),
        row("x", multiply=5.0, cpu="mine", threads=2),
        row("y", multiply=6.0),
    ]

    def found(dtype="float32", threads=1, kernels="fast"):
        problem = Problem(1, 1, 1, of(dtype), threads=threads)
        return starting.starting(Made("x", kernels=kernels), problem).multiply

    assert found() == 4.0
    assert found(threads=2) == 5.0
    assert found(threads=8) == 20.0, "as if all threads were as fast as those of the row"
    assert found(dtype="float64") == 1.0, "the type counts most"
    assert found(kernels="slow") == 2.0
    assert found(dtype="complex128") == 1.0, "the type of its parts"
    assert found(dtype="complex64") == 4.0


def test_slower_rates():
    before = Rates(
        *(2e9, 4e9, 6e9, 0.5, (1e9,) * 4, (1e9, 2e9)),
        surface=(1e-9, 2e-9, 3e-9), surface_far=(4e-9,) * 3, ragged=(1e-9, 1e-9), tile=(4, 8),
        slice=256, update=1e9, update_far=1e9, disturbance=1e-12, store=1e9, overhead=1e-6,
        cache=1e6,
    )  # fmt: skip
    after = asdict(before.slower(2.0))
    same = "overlap", "tile", "slice", "cache", "loss", "surface_cache"
    for name, value in asdict(before).items():
        is_time = name in ("surface", "surface_far", "ragged", "disturbance", "overhead")
        factor = 1.0 if name in same else 2.0 if is_time else 0.5
        assert np.allclose(after[name], np.multiply(value, factor)), name


# --- probes ---------------------------------------------------------------------------------


def test_backends_are_probed_in_turn_and_the_fastest_runs_count(rows, clock):
    rows += [row("x", probed=0.5), row("y", probed=1.0)]
    order = []
    x = Made("x", [9e-3, 2e-3, 1e-3, 3e-3], clock=clock)
    y = Made("y", [2e-3, 9e-3, 3e-3, 1e-3], clock=clock)
    for made in (x, y):
        made.execute = lambda *a, run=made.execute, name=made.name, **_: (
            order.append(name) or run(*a)
        )
    assert starting.probed([x, y], F4) == pytest.approx({"x": 2.0, "y": 1.0})
    assert order == ["x", "y"] * 4


def test_a_probe_takes_some_milliseconds(rows, clock):
    rows += [row("x"), row("y")]
    starting.probed([Made(n, [1e-4] * 60, clock=clock) for n in "xy"], F4)
    assert 0.005 <= clock[0] < 0.006


def test_loops_are_not_probed(rows, clock):
    rows += [row("x")]
    x = Made("x", clock=clock)
    x.predicted = lambda _, option, __: Candidate(option, (("multiply", 0.1),))
    assert starting.probed([x], F4) == {}


@pytest.mark.parametrize(
    ("slower", "processes", "kernels", "expected"),
    [
        ((2.0, 1.0), 1, "fast", (1.33, 1.0)),
        ((2.0, 1.0), 2, "fast", (1.33, 1.0)),
        ((2.0, 1.0), 5, "fast", (2.0, 1.0)),
        ((1.0, 2.0), 1, "fast", (1.0, 1.33)),
        ((6.0, 5.0), 1, "fast", (6.0, 5.0)),
        ((2.0, 1.0), 1, "unknown", (2.0, 1.0)),
    ],
)
def test_what_only_a_disturbance_explains_is_not_believed_at_once(
    rows, slower, processes, kernels, expected
):
    rows += [row("x"), row("y")]
    backends = [Made("x"), Made("y", kernels=kernels)]
    found = starting.believed(dict(zip("xy", slower, strict=True)), processes, backends, F4)
    assert (found["x"], found["y"]) == pytest.approx(expected)


# --- the fastest of all processes -----------------------------------------------------------


@pytest.fixture
def process(monkeypatch, folder, rows):
    """Start a new process whose probe finds something; return its speeds."""
    rows += [row(x, threads=n) for x in "xy" for n in (1, 2)]
    backends = [Made("x"), Made("y")]

    def start(**found):
        forget(monkeypatch)
        monkeypatch.setattr(rates_module, "probed", lambda *_: found)
        return speeds(PROBLEM, backends)

    start.backends = backends
    return start


def near(found, **expected):
    return found == pytest.approx(expected, rel=0.006)


def test_a_disturbed_process_is_forgotten(process):
    assert near(process(x=1.2, y=1.0), x=1.2, y=1.0)
    assert near(process(x=1.0, y=1.1), x=1.0, y=1.0)
    assert near(process(x=3.0, y=3.0), x=1.0, y=1.0)


def test_a_slow_kernel_is_believed_when_several_processes_have_seen_it(process):
    for expected in (1.33, 1.33, 1.33, 1.33, 2.0):
        assert near(process(x=2.0, y=1.0), x=expected, y=1.0)


def test_later_processes_do_not_probe(process):
    for _ in range(5):
        process(x=1.5, y=1.0)
    assert near(process(x=1.0, y=1.0), x=1.5, y=1.0)


def test_measured_rates_are_not_probed(process, monkeypatch):
    process(x=1.0, y=1.0)
    entries = {("x", "float32", 2): ONE_SECOND, ("y", "float32", 2): ONE_SECOND}
    machine.add_rates(entries, process.backends, None)
    monkeypatch.setattr(rates_module, "_slower", {})
    monkeypatch.setattr(rates_module, "probed", lambda *_: 1 / 0)
    assert near(speeds(PROBLEM, process.backends), x=1.0, y=1.0)
