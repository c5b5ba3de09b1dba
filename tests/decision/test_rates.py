"""Rates: the nearest shipped ones, for any number of threads; nothing is measured."""

import re

import pytest

from falcon._backends import BACKENDS, available_backends
from falcon._core.dtypes import BY_ARITHMETIC, dtype_of
from falcon._core.options import Options
from falcon._core.rates import Rates
from falcon.decision import machine
from falcon.decision.rates import (
    Row,
    nearest,
    nearest_machine,
    on_threads,
    rates,
    shipped,
    source,
    stand_in,
    stand_ins,
)

from ..doors import Problem

F4 = dtype_of("float32")


class Added(type(BACKENDS["numpy"])):
    """A backend that is no more than an entry of the table."""

    name = "added"

    def __init__(self):
        self.measured = []

    def measure(self, operand, threads, budget=1.0, device=None):
        self.measured.append((operand.name, threads))
        return Rates(float(threads), 1.0, 1.0)


def row(
    backend="x", kernels="fast", dtype="float32", threads=1, machine="", multiply=1e9, costs=()
):
    made = Rates(multiply, 1e9, 1e9, classical=costs)
    return Row(machine, "", backend, kernels, dtype, threads, made)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "int32", "int64", "complex64"])
def test_rates_are_shipped(folder, doors, name):
    """Without measuring, and the same ones every time."""
    doors.unmeasurable()
    for backend in BACKENDS.values():
        problem = Problem(1, 1, 1, dtype_of(name), threads=3)
        if backend.why_unavailable() is None and backend.why_not(problem) is None:
            found = rates(backend, problem, available_backends())
            doors.new_process()
            assert rates(backend, problem, available_backends()) == found
            assert found.multiply > 0
            assert "shipped, recorded on" in source(backend, problem, available_backends())


@pytest.mark.parametrize("name", ["bf16x6", "bf16x3"])
def test_reproducible_rates_are_those_of_the_arithmetic(name):
    """Of which the machine that plans all of them has no rows."""
    row = BY_ARITHMETIC[name]
    found = rates(BACKENDS["cpu"], Problem(9, 9, 9, F4, reproducible=True), [], row)
    assert found in [x.rates for x in shipped() if x.dtype == row.name]


def test_rates_for_other_numbers_of_threads_say_what_they_are_taken_from():
    numpy, some = BACKENDS["numpy"], available_backends()
    told = [source(numpy, Problem(1, 1, 1, F4, threads=x), some) for x in (1, 3)]
    assert told[0] == re.sub(r" and \d threads", "", told[1]) != told[1]


def test_many_threads_were_measured():
    """One thread's rates times 16 would take parts of bfloat16, which were slower there."""
    rows = {x: nearest(shipped(), "cpu", "amx_bf16", x)
            for x in (F4, BY_ARITHMETIC["bf16x6"])}  # fmt: skip
    few, many = (
        [on_threads({x.threads: x.rates for x in some if x.threads <= most}, 16, 0).multiply
         for some in rows.values()]
        for most in (2, 16)
    )  # fmt: skip
    assert few[1] > 1.4 * few[0]
    assert many[1] < 1.2 * many[0]


def test_a_backend_without_shipped_rates_is_measured_once(folder, doors):
    """By number of threads; also by way of a plan, and again in no other process."""
    added, some = Added(), [*available_backends(), Added()]
    problem, more = (Problem.of_sizes((9, 9, 9), F4, Options(threads=x)) for x in (1, 2))
    assert source(added, problem, some) == "measured here when first needed"
    assert [rates(added, problem, some).multiply for _ in range(3)] == [1.0] * 3
    assert rates(added, more, some).multiply == 2.0
    assert added.measured == [("float32", 1), ("float32", 2)]
    assert source(added, problem, some) == "measured here"
    doors.new_process()
    assert machine.profile(some).rates["added", "float32", 2].multiply == 2.0


def test_the_nearest_rows():
    rows = [
        row(multiply=1.0, dtype="float64"),
        row(multiply=2.0, kernels="slow"),
        row(multiply=4.0),
        row(multiply=5.0, threads=2),
        row(multiply=3.0, machine="other"),
        row("y", multiply=6.0),
    ]

    def found(dtype="float32", kernels="fast"):
        return [x.rates.multiply for x in nearest(rows, "x", kernels, dtype_of(dtype))]

    assert found() == [4.0, 5.0], "one per number of threads"
    assert found(dtype="float64") == [1.0], "the type counts most"
    assert found(kernels="slow") == [2.0]
    assert found(dtype="complex128") == [1.0], "the type of its parts"
    assert found(dtype="complex64") == [4.0, 5.0]
    with pytest.raises(RuntimeError, match="no rates of backend 'z'"):
        nearest(rows, "z", "fast", F4)


