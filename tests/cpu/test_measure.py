"""The machine profile counts additions, updates and flops of its calls as the cost model does.

A profile divides measured times by these numbers, and predictions multiply by them.
"""

import numpy as np
import pytest

from falcon import schemes
from falcon._core.dtypes import of
from falcon._core.model import seconds
from falcon._core.plan import Option
from falcon._core.problem import Problem
from falcon._core.rates import Rates

measure = pytest.importorskip("falcon._cpu.measure", reason="needs the compiled extension")

KERNEL = {"mr": 6, "vlen": 8, "kc": 320}
COSTS = 5e-11, 3e-11, 4e-10, 2e-11, 3e-10, 1e-11, 1e-5, 6e-11, 8e-11
UPDATE, FURTHER, STORE, FLOP, LOST, DISTURBANCE, START, PACK_A, PACK_B = COSTS
NEAR_A, FAR_A, NEAR_B, FAR_B, ADD = 3e-10, 5e-10, 4e-10, 6e-10, 7e-11


@pytest.mark.parametrize(
    "name", [None, "strassen", "winograd", "strassen@strassen", "3x2x3:15", "3x4x4:38", "5x5x5:93"]
)
@pytest.mark.parametrize("shape", [(768, 768, 768), (1000, 515, 2049)])
@pytest.mark.parametrize("passes", [1, 2])
def test_the_profile_counts_as_the_model_does(name, shape, passes):
    M, N, K = shape
    scheme = None if name is None else schemes.get(name)
    kb = -(-K // passes)
    if passes > 1 and K % kb:
        kb, K = 500, 1000  # the profile's own calls have passes of one length
    terms = measure._terms((M, N, K, scheme), {"tiling": (M, N, kb)}, KERNEL)
    predicted = float(np.dot(terms, COSTS))
    rates = Rates(
        multiply=1 / FLOP,
        add=1e30,
        bandwidth=1e30,
        overlap=0.0,
        pack=(1 / PACK_A, 1 / PACK_B),
        tile=(KERNEL["mr"], KERNEL["vlen"]),
        slice=KERNEL["kc"],
        loss=LOST / FLOP,
        update=1 / UPDATE,
        update_far=1 / (UPDATE + FURTHER),
        disturbance=DISTURBANCE,
        store=1 / STORE,
        overhead=START,
    )
    option = Option("cpu", scheme, (M, N, kb), 0, True, (1, 1, K // kb))
    made = seconds(Problem(M, N, K, of("float32"), threads=1), option, rates)
    assert sum(x for _, x in made) == pytest.approx(predicted, rel=1e-9)


def test_a_profile_finds_the_costs_of_an_engine_that_keeps_to_the_model(monkeypatch):
    def run(self, calls, rounds, budget):
        """Time every call as the model has it."""
        runs = []
        for M, N, K, scheme in calls:
            m, k, n = scheme.format if scheme else (1, 1, 1)
            a, b = M * K / (m * k), K * N / (k * n)
            if scheme:
                far = scheme.rank * (a + b) * 4 > measure._core.cache_sizes()["l3"] / 2
                first, second, _ = (x.additions for x in scheme.shared_sums)
                moved_a, moved_b = M * K + scheme.rank * a, K * N + scheme.rank * b
                combine_a = first * a * ADD + moved_a * (FAR_A if far else NEAR_A)
                combine_b = second * b * ADD + moved_b * (FAR_B if far else NEAR_B)
            else:  # its packing is among the terms, whatever the clock sees of it
                combine_a, combine_b = a * PACK_A, 0.0
            one = {"tiling": (M, N, K), "combine_a": combine_a, "combine_b": combine_b}
            terms = measure._terms((M, N, K, scheme), one, KERNEL)
            update = float(np.dot(terms[:3], COSTS[:3]))
            wall = float(np.dot(terms, COSTS)) + (combine_a + combine_b if scheme else 0.0)
            runs.append({**one, "update": update, "wall": wall})
        return runs

    monkeypatch.setattr(measure._Bench, "run", run)
    monkeypatch.setattr(measure._core, "kernel_info", lambda *_: KERNEL)
    made = measure.measure(of("float32"), 1, "generic", 2**28, thorough=False)
    assert made.update == pytest.approx(1 / UPDATE)
    assert made.update_far == pytest.approx(1 / (UPDATE + FURTHER))
    assert made.disturbance == pytest.approx(DISTURBANCE)
    assert made.store == pytest.approx(1 / STORE)
    assert made.multiply == pytest.approx(1 / FLOP)
    assert made.loss == pytest.approx(LOST / FLOP)
    assert made.overhead == pytest.approx(START)
    assert made.add == pytest.approx(1 / ADD)
    assert made.pack == pytest.approx((1 / PACK_A, 1 / PACK_B))
    combine = np.array(made.combine)
    expected = np.array([1 / NEAR_A, 1 / FAR_A, 1 / NEAR_B, 1 / FAR_B])
    # If all or none of the sums fit the cache, near and far rates are equal.
    assert (np.isclose(combine, expected) | np.isclose(combine, expected[[1, 0, 3, 2]])).all()


def combines(cache, far):
    """Times of combines on a machine whose cache has so many bytes, and costs `far` x beyond."""
    calls = [x for x in measure._calls(1536) if x[3] is not None]
    runs, sizes = [], []
    for M, N, K, scheme in calls:
        m, k, n = scheme.format
        a, b = M * K / (m * k), K * N / (k * n)
        sizes.append(scheme.rank * (a + b) * 4)
        slower = far if sizes[-1] > cache else 1.0
        u, v, _ = (x.additions for x in scheme.shared_sums)
        first = u * a * ADD + (M * K + scheme.rank * a) * NEAR_A * slower
        second = v * b * ADD + (K * N + scheme.rank * b) * NEAR_B * slower
        runs.append({"combine_a": first, "combine_b": second})
    return runs, calls, sizes


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_size_of_the_cache_is_found_from_the_times(monkeypatch, share):
    """Whatever size the processor reports."""
    monkeypatch.setattr(measure._core, "cache_sizes", lambda: {"l3": 2**40})
    *_, sizes = combines(0, 1.0)
    cache = sorted(sizes)[int(share * len(sizes))] * 1.001
    runs, calls, _ = combines(cache, 1.5)
    found, costs = measure._combine_costs(runs, calls, 4)
    assert [x > found for x in sizes] == [x > cache for x in sizes]
    expected = [NEAR_A, 1.5 * NEAR_A, NEAR_B, 1.5 * NEAR_B, ADD]
    assert costs == pytest.approx(expected)


def test_no_cache_where_the_times_show_none():
    runs, calls, _ = combines(2**24, 1.0)
    found, costs = measure._combine_costs(runs, calls, 4)
    assert found == 0.0
    assert costs == pytest.approx([NEAR_A, NEAR_A, NEAR_B, NEAR_B, ADD])
