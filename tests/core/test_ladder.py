"""What the rungs of an error that is named promise, and what a scheme may grow."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

import falcon
from falcon._core import ladder
from falcon._core.dtypes import COMPLEX128, FLOAT16, FLOAT32, FLOAT64, INT32, RUNGS, named
from falcon._core.method import Method
from falcon._core.options import Options
from falcon._core.problem import Problem

SINGLE = RUNGS[FLOAT64][0]
DOUBLE = RUNGS[FLOAT32][0]


def problem(K=1000, operand=FLOAT64, **about):
    return Problem(1000, 1000, K, operand, **about)


def method(row=None, slice=0):
    return Method("cpu", None, (1, 1, 1), 0, compute_type=row, slice=slice)


def options(error=1e-6, **about):
    return Options(error=error, **about)


def test_rows_of_rungs():
    assert [x.name for x in RUNGS[FLOAT64]] == ["float64 by float32", "float64 by bf16"]
    assert SINGLE.rounded is FLOAT32 is SINGLE.summed
    assert SINGLE.converts
    assert not FLOAT64.converts
    assert SINGLE.panel_bytes == 4
    assert SINGLE.itemsize == 8
    assert RUNGS[COMPLEX128][0].rounded.name == "complex64"
    assert named("float32", FLOAT64) is SINGLE
    assert named("float32", COMPLEX128).left is COMPLEX128
    assert named("float32", INT32).left is FLOAT64
    assert named("float32", FLOAT64, on_gpu=True) is None
    assert named("tf32", FLOAT32, on_gpu=True).name == "float32 by tf32"


@pytest.mark.parametrize("K", [1, 100, 128, 129, 1000, 4096, 100_000])
@pytest.mark.parametrize("row", [None, SINGLE])
def test_promises_grow_with_the_growth_and_the_unit(K, row):
    how = method(row, 128)
    promises = [ladder.promise(problem(K), how, g, centred=True) for g in (1, 2, 4)]
    assert promises == sorted(promises)
    assert promises[0] >= 7 * 0.41 * (2.0**-24 if row else 2.0**-53)
    assert ladder.promise(problem(K), how, 4.0, centred=False) > promises[-1]
    pair = problem(K, COMPLEX128), replace(how, compute_type=row and RUNGS[COMPLEX128][0])
    assert ladder.promise(*pair, centred=True) == pytest.approx(2 * promises[0])


@pytest.mark.parametrize("centred", [True, False])
def test_promises_grow_with_what_was_measured(centred):
    how, p = method(SINGLE, 128), problem()
    made = [ladder.promise(p, how, 3.0, x, centred=centred) for x in (4.0, 8.0, 30.0, 1000.0)]
    assert made == sorted(made)
    few = ladder.promise(p, how, 3.0, 1000.0, centred=True)  # few elements are most of a line
    assert few == ladder.promise(p, how, 3.0, 1000.0, centred=False)
    longer = ladder.promise(p, method(SINGLE), centred=True)
    assert longer > ladder.promise(p, how, centred=True)


def test_results_of_fewer_bits_are_rounded():
    found = ladder.promise(problem(operand=FLOAT32), method(DOUBLE), centred=True)
    assert 2.0**-24 < found < 1.01 * 2.0**-24


@pytest.mark.parametrize("error", [9e-7, 1e-6, 1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("packed", [False, True])
def test_growth_is_what_a_rung_leaves(error, packed):
    p, centred, how = problem(packed=packed), not packed, method(SINGLE, 128)
    most = ladder.growth_left(p, options(error), how)
    assert most == 64 or ladder.promise(p, how, most + 0.125, centred=centred) > error
    if most >= 1:
        assert ladder.promise(p, how, most, centred=centred) <= error
    assert packed or most >= 1


def test_rungs_that_err_by_more_leave_less_than_their_least():
    how = method(SINGLE, 128)
    assert ladder.growth_left(problem(), options(1e-8), how) < ladder.least_growth(SINGLE) == 1
    assert ladder.growth_left(problem(), options(1e-17), method()) == 0
    asked = options(1e-3, max_growth=2.0, given=frozenset({"max_growth"}))
    assert ladder.growth_left(problem(), asked, how) == 2
    assert ladder.growth_left(problem(operand=FLOAT16), options(0.1), method()) == 1


@pytest.mark.parametrize(
    ("about", "bound"),
    [
        ({}, True),
        ({"scheme": "classical"}, True),
        ({"scheme": falcon.schemes.get("strassen")}, False),
        ({"arithmetic": "native"}, False),
        ({"error": None}, False),
    ],
)
def test_which_options_name_an_error(about, bound):
    assert ladder.is_bound(problem(), replace(options(), **about)) is bound
    assert not ladder.is_bound(problem(operand=INT32), options())
    assert not ladder.is_bound(replace(problem(), headroom=2.0), options())


def test_rungs_of_problems():
    assert ladder.rungs_of(problem()) == (SINGLE, RUNGS[FLOAT64][1])
    assert ladder.rungs_of(problem(operand=FLOAT32)) == (DOUBLE, RUNGS[FLOAT32][1])
    for about in ({"weighted": True}, {"device": 0}, {"reproducible": "rows"}):
        assert ladder.rungs_of(replace(problem(), **about)) == ()
    assert ladder.rungs_of(problem(operand=INT32)) == ()


@pytest.mark.parametrize("value", [0, -1e-3, 1.5, inf, float("nan")])
def test_values_out_of_range(value):
    with pytest.raises(ValueError, match=r"error is .*; expected a number above 0, at most 1"):
        falcon.gemm(np.eye(2), np.eye(2), error=value)


@pytest.mark.parametrize("value", ["1e-6", True, [1e-6]])
def test_values_of_other_types(value):
    with pytest.raises(TypeError, match=r"error is .*; expected a number"):
        falcon.gemm(np.eye(2), np.eye(2), error=value)


@pytest.mark.parametrize("operand", [FLOAT32, FLOAT64])
@pytest.mark.parametrize("K", [1, 64, 2048, 100_000])
def test_bfloat16_promises_the_worst_case(operand, K):
    row = RUNGS[operand][1]
    found = ladder.promise(problem(K, operand), method(row, 768), centred=True)
    assert 2.02 * 2.0**-8 < found < 0.01
    for error, most in ((0.99 * found, 0), (1.01 * found, 1), (1.0, 1)):
        left = ladder.growth_left(problem(K, operand), options(error), method(row, 768))
        assert left == most if most else left < 1