def test_costs_are_those_of_the_nearest_machine_that_has_them():
    """Of one machine for both sides: only how they compare is used."""
    own, theirs, other = ((x,) * 6 for x in (1.0, 2.0, 3.0))
    rows = [
        row(multiply=1.0, machine="near"),
        row("y", multiply=2.0, machine="near"),
        row(multiply=3.0, machine="far", costs=own),
        row("y", multiply=4.0, machine="far", costs=theirs),
        row(multiply=5.0, machine="of another type", dtype="float64", costs=other),
    ]

    def found(backend, *rows):
        (x,) = stand_ins(rows, backend, "fast", F4, "x", "fast", "")
        return x.rates.multiply, x.rates.classical

    assert [found(x, *rows) for x in "xy"] == [(1.0, own), (2.0, theirs)]
    assert [found(x, *rows[2:]) for x in "xy"] == [(3.0, own), (4.0, theirs)]
    assert found("y", *rows[:2], *rows[3:]) == (2.0, ()), "of both sides"


@pytest.mark.parametrize(
    ("kernels", "cpu", "machine"),
    [
        ("avx512_vnni", "GenuineIntel 6", "Intel Xeon without AMX"),  # a Cascade Lake
        ("avx512", "GenuineIntel 6", "Intel Xeon without AMX"),
        ("amx_bf16", "GenuineIntel 6", "Intel Xeon with AMX"),
        ("avx_vnni", "GenuineIntel 6", "AMD Zen 5"),  # of Intel's, none has these vectors
        ("avx2", "AuthenticAMD 23", "AMD Zen 4"),
        ("avx512_bf16", "AuthenticAMD 27", "AMD Zen 4"),
        ("generic", "GenuineIntel 6", "AMD Zen 5"),
    ],
)
def test_the_nearest_machine(kernels, cpu, machine):
    assert nearest_machine(shipped(), "cpu", kernels, F4, cpu) == machine


@pytest.mark.parametrize(
    "family", ["GenuineIntel 6", "AuthenticAMD 25", "AuthenticAMD 26", "other"]
)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_all_rates_of_a_choice_are_one_machines(folder, doors, family, name):
    doors.another_cpu(family)
    some, problem = available_backends(), Problem.of_sizes((999,) * 3, dtype_of(name), Options())
    told = {source(x, problem, some).split(" with ")[0] for x in some}
    assert len(told) == 1
    # Of one side alone, measured rates are no use.
    mine = {(some[0].name, name, problem.threads): Rates(1.0, 1.0, 1.0)}
    machine.add(some, rates=mine)
    assert (rates(some[0], problem, some).multiply == 1.0) == (len(some) == 1)
    machine.add(some, rates={(x.name, name, problem.threads): Rates(2.0, 1.0, 1.0) for x in some})
    assert {rates(x, problem, some).multiply for x in some} == {2.0}


def test_faster_cores_and_faster_memory():
    before = Rates(2e9, 4e9, 6e9, overlap=0.5, tile=(4, 8))
    after = before.on(4.0, 2.0)
    assert after == Rates(8e9, 16e9, 12e9, overlap=0.5, tile=(4, 8))
    assert before.slower(2.0) == before.on(0.5, 0.5)


@pytest.mark.parametrize(
    ("threads", "least", "cores", "memory"),
    [
        (1, 0.0, 1.0, 1.0),
        (2, 0.0, 2.0, 1.5),
        (4, 0.0, 4.0, 1.5),  # no more memory than was seen
        (4, 10.0, 4.0, 4.0),  # as much as four cores can take
        (64, 10.0, 64.0, 10.0),  # as much as the machine has
    ],
)
def test_cores_grow_with_threads_and_memory_up_to_the_machines(threads, least, cores, memory):
    known = {1: Rates(1.0, 1.0, 1.0), 2: Rates(2.0, 2.0, 1.5)}
    found = on_threads(known, threads, least)
    assert (found.multiply, found.add) == pytest.approx((cores, cores))
    assert found.bandwidth == pytest.approx(memory)


def test_measured_rates_come_first(folder, doors):
    numpy = BACKENDS["numpy"]
    mine = Rates(1.0, 1.0, 1.0)
    machine.add([numpy], rates={("numpy", "float32", 1): mine})
    problem = Problem.of_sizes((9, 9, 9), F4, Options(threads=1))
    assert rates(numpy, problem, [numpy]).multiply == 1.0
    assert source(numpy, problem, [numpy]) == "measured by tune"
    doors.another_cpu()
    other = Problem.of_sizes((9, 9, 9), dtype_of("float64"), Options(threads=1))
    assert "tune measures this machine" in source(numpy, other, [numpy])
    assert stand_in(numpy, other, [numpy]) in {x.machine for x in shipped()}
    assert stand_in(numpy, problem, [numpy]) == "", "measured"


@pytest.mark.parametrize(("kernels", "machine"), [("avx512_bf16", ""), ("avx2", "AMD Zen 4")])
def test_of_a_family_some_have_longer_vectors(doors, monkeypatch, kernels, machine):
    """A Zen 3 is of a Zen 4's family, whose AVX2 kernels are shipped."""
    engine = BACKENDS["cpu"]
    monkeypatch.setattr(type(engine), "kernels", lambda self: kernels)
    doors.another_cpu("AuthenticAMD 25")
    problem = Problem.of_sizes((9, 9, 9), F4, Options(threads=1))
    assert stand_in(engine, problem, [engine]) == machine
    assert ("tune measures" in source(engine, problem, [engine])) == bool(machine)
