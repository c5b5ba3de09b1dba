"""The measurement: turns are taken, ratios are those of neighbours, errors are measured right."""

import time

import numpy as np
import pytest

from falcon.bench import measure
from falcon.bench.measure import Pairs, interleave, sampled_error


def test_pairs():
    pairs = Pairs(((1.0, 2.0, 3.0), (2.0, 2.0, 9.0)))
    assert pairs.median_seconds(0) == 2.0
    assert pairs.median_seconds(1) == 2.0
    # Medians of the pairwise ratios 2, 1 and 3, not the ratio of the medians.
    assert pairs.ratio(0, 1) == 2.0
    assert pairs.ratio(1, 0) == 0.5
    assert pairs.ratio(0, 0) == 1.0


class Clock:
    """A clock that only the timed calls move."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.slept = []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.slept.append)

    def call(self, log, name, *seconds):
        left = list(seconds)

        def timed():
            log.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return timed


def test_sides_take_turns(monkeypatch):
    clock, log, ticks = Clock(monkeypatch), [], []
    sides = [clock.call(log, "x", 9.0, 1.0, 2.0, 3.0), clock.call(log, "y", 9.0, 4.0, 2.0, 6.0)]
    pairs = interleave(sides, 3, lambda: ticks.append(1), rest=0.5)
    assert "".join(log) == "xyxyxyxy"
    assert pairs.seconds == ((1.0, 2.0, 3.0), (4.0, 2.0, 6.0))
    assert pairs.ratio(0, 1) == 2.0
    assert len(ticks) == 6
    assert clock.slept == [0.5] * 6


def test_short_calls_are_repeated_and_the_fastest_counts(monkeypatch):
    clock, log = Clock(monkeypatch), []
    short = clock.call(log, "s", 0.04, 0.03, 0.02, 0.05)
    pairs = interleave([short], 1)
    assert "".join(log) == "ssss"
    assert pairs.seconds[0][0] == pytest.approx(0.02)


def test_calls_that_take_no_time_by_a_coarse_clock(monkeypatch):
    clock, log = Clock(monkeypatch), []
    pairs = interleave([clock.call(log, "z", 0.0), clock.call(log, "w", 1.0)], 2)
    assert log.count("z") == 1 + 2 * 5
    assert pairs.ratio(0, 1) > 1


def test_real_time():
    start = time.perf_counter()
    pairs = interleave([lambda: time.sleep(0.01)], 1, rest=0.0)
    assert 0.009 < pairs.median_seconds(0) < time.perf_counter() - start


def product_of(dtype, M=50, K=40, N=30, noise=0.0):
    random = np.random.default_rng(1)
    a, b = random.standard_normal((M, K)), random.standard_normal((K, N))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * random.standard_normal((M, K)), b * (1 + 1j)
    a, b = a.astype(dtype), b.astype(dtype)
    wide = np.result_type(dtype, "longdouble")
    c = a.astype(wide) @ b.astype(wide)
    c *= 1 + noise
    return a, b, c.astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "longdouble", "complex64", "complex128"]
)
def test_errors_are_relative_and_rms(dtype):
    precision = float(np.finfo(dtype).eps)
    assert sampled_error(*product_of(dtype)) <= precision
    noise = 64 * precision
    assert sampled_error(*product_of(dtype, noise=noise)) == pytest.approx(noise, rel=0.05)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_integers_are_right_or_wrong(dtype):
    random = np.random.default_rng(2)
    a, b = (
        random.integers(0, 100, (9, 8)).astype(dtype),
        random.integers(0, 100, (8, 7)).astype(dtype),
    )
    c = a @ b
    assert sampled_error(a, b, c) == 0.0
    c[8, 3] += np.ones((), dtype)
    assert sampled_error(a, b, c) == float("inf")


def test_rows_are_spread_over_c():
    a, b, c = product_of("float32", M=1000)
    c[-1] = 0  # the last row is always among the sampled
    assert sampled_error(a, b, c, rows=2) > 0.1
    c[1:-1] = 7
    assert sampled_error(a, b, c, rows=1) < 1e-6


def test_products_that_vanish():
    zero = np.zeros((3, 3))
    assert sampled_error(zero, zero, zero) == 0.0
    assert sampled_error(zero[:1], zero, zero[:1]) == 0.0


def test_constants():
    assert 0 < measure.REST_SECONDS < 1
    assert 0 < measure._SHORT_SECONDS < 1
