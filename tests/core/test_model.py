"""The cost model against FalconGEMM's equations, worked out by hand on made-up machines."""

import importlib.machinery
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from falcon import schemes
from falcon._core import formulas, model
from falcon._core.dtypes import dtype_of
from falcon._core.fit import rate
from falcon._core.model import CLASSICAL_STAGES, NORMS, STAGES, bounds, counts, seconds
from falcon._core.rates import Rates

from ..doors import Method, Problem

FLOAT = dtype_of("float32")
# Nothing is as cheap as adding here, so that combines are bound by memory.
MEMORY_BOUND = Rates(multiply=1e12, add=1e30, bandwidth=1e10)


def option(scheme, problem, *, chunks=None, fused=False, again=(1, 1, 1)):
    whole = (problem.M, problem.N, problem.K)
    return Method("made up", scheme, chunks or whole, 0, fused, again)


def total(times):
    return sum(x for _, x in times)


def test_stages_of_strassen_by_hand():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    rates = Rates(multiply=1e9, add=1e9, bandwidth=1e9)
    times = dict(seconds(problem, option(s, problem), rates))
    assert tuple(times) == ("norms", *STAGES)
    a, b, c = 100 * 300, 300 * 200, 100 * 200
    assert times["norms"] == pytest.approx(NORMS * 600 * (200 + 400) / 1e9)
    assert times["combine A"] == pytest.approx((200 * 600 + 7 * a) / 1e9)
    assert times["combine B"] == pytest.approx((600 * 400 + 7 * b) / 1e9)
    assert times["multiply"] == pytest.approx(2 * 7 * 100 * 300 * 200 / 1e9)
    assert times["combine H"] == pytest.approx((200 * 400 + 7 * c) / 1e9)


def test_stages_are_repeated_as_the_backend_says():
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    whole = dict(seconds(problem, option(s, problem), MEMORY_BOUND))
    again = dict(seconds(problem, option(s, problem, again=(2, 3, 5)), MEMORY_BOUND))
    for stage, times in zip(STAGES, (2, 3, 1, 5), strict=True):
        assert again[stage] == pytest.approx(times * whole[stage])


def test_chunks_pad_more():
    """Smaller products: more tiles that are not full."""
    problem, s = Problem(200, 400, 600, FLOAT), schemes.get("strassen")
    rates = Rates(1e9, 1e30, 1e30, tile=(24, 8))
    for chunks, rows, columns, inner in (
        ((200, 400, 600), 120, 200, 300),
        ((100, 400, 600), 72, 200, 300),
        ((200, 400, 200), 120, 200, 100),
    ):
        parts = 200 / chunks[0] * 600 / chunks[2]
        times = dict(seconds(problem, option(s, problem, chunks=chunks), rates))
        assert times["multiply"] == pytest.approx(2 * 7 * rows * columns * inner * parts / 1e9)


def test_every_term_by_hand():
    problem, s = Problem(200, 400, 600, FLOAT, threads=8), schemes.get("strassen")
    a, b, c = 100 * 300, 300 * 200, 100 * 200
    rates = Rates(1e9, 1e7, 1e8, overlap=0.0, tile=(25, 50))
    times = dict(seconds(problem, option(s, problem, fused=True), rates))
    assert times["combine A"] == pytest.approx(5 * a / 1e7 + (200 * 600 + 7 * a) / 1e8)
    assert times["combine B"] == pytest.approx(5 * b / 1e7 + (600 * 400 + 7 * b) / 1e8)
    # 4 x 4 tiles for 8 threads: in balance
    assert times["multiply"] == pytest.approx(2 * 7 * 100 * 300 * 200 / 1e9)
    u, v, w = (x.additions for x in s.shared_sums)
    assert (u, v) == (5, 5)
    assert times["combine H"] == pytest.approx(w * c / 1e7 + (200 * 400 + 7 * c) / 1e8)
    classical = dict(seconds(problem, option(None, problem, fused=True), rates))
    assert tuple(classical) == CLASSICAL_STAGES
    assert classical["pack A"] == pytest.approx(2 * 200 * 600 / 1e8)
    assert classical["pack B"] == pytest.approx(2 * 600 * 400 / 1e8)
    assert classical["store C"] == pytest.approx(2 * 200 * 400 / 1e8)
    packed = Problem(200, 400, 600, FLOAT, threads=8, packed=True)
    for scheme, stage in ((s, "combine B"), (None, "pack B")):
        assert dict(seconds(packed, option(scheme, packed, fused=True), rates))[stage] == 0
    assert dict(seconds(packed, option(s, packed), rates))["norms"] == NORMS * 200 * 600 / 1e8
    exact = Problem(200, 400, 600, dtype_of("int32"))
    assert tuple(dict(seconds(exact, option(s, exact), rates))) == STAGES, "nothing is measured"


