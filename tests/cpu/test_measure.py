"""Measured rates are those of an engine that keeps to the model; disturbed times are refused."""

import pytest

from falcon._backends import BACKENDS
from falcon._core.dtypes import dtype_of
from falcon._core.fit import fit_rates, timed_in_turn
from falcon._core.model import seconds
from falcon._core.rates import DisturbedError, Rates
from falcon._cpu import blocking, measure

from ..doors import Problem

TRUE = Rates(2e11, 8e9, 3e9, overlap=0.0, tile=(12, 16))


def calls(dtype="float32", threads=1):
    found = []
    for *sizes, scheme in measure._calls(1536):
        problem = Problem(*sizes, dtype_of(dtype), threads=threads)
        found.append((problem, blocking.method(problem, scheme, 2**28)))
    return found


def took(call, rates, norms=0.0):
    """Return the seconds of a call; `norms`: how many times as long as predicted they take."""
    return sum(norms * x if name == "norms" else x for name, x in seconds(*call, rates))


@pytest.mark.parametrize("norms", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_costs_of_an_engine_that_keeps_to_the_model_are_found(dtype, threads, norms):
    """Whatever norms take in calls that are guarded, they are no part of the rates."""
    some = calls(dtype, threads)
    times = [took(call, TRUE, norms) for call in some]
    made, error = fit_rates(some, times, (12, 16), guarded=norms > 0)
    assert error < 1e-6
    for name in ("multiply", "add", "bandwidth"):
        assert getattr(made, name) == pytest.approx(getattr(TRUE, name), rel=1e-5), name
    assert [took(call, made, norms) for call in some] == pytest.approx(times)


def test_two_percent_of_noise_change_rates_by_little():
    some = calls()
    noise = [1.02 if at % 2 else 0.98 for at in range(len(some))]
    times = [x * took(call, TRUE) for x, call in zip(noise, some, strict=True)]
    made, error = fit_rates(some, times, (12, 16))
    assert 0.005 < error < 0.03
    assert made.multiply == pytest.approx(TRUE.multiply, rel=0.05)


def test_calls_are_timed_in_turn_and_disturbed_ones_refused(doors):
    clock, order = doors.clock(), []

    def call(name, times):
        def run():
            order.append(name)
            clock.move(next(times))

        return run

    quiet = [call(x, iter([9.0, 1.0, 1.1, y])) for x, y in (("x", 5.0), ("y", 1.1), ("z", 1.0))]
    assert timed_in_turn(quiet, 0.0) == pytest.approx([1.05, 1.05, 1.0])
    assert order == ["x", "y", "z"] * 4
    with pytest.raises(DisturbedError, match="differ by"):
        timed_in_turn([call("x", iter([1.0, 1.0, 2.0, 3.0]))], 0.0)
    clock.share = 0.5
    with pytest.raises(DisturbedError, match="had 50% of a CPU"):
        timed_in_turn([call("x", iter([1.0] * 4))], 0.0)


def test_the_machine_is_measured():
    kernel = measure._core.kernel_info("f32", measure.isa())
    for _ in range(5):
        try:
            made = measure.measure(BACKENDS["cpu"], dtype_of("float32"), 1, 0.5)
        except DisturbedError:
            continue
        assert made.multiply > 1e9 and made.tile == (kernel["mr"], kernel["vlen"])
        return
    pytest.skip("the machine is too busy")
