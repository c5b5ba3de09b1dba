"""The cost model against FalconGEMM's equations, worked out by hand on made-up machines."""

import numpy as np
import pytest

from falcon import schemes
from falcon._plan import Option, Rates
from falcon._problem import Problem
from falcon.decision import model
from falcon.decision.model import STAGES, Facts, seconds, stage_seconds

FLOAT = np.dtype("float32")
# Nothing is as cheap as adding here, so that combines are bound by memory.
MEMORY_BOUND = Rates(multiply=1e12, add=1e30, bandwidth=1e10)


def option(scheme, problem, *, chunks=None, fused=False):
    whole = (problem.M, problem.N, problem.K)
    return Option("made up", scheme, chunks or whole, 0, fused)


def total(times):
    return sum(x for _, x in times)


def test_stages_of_strassen_by_hand():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    rates = Rates(multiply=1e9, add=1e9, bandwidth=1e9)
    times = dict(seconds(problem, option(s, problem), rates))
    assert tuple(times) == STAGES
    a, b, c = 100 * 300, 300 * 200, 100 * 200
    assert times["combine A"] == pytest.approx((200 * 600 + 7 * a) / 1e9)
    assert times["combine B"] == pytest.approx((600 * 400 + 7 * b) / 1e9)
    assert times["multiply"] == pytest.approx(2 * 7 * 100 * 300 * 200 / 1e9)
    assert times["combine H"] == pytest.approx((200 * 400 + 7 * c) / 1e9)


def test_slow_additions_count_instead_of_memory():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    times = dict(seconds(problem, option(s, problem), Rates(1e30, 1e6, 1e30)))
    assert times["combine A"] == pytest.approx(5 * 100 * 300 / 1e6)
    assert times["combine B"] == pytest.approx(5 * 300 * 200 / 1e6)
    assert times["combine H"] == pytest.approx(8 * 100 * 200 / 1e6)


def test_slow_memory_bounds_the_products_too():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    times = dict(seconds(problem, option(s, problem), Rates(1e30, 1e30, 1e6)))
    elements = 7 * (100 * 300 + 300 * 200 + 100 * 200)
    assert times["multiply"] == pytest.approx(elements / 1e6)
    (stage,) = seconds(problem, option(None, problem), Rates(1e30, 1e30, 1e6))
    assert stage == ("multiply", pytest.approx((200 * 600 + 600 * 400 + 200 * 400) / 1e6))


def test_classical():
    problem = Problem(200, 400, 600, FLOAT)
    (stage,) = seconds(problem, option(None, problem), Rates(1e6, 1e30, 1e30))
    assert stage == ("multiply", pytest.approx(2 * 200 * 400 * 600 / 1e6))


def test_padding_is_work():
    s = schemes.get("strassen")
    odd, even = Problem(201, 401, 601, FLOAT), Problem(202, 402, 602, FLOAT)
    rates = Rates(1e9, 1e9, 1e30)
    assert total(seconds(odd, option(s, odd), rates)) == pytest.approx(
        total(seconds(even, option(s, even), rates))
    )


def test_fused_output_spares_the_products_their_way_through_memory():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    apart = dict(seconds(problem, option(s, problem), MEMORY_BOUND))
    fused = dict(seconds(problem, option(s, problem, fused=True), MEMORY_BOUND))
    assert fused["combine H"] == pytest.approx(200 * 400 / 1e10)
    assert apart["combine H"] == pytest.approx((200 * 400 + 7 * 100 * 200) / 1e10)
    assert [fused[x] for x in STAGES[:3]] == [apart[x] for x in STAGES[:3]]


def test_chunks_repeat_combines():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    whole = dict(seconds(problem, option(s, problem), MEMORY_BOUND))
    chunked = dict(seconds(problem, option(s, problem, chunks=(64, 400, 600)), MEMORY_BOUND))
    assert chunked["combine B"] == pytest.approx(4 * whole["combine B"])
    chunked = dict(seconds(problem, option(s, problem, chunks=(200, 400, 200)), MEMORY_BOUND))
    assert chunked["combine H"] == pytest.approx(3 * whole["combine H"])
    chunked = dict(seconds(problem, option(s, problem, chunks=(200, 64, 600)), MEMORY_BOUND))
    assert chunked == whole


@pytest.mark.parametrize("name", ["strassen", "winograd", "3x3x3:23", "4x2x3:20", "3x4x4:38"])
@pytest.mark.parametrize("ratio", [20, 60, 200, 600])
def test_break_even(name, ratio):
    """An LCMA wins exactly where the closed formula says so: combines bound by memory, products by
    arithmetic, Combine H fused.
    """
    s = schemes.get(name)
    m, k, n = s.format
    # In units in which memory moves an element per second.
    rates = Rates(multiply=float(ratio), add=1e30, bandwidth=1.0)
    outcomes = set()
    for scale in (8, 32, 128, 512, 2048, 8192):
        for shape in ((1, 1, 1), (1, 4, 1), (4, 1, 2)):
            M, N, K = (scale * x * d for x, d in zip(shape, (m, n, k), strict=True))
            problem = Problem(M, N, K, FLOAT)
            lcma = dict(seconds(problem, option(s, problem, fused=True), rates))
            (classical,) = seconds(problem, option(None, problem), rates)
            if lcma["multiply"] < classical[1] * s.rank / (m * k * n) * 1.000001:
                traffic = M * K * (1 + s.rank / (m * k)) + N * K * (1 + s.rank / (k * n)) + M * N
                gain = 2.0 * M * N * K * (1 - s.rank / (m * k * n)) / traffic
                assert (sum(lcma.values()) < classical[1]) == (gain > ratio)
                outcomes.add(gain > ratio)
    assert outcomes == {True, False}


def test_memory_bound_problems_are_never_faster():
    """Where 2MNK / (MK + NK + MN) is below what the machine needs, nothing can be gained."""
    rates = Rates(multiply=1e12, add=1e30, bandwidth=1e9)
    problem = Problem(1200, 1200, 1200, FLOAT)
    assert problem.flops / (3 * 1200**2) < rates.multiply / rates.bandwidth
    (classical,) = seconds(problem, option(None, problem), rates)
    for name in schemes.names():
        scheme = schemes.get(name)
        for fused in (False, True):
            assert (
                total(seconds(problem, option(scheme, problem, fused=fused), rates)) > classical[1]
            )


def test_many_at_once_as_one_by_one():
    found = [image for x in schemes.names() for image in schemes.symmetries(schemes.get(x))]
    problem, rates = Problem(1001, 703, 2049, FLOAT), Rates(7e10, 5e9, 1.3e9)
    chunks = (512, 703, 1000)
    stages = stage_seconds(problem, Facts.of(found), rates, chunks)
    for position, scheme in enumerate(found):
        expected = seconds(problem, option(scheme, problem, chunks=chunks), rates)
        assert [float(x[position]) for x in stages] == [time for _, time in expected]
        assert all(type(time) is float for _, time in expected)


def test_no_schemes_at_all():
    stages = stage_seconds(Problem(9, 9, 9, FLOAT), Facts.of([]), MEMORY_BOUND, (9, 9, 9))
    assert [x.shape for x in stages] == [(0,)] * 4


def test_sizes_beyond_int64():
    problem = Problem(10**9, 10**9, 10**9, FLOAT)
    times = seconds(problem, option(schemes.get("5x5x5:93"), problem), MEMORY_BOUND)
    assert all(0 < x < 1e30 for _, x in times)
    assert model._facts(schemes.get("strassen")).rank == 7
