"""Probes: how large products are, when they end, and that they wait for other threads."""

import hashlib
import sys
import threading
from time import perf_counter, sleep

import pytest

from falcon._core import probe


def test_a_size_takes_the_seconds():
    assert probe.size_of(0.002, 500e9, 192, 768) == 768
    assert probe.size_of(0.002, 50e9, 192, 768) == 288
    assert probe.size_of(0.002, 1e6, 192, 768) == 192


@pytest.fixture
def clock(monkeypatch):
    """Products that take given times, one after the other, on a clock that only they advance."""
    now = [0.0]
    monkeypatch.setattr(probe, "perf_counter", lambda: now[0])

    def products(*milliseconds):
        left = iter(milliseconds)

        def run():
            took = 1e-3 * next(left)
            now[0] += took
            return took

        return run

    return products


def test_it_ends_soon_where_nothing_disturbs(clock):
    assert probe.probed(clock(5, *[1.6] * 99), float) == [1.6e-3] * 5


def test_it_goes_on_where_runs_differ(clock):
    runs = probe.probed(clock(5, 6, 5, 4, 3, 2, 1, 1, 1), float)
    assert runs == [6e-3, 5e-3, 4e-3, 3e-3, 2e-3, 1e-3, 1e-3]


def test_it_does_not_go_on_for_ever(clock):
    assert sum(probe.probed(clock(5, *(9 * 0.9**i for i in range(99))), float)) < 0.035


def test_slow_machines_run_it_twice(clock):
    assert probe.probed(clock(1000, 900, 800, 700), float) == [0.9, 0.8]


def test_it_waits_until_other_threads_sleep(monkeypatch):
    states = iter([True, True, True, False])
    monkeypatch.setattr(probe, "_others_run", lambda: next(states))
    probe.wait_for_threads()
    assert next(states, "all were seen") == "all were seen"


def test_it_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(probe, "_others_run", lambda: True)
    start = perf_counter()
    probe.wait_for_threads()
    assert 0.08 <= perf_counter() - start < 0.5


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/task")
def test_a_thread_that_computes_is_seen():
    finish = threading.Event()

    def compute():
        while not finish.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000)  # some 0.1 s without the GIL

    def becomes(expected):
        end = perf_counter() + 10
        while perf_counter() < end:
            if probe._others_run() == expected:
                return True
            sleep(0.01)
        return False

    assert becomes(False)
    thread = threading.Thread(target=compute)
    thread.start()
    try:
        assert becomes(True)
    finally:
        finish.set()
        thread.join()
    assert becomes(False)
