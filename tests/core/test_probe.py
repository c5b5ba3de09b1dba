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
    """Products that take given times, one after the other, on a clock that only they advance.

    Those of a negative time lose a CPU.
    """
    now, losses = [0.0], [0]
    monkeypatch.setattr(probe, "perf_counter", lambda: now[0])
    monkeypatch.setattr(probe, "_losses", lambda: losses[0])

    def products(*milliseconds):
        left = iter(milliseconds)

        def run():
            took = next(left)
            now[0] += 1e-3 * abs(took)
            losses[0] += took < 0
            return 1e-3 * abs(took)

        run.left = left
        return run

    return products


def runs_of(products):
    """Return milliseconds of a probe's fastest run, whether it was disturbed, and what was left."""
    found = probe.probed(products)
    return found.seconds * 1e3, found.disturbed, len(list(products.left))


def test_it_ends_soon_where_nothing_disturbs(clock):
    assert runs_of(clock(5, *[1.6] * 99)) == (pytest.approx(1.6), False, 94)


def test_it_goes_on_where_runs_differ(clock):
    assert runs_of(clock(5, 6, 5, 4, 3, 2, 1, 1, 1)) == (pytest.approx(1), False, 1)


def test_it_does_not_go_on_for_ever(clock):
    assert runs_of(clock(5, 6, 5.5, 5, 4.5, 4, 3.5, 3, 2.5)) == (pytest.approx(4), False, 3)
    assert runs_of(clock(5, *[-5] * 99)) == (pytest.approx(5), True, 84)


def test_it_goes_on_where_other_programs_run(clock):
    """A run that lost a CPU counts if it is fast all the same, but does not end the probe."""
    assert runs_of(clock(2, *[-4] * 9, 2, -4, 2, 2)) == (pytest.approx(2), False, 3)
    assert runs_of(clock(2, -4, -2, -2, 4, 4, 2, 2, 2)) == (pytest.approx(2), False, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="needs counts of lost CPUs")
def test_lost_cpus_are_counted():
    before = probe._losses()
    assert isinstance(before, int)
    end = perf_counter() + 20
    workers = [threading.Thread(target=burn, args=(end, before)) for _ in range(64)]
    for x in workers:
        x.start()
    for x in workers:
        x.join()
    assert probe._losses() > before


def burn(end, before):
    while perf_counter() < end and probe._losses() == before:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)  # some 10 ms without the GIL


def test_slow_machines_run_it_twice(clock):
    assert runs_of(clock(1000, 900, 800, 700)) == (pytest.approx(800), False, 1)


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
