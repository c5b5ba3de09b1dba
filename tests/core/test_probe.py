"""Probes: how large their products are, when they end, and that they wait for other threads."""

import sys
import threading
from time import perf_counter, sleep

import numpy as np
import pytest

from falcon._core import probe


def test_a_size_takes_the_seconds():
    assert probe.size_of(0.002, 500e9, 192, 768) == 768
    assert probe.size_of(0.002, 50e9, 192, 768) == 288
    assert probe.size_of(0.002, 1e6, 192, 768) == 192


@pytest.fixture
def clock(monkeypatch):
    """A clock that only products advance."""
    times = [0.0]
    monkeypatch.setattr(probe, "perf_counter", lambda: times[0])
    monkeypatch.setattr(probe, "wait_for_threads", lambda: None)

    def call(seconds):
        def make(size):
            def run():
                took = seconds(size, times[0])
                times[0] += took
                return took

            return run

        return make

    return call


def test_it_ends_soon_where_nothing_disturbs(clock):
    size, runs = probe.probed(clock(lambda size, _: 2 * size**3 / 400e9), float, 96, 768)
    assert size == 672
    assert runs == [2 * 672**3 / 400e9] * 5


def test_it_goes_on_where_runs_differ(clock):
    odd = iter([1.0, 1.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0] + [1.0] * 99)
    _, runs = probe.probed(clock(lambda *_: 1e-3 * next(odd)), float, 384, 384)
    assert min(runs) == 1e-3
    assert 0.007 < sum(runs) < 0.045


def test_slow_machines_run_it_twice(clock):
    assert len(probe.probed(clock(lambda *_: 1.0), float, 384, 384)[1]) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/task")
def test_it_waits_for_other_threads():
    """NumPy computes without the GIL, as a spinning thread of a library does."""
    some, done = np.ones(2**21), threading.Event()

    def compute():
        end = perf_counter() + 0.05
        while perf_counter() < end:
            np.sqrt(some, out=some)
        done.set()
        released.wait()

    released = threading.Event()
    thread = threading.Thread(target=compute)
    thread.start()
    try:
        sleep(0.01)
        probe.wait_for_threads()
        assert done.is_set()
    finally:
        released.set()
        thread.join()


def test_it_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(probe, "_others_run", lambda: True)
    start = perf_counter()
    probe.wait_for_threads()
    assert 0.08 <= perf_counter() - start < 0.5