def test_threads_that_have_no_tile():
    problem, s = Problem(200, 400, 600, FLOAT, threads=6), schemes.get("strassen")
    alone, team = (
        dict(seconds(problem, option(s, problem), Rates(1e9, 1e30, 1e30, tile=tile)))
        for tile in ((1, 1), (50, 100))
    )
    assert team["multiply"] == pytest.approx(alone["multiply"] * 6 / 4, rel=1e-3)


def test_the_equations_of_falcongemm():
    """Equations (8) to (10), and products that pass through the caches: memory-bound problems, the
    stages' costs, and when an LCMA wins.
    """
    s, (M, N, K) = schemes.get("3x4x4:38"), (1200, 1600, 2000)
    m, k, n, R = *s.format, s.rank
    problem = Problem(M, N, K, FLOAT)
    for multiply, add, beta in ((1e12, 1e11, 1e9), (1e9, 1e8, 1e10), (1e11, 1e8, 1e9)):
        times = seconds(problem, option(s, problem, fused=True), Rates(multiply, add, beta))
        u, v, w = (x.additions for x in s.shared_sums)
        expected = (
            max(u * (M / m) * (K / k) / add, M * K * (1 + R / (m * k)) / beta),
            max(v * (K / k) * (N / n) / add, N * K * (1 + R / (k * n)) / beta),
            max(
                2 * R * M * N * K / (m * k * n) / multiply,
                R * (M * K / (m * k) + K * N / (k * n) + M * N / (m * n)) / beta,
            ),
            max(w * (M / m) * (N / n) / add, M * N * (1 + R / (m * n)) / beta),
        )
        assert [x for _, x in times[1:]] == pytest.approx(expected)
        ((_, classical),) = seconds(problem, option(None, problem), Rates(multiply, add, beta))
        memory_bound = multiply / beta >= 2 * M * N * K / (M * K + N * K + M * N)
        assert (classical > 2 * M * N * K / multiply * 1.000001) == memory_bound


