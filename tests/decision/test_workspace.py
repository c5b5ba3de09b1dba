"""The workspace is part of the choice: more of it, up to a share of memory, for fewer passes."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

import falcon
from falcon._backends import ENGINE
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._core.rates import Rates
from falcon._front.tune import compare
from falcon.decision.candidates import scheme_candidates
from falcon.decision.methods import Way, judge, least_seconds

from ..doors import BLAS, Candidate, Method, Problem, preferred

pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")

MIB = 2**20
# Combines are expensive, so passes are.
RATES = Rates(8e10, 9e9, 2e8, overlap=0.0, tile=(6, 8))


@pytest.fixture(autouse=True)
def small(doors):
    """A machine on which calls have 8 MiB by default, and take up to 64."""
    doors.rates(RATES)
    doors.memory(kept=8 * MIB, large=64 * MIB)


def plan(size=1536, **options):
    return falcon.plan((size, size), (size, size), "float32", backend="cpu", **options)


def test_more_workspace_is_taken_where_it_saves_passes():
    found = plan()
    assert found.scheme is not None and found.method.large_workspace
    assert 8 * MIB < found.workspace <= 64 * MIB
    cut = plan(workspace_limit=8 * MIB)
    assert cut.workspace <= 8 * MIB and not cut.method.large_workspace
    assert sum(x for _, x in found.seconds) < sum(x for _, x in cut.seconds)


@pytest.mark.parametrize(("time", "large_workspace"), [(0.99, False), (0.95, True)])
def test_not_where_it_saves_nothing(time, large_workspace):
    whole, strassen = (1536,) * 3, falcon.schemes.get("strassen")
    cut = Method("cpu", strassen, (768, 1536, 1536), 8 * MIB, True)
    more = Method("cpu", strassen, whole, 64 * MIB, True, large_workspace=True)
    kept = [Candidate(cut, (("multiply", 1.0),)), Candidate(more, (("multiply", time),))]
    best = preferred(kept, BLAS)
    assert best.method.large_workspace == large_workspace


def test_the_product_is_the_same():
    random = np.random.default_rng(0)
    a, b = random.integers(-8, 9, (2, 1536, 1536)).astype(np.float32)
    assert plan().method.large_workspace
    np.testing.assert_array_equal(plan()(a, b), a.astype(float) @ b.astype(float))


def test_a_scheme_with_and_without_is_two_sides_of_a_comparison():
    found = plan(640, scheme="strassen")
    twice = [Candidate(replace(found.method, large_workspace=x), ()) for x in (False, True)]
    compared = compare(found, twice, 1, 1.0)
    names = [x.record.name for x in compared]
    assert len(names) == 2 and len(set(names)) == 2


def test_a_limit_that_refuses_many_schemes_makes_few(doors):
    """What cannot be fast enough in the limit is neither built nor laid out."""
    doors.rates(Rates(2.5e11, 1.2e10, 4e9, overlap=0.5, tile=(12, 32)))
    asked = doors.watched(type(ENGINE), "candidates")
    for limit in (4, 16, 64):
        found = plan(3600, workspace_limit=limit * MIB, threads=2)
        assert found.workspace <= limit * MIB
        assert len(asked) < 100, limit
        asked.clear()


@pytest.mark.parametrize("limit", [8, 32])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64", "int32"])
def test_nothing_is_faster_in_a_limit_than_its_bound(dtype, limit):
    problem, limit = Problem(1000, 1536, 1300, dtype_of(dtype), threads=2), limit * MIB
    suited, facts = scheme_candidates().suited_to(problem, ENGINE.policy(problem))
    about = problem, facts, ENGINE, RATES
    bounds = {at: x for x, at in least_seconds(*about, most_bytes=limit)}
    unlimited = least_seconds(*about)
    assert limit > 8 * MIB or any(x < bounds.get(at, inf) for x, at in unlimited)
    options, compared = Options(workspace_limit=limit, max_growth=100.0), 0
    for at in range(0, len(suited), 9):
        for method in ENGINE.candidates(problem, [suited[at].scheme], limit):
            found = judge(problem, method, Way(ENGINE), RATES, options)
            if not found.refused:
                assert bounds[at] <= found.total * 1.0000001
                compared += 1
    assert compared > 0
