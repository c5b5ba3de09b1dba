"""Who multiplies classically, by what a product costs falcon's kernels and a BLAS."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS, available_backends
from falcon._core import fit
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._core.rates import SLICE, Rates, classical_terms
from falcon.decision.library import has_costs, library_over

from ..doors import Problem, decided, is_faster

RATES = Rates(1e11, 5e9, 5e9, overlap=0.0, tile=(12, 32))
COSTS = 2e-6, 1e-11, 1e-10, 2e-10, 3e-10, 4e-10


def problem(M, N, K, dtype="float32", **about):
    return Problem(M, N, K, dtype_of(dtype), **about)


def test_seconds_are_costs_times_amounts():
    rates = replace(RATES, classical=COSTS)
    amounts = 1, 24 * 64 * 1000, 20 * 1000, 1000 * 33, 20 * 33, 3 * 20 * 33
    assert 2 * SLICE < 1000 <= 3 * SLICE
    assert classical_terms(20, 33, 1000, (12, 32)) == amounts
    assert rates.classical_seconds(20, 33, 1000) == pytest.approx(np.dot(COSTS, amounts))
    assert RATES.classical_seconds(20, 33, 1000) is None
    faster = rates.on(2.0, 5.0).classical
    assert faster == (COSTS[0], *(x / 2 for x in COSTS[1:])), "a call takes as long"


@pytest.mark.parametrize("costs", [(1.0,), (1.0,) * 7, (-1.0,) * 6, (float("nan"),) * 6])
def test_wrong_costs_are_refused(costs):
    with pytest.raises(ValueError, match="classical"):
        replace(RATES, classical=costs)


def test_costs_are_found_from_times(monkeypatch):
    def timed(calls, budget):
        return [call() for call in calls]

    monkeypatch.setattr(fit, "timed_in_turn", timed)
    exact = replace(RATES, classical=COSTS)
    found = fit.fit_classical(
        lambda *sizes: partial(exact.classical_seconds, *sizes), exact.tile, 1.0
    )
    assert found == pytest.approx(COSTS, rel=1e-6)


def test_what_the_costs_are_for():
    mine, slow = (replace(RATES, classical=tuple(f * x for x in COSTS)) for f in (1, 3))
    assert has_costs(problem(300, 300, 300))
    assert library_over(problem(300, 300, 300), mine, slow) == pytest.approx(3.0)
    assert library_over(problem(300, 300, 300), mine, RATES) is None
    for other in (
        problem(300, 300, 300, "complex64"),
        problem(300, 300, 300, packed=True),
        problem(300, 300, 300, symmetric="full"),
        problem(300, 300, 300, count=9),
        problem(1, 3000, 3000),
        problem(90, 90, 90),
    ):
        assert not has_costs(other)
    copied = library_over(problem(300, 300, 300, a_direct=False), mine, slow)
    assert copied > 3.0, "NumPy copies an operand first"


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_the_cheaper_side_multiplies(ratio):
    engine = BACKENDS["cpu"]
    if engine.is_library or engine.why_unavailable() or engine.kernels() == "generic":
        pytest.skip("needs falcon's fast kernels")
    assert is_faster(problem(900, 30, 900), engine, ratio) == (ratio > 1)
    assert is_faster(problem(3000, 3000, 3000), engine, ratio) == (ratio > 1)
    assert is_faster(problem(32, 900, 900), engine, ratio), "few rows have a rule"
    assert is_faster(problem(300, 300, 300, "int32"), engine, ratio), "no BLAS"


@pytest.mark.parametrize("costs", [True, False])
@pytest.mark.parametrize(("library", "chosen"), [(0.5, "numpy"), (0.97, "cpu"), (2.0, "cpu")])
def test_schemes_compete_with_the_library(library, chosen, costs):
    """On falcon's kernels; where it is much faster they lose, and what is chosen is told."""
    if BACKENDS["cpu"].why_unavailable() or BACKENDS["cpu"].kernels() == "generic":
        pytest.skip("needs falcon's fast kernels")
    big, some = problem(4096, 4096, 4096), available_backends()
    own = replace(RATES, classical=COSTS if costs else ())
    theirs = replace(RATES, multiply=RATES.multiply / library)
    if costs:
        theirs = replace(RATES, classical=tuple(library * x for x in COSTS))

    def rates(backend):
        return theirs if backend.is_library else own

    order = sorted(some, key=lambda x: x.is_library != (costs and library < 1))

    plan = decided(big, Options(), order, rates)
    assert plan.backend.name == chosen
    assert (plan.scheme is None) == (chosen == "numpy")
    table = {(x.method.backend, x.method.is_classical) for x in plan.candidates}
    assert table == {("cpu", False), ("cpu", True), ("numpy", True)}, "what was compared"
    assert plan.candidates[0].method is plan.method
    if chosen == "numpy":
        assert plan.why == "no scheme is predicted to be faster"
        return
    times = {x.method.backend: x.total for x in plan.candidates if x.method.is_classical}
    better = min(times, key=times.get)
    assert better == ("numpy" if library < 1 else "cpu")
    gain = times[better] / plan.candidates[0].total
    assert plan.why == f"predicted {gain:.3f} x as fast as {better} classical"


@pytest.mark.parametrize("chosen", ["cpu", "numpy"])
def test_a_scheme_by_name_runs_where_it_is_predicted_to_be_fastest(chosen):
    """Whoever multiplies classically, and comes first: here the library."""
    if BACKENDS["cpu"].why_unavailable():
        pytest.skip("needs falcon's kernels")
    slow = replace(RATES, add=RATES.add / 1000, bandwidth=RATES.bandwidth / 1000)
    order = sorted(available_backends(), key=lambda x: not x.is_library)
    options = Options(scheme=falcon.schemes.get("strassen"))
    plan = decided(
        problem(2048, 2048, 2048), options, order, lambda x: RATES if x.name == chosen else slow
    )
    assert plan.backend.name == chosen