@pytest.mark.parametrize("name", ["strassen", "winograd", "3x3x3:23", "4x2x3:20", "3x4x4:38"])
@pytest.mark.parametrize("ratio", [20, 200])
def test_break_even(name, ratio):
    """An LCMA wins exactly where the closed formula says so: combines bound by memory, products by
    arithmetic.
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
                sums = s.rank * (M * K / (m * k) + N * K / (k * n) + M * N / (m * n))
                traffic = (1 + NORMS) * (M * K + N * K) + M * N + sums
                gain = 2.0 * M * N * K * (1 - s.rank / (m * k * n)) / traffic
                assert (sum(lcma.values()) < classical[1]) == (gain > ratio)
                outcomes.add(gain > ratio)
    assert outcomes == {True, False}


FULL = Rates(7e10, 5e9, 1.3e9, overlap=0.0, tile=(12, 16))


@pytest.mark.parametrize(
    ("rates", "threads", "packed"),
    [(FULL, 5, False), (FULL, 1, True), (Rates(7e10, 5e9, 1.3e9), 1, False),
     (Rates(7e10, 5e9, 1.3e9), 5, True)],
)  # fmt: skip
def test_bounds_are_bounds(rates, threads, packed):
    """No option is faster than its bound; whole and balanced, it is as fast but for norms."""
    found = [image for x in schemes.names() for image in schemes.symmetries(schemes.get(x))]
    problem = Problem(1001, 703, 2049, FLOAT, threads=threads, packed=packed)
    known = tuple(map(counts, found))
    least = [x for x, _ in bounds(problem, known, rates)]
    assert len(least) == len(found)
    alone = replace(problem, threads=1)  # threads change nothing but the imbalance
    cuts = [
        ((512, 703, 1000), (1, 2, 3)),
        ((480, 703, 2049), (1, 1, 1)),
        ((1001, 96, 2049), (1, 1, 1)),
    ]
    for bound, scheme in zip(least, found, strict=True):
        whole = total(seconds(problem, option(scheme, problem), rates))
        assert bound <= whole * 1.0000001
        for chunks, again in cuts:
            cut = option(scheme, problem, chunks=chunks, again=again)
            assert bound <= total(seconds(problem, cut, rates)) * 1.0000001
        balanced = total(seconds(alone, option(scheme, alone), rates)[1:])
        assert bound == pytest.approx(balanced)


def test_bounds_beyond_the_limit_are_left_out():
    found = tuple(counts(schemes.get(x)) for x in schemes.names())
    problem = Problem(1001, 703, 2049, FLOAT)
    whole = bounds(problem, found, FULL)
    assert [at for _, at in whole] == list(range(len(found)))
    limit = sorted(whole)[len(found) // 2][0]
    some = bounds(problem, found, FULL, limit=limit)
    assert some == [x for x in whole if x[0] <= limit]
    assert bounds(problem, (), FULL) == []


def test_the_compiled_formulas_are_those_of_the_source():
    """If not, formulas.py has changed: build the extension again."""
    source = Path(model.__file__).with_name("formulas.py")
    spec = importlib.util.spec_from_loader(
        "plain", importlib.machinery.SourceFileLoader("plain", str(source))
    )
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    random = np.random.default_rng(3)
    for _ in range(200):
        sizes = tuple(int(x) for x in random.integers(1, 5000, 3))
        chunks = tuple(min(x, int(random.integers(1, 3000))) for x in sizes)
        again = tuple(int(x) for x in random.integers(1, 4, 3))
        rates = replace(
            FULL,
            overlap=float(random.choice([0, 0.5, 1])),
        )
        args = (
            *(sizes, int(random.integers(1, 9))),
            *(bool(random.random() < 0.5), chunks, again),
        )
        numbers = [float(x) for x in random.integers(1, 99, 7)]
        both = [
            x.stages(x.Machine(rates), x.Counts(*numbers), x.Cut(*args)) for x in (plain, formulas)
        ]
        assert both[0] == pytest.approx(both[1], rel=1e-12)
        both = [
            x.within(x.Machine(rates), (x.Counts(*numbers),) * 3, x.Cut(*args), 1e9)
            for x in (plain, formulas)
        ]
        assert len(both[0]) == 3
        assert both[0][2] == pytest.approx(both[1][2], rel=1e-12)


def test_sizes_beyond_int64():
    problem = Problem(10**9, 10**9, 10**9, FLOAT)
    times = seconds(problem, option(schemes.get("5x5x5:93"), problem), MEMORY_BOUND)
    assert all(0 < x < 1e30 for _, x in times)
    assert counts(schemes.get("strassen")).rank == 7
    assert counts(None).rank == 1


def test_only_what_could_not_be_measured_is_beyond_measure():
    rates = Rates(multiply=2e13, add=rate(1e-300), bandwidth=3e13)
    said = "multiply 20000.0 GFLOP/s, add beyond measure GFLOP/s, combine {} G elements/s"
    assert str(rates) == said.format("30000.00")
    assert "add beyond measure" in str(rates.on(0.25, 0.5))  # on fewer threads as well
