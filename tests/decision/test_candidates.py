"""Which schemes are candidates, what is known of them, and what their memory and errors cost."""

import dataclasses
from math import e

import numpy as np
import pytest

from falcon import schemes
from falcon._backends import BACKENDS
from falcon._core.bound import growth_of_sums
from falcon._core.dtypes import dtype_of
from falcon.decision import explain
from falcon.decision.candidates import scheme_candidates

from ..doors import PACKED, Candidate, Method, Problem, host_policy, preferred

BIG = Problem(2048, 2048, 2048, dtype_of("float32"))
SIZES = (1, 64, 65, 7 * 64, 8 * 64 - 1, 8 * 64, 10_000)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("axis", range(3))
def test_what_fits_is_what_leaves_blocks_of_the_least_size(dtype, axis):
    candidates = scheme_candidates()
    for size in SIZES:
        sizes = [10_000] * 3
        sizes[axis] = size
        problem = Problem(*sizes, dtype_of(dtype))
        for x in candidates.all:
            scheme = x.scheme
            # A nested scheme must leave blocks four times as large.
            least = host_policy(problem).smallest_block * (4 if x.outer else 1)
            parts = (scheme.m, scheme.n, scheme.k)
            fits = all(part * least <= y for part, y in zip(parts, sizes, strict=True))
            for most in (np.inf, 3.0):
                expected = fits and (
                    scheme.is_integral if dtype == "int32" else scheme.rms_growth <= most
                )
                suited = candidates.suited_to(problem, host_policy(problem), most).candidates
                assert (x in suited) == expected


def test_what_is_known_of_nested_schemes_is_true_of_the_composition():
    nested = [x for x in scheme_candidates().all if x.outer]
    assert len(nested) > 50
    for x in nested[:: len(nested) // 12]:
        made, known = x.scheme, x.counts
        assert made.format == (known.m, known.k, known.n) and made.rank == known.rank
        assert [y.additions for y in made.shared_sums] == [known.u, known.v, known.w]
        assert x.rms_growth == pytest.approx(made.rms_growth) and x.rms_growth <= 8
        assert x.is_integral == made.is_integral
        assert x.sum_growth == pytest.approx(growth_of_sums(made), rel=1e-5)


@pytest.mark.parametrize("headroom", [5.0, 20.0, 100.0])
def test_where_floats_hold_integers_schemes_whose_sums_fit_are_candidates(headroom):
    """No other is built, to be refused: that takes milliseconds for each."""
    problem = Problem(8192, 8192, 8192, dtype_of("float64"), headroom=headroom)
    suited = scheme_candidates().suited_to(problem, host_policy(problem), np.inf).candidates
    wide = dataclasses.replace(problem, headroom=1e300)
    for x in scheme_candidates().suited_to(wide, host_policy(problem), np.inf).candidates:
        assert (x in suited) == (growth_of_sums(x.scheme) <= headroom)


def test_panels_of_a_packed_operand_have_a_price():
    """Strassen holds 0.75 further copies of B: it must save 0.75 % more of the time."""
    strassen = schemes.get("strassen")
    policy = BACKENDS["cpu"].policy(dataclasses.replace(BIG, packed=True))
    assert policy == dataclasses.replace(PACKED, holds_panels=True)
    assert PACKED.price(None) == host_policy(BIG).price(strassen) == 1.0
    assert PACKED.price(strassen) == pytest.approx(1.0075)
    options = [Method("made up", x, (2048,) * 3, 0) for x in (None, strassen)]
    for saved, is_worth in ((0.04, False), (0.05, True)):
        times = (("multiply", 1.0),), (("multiply", 1 - saved),)
        kept = [Candidate(x, y) for x, y in zip(options, times, strict=True)]
        assert preferred(kept, host_policy(BIG)).method is options[1]
        assert preferred(kept, PACKED).method is options[is_worth]
    lost, best = Candidate(options[1], (("multiply", 0.95),)), Candidate(options[0], times[0])
    assert explain._reason(lost, best, PACKED) == "faster by less than 1% per further copy of B"


def test_errors_have_a_price():
    """An error e times as large must save 1 % of the time."""
    policy = host_policy(BIG)
    assert policy.price(None) == policy.price(None, 0.5) == 1.0
    assert policy.price(None, e) == pytest.approx(1.01)
    small, large = schemes.get("2x4x4:26"), schemes.get("3x4x6:54")
    assert large.rms_growth > small.rms_growth
    options = [Method("made up", x, (2048,) * 3, 0) for x in (small, large)]
    worth = policy.price(None, large.rms_growth) / policy.price(None, small.rms_growth)
    for time, best in ((1.0001 / worth, 0), (0.9999 / worth, 1)):
        kept = [Candidate(x, (("multiply", y),)) for x, y in zip(options, (1.0, time), strict=True)]
        assert preferred(kept, policy) is kept[best]
    lost = Candidate(options[1], (("multiply", 0.999),))
    why = "faster by too little for its larger errors"
    assert explain._reason(lost, kept[0], policy) == why
