"""The machine profile: measured once per backend and dtype, at first need, by one thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import falcon
from falcon._plan import Rates
from falcon.decision import MachineProfile, machine
from falcon.decision import machine as machine_function
from falcon.decision.machine import rates

SOME = Rates(2e9, 3e9, 4e9)


@pytest.fixture(autouse=True)
def blank(monkeypatch):
    """Start from a machine of which nothing is known."""
    import sys

    monkeypatch.setattr(sys.modules[rates.__module__], "_profile", MachineProfile())


def test_nothing_is_known_at_first():
    assert machine().rates == {}
    assert "nothing measured yet" in str(machine())
    assert falcon.machine is machine_function


def test_measured_once_per_backend_and_dtype():
    calls = []

    def measure(dtype, *_):
        calls.append(dtype.name)
        return Rates(float(len(calls)), 1.0, 1.0)

    for _ in range(3):
        assert rates("x", np.dtype("float32"), 1, measure).multiply == 1
        assert rates("x", np.dtype("float64"), 1, measure).multiply == 2
        assert rates("y", np.dtype("float32"), 1, measure).multiply == 3
        assert rates("x", np.dtype(">f4"), 1, measure).multiply == 1
    assert calls == ["float32", "float64", "float32"]
    assert len(machine().rates) == 3


def test_profiles_do_not_change():
    before = machine()
    rates("x", np.dtype("float32"), 1, lambda *_: SOME)
    assert before.rates == {}
    assert machine().rates == {("x", "float32", 1): SOME}
    with pytest.raises(AttributeError):
        machine().rates = {}


def test_printed():
    rates("x", np.dtype("float32"), 1, lambda *_: SOME)
    assert str(machine()) == (
        "x float32 1 threads: multiply 2.0 GFLOP/s, add 3.0 GFLOP/s, memory 4.00 G elements/s"
    )


def test_failures_are_not_remembered():
    def broken(*_):
        raise RuntimeError("no clock")

    with pytest.raises(RuntimeError, match="no clock"):
        rates("x", np.dtype("float32"), 1, broken)
    assert rates("x", np.dtype("float32"), 1, lambda *_: SOME) is SOME


def test_threads_measure_once():
    calls, gate = [], threading.Barrier(8)

    def measure(dtype, *_):
        calls.append(dtype)
        return SOME

    def ask():
        gate.wait()
        return rates("x", np.dtype("int32"), 1, measure)

    with ThreadPoolExecutor(8) as pool:
        answers = [x.result() for x in [pool.submit(ask) for _ in range(8)]]
    assert answers == [SOME] * 8
    assert len(calls) == 1
