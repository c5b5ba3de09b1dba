"""Inputs that tell a classical product from others (studies/graded.py): what falcon promises there.

For every scheme of the catalogue, as if "auto" had chosen it, and by name.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import of
from falcon._core.options import Options

from .doors import Problem
from .test_every_scheme import MORE, NAMES

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "studies"))
    import graded

SIZE = 109  # divided by no format
_FLOAT = Problem.of_sizes((512,) * 3, of("float32"), Options())
BACKENDS = [x.name for x in available_backends() if not x.why_classical_only(_FLOAT)]
DTYPES = ["float32"]
if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps:
    DTYPES.append("float64")
# The NumPy backend runs the same code for both types.
CASES = [(x, y) for x in BACKENDS for y in (DTYPES if x == "cpu" else DTYPES[:1])]
# Inputs of which all rows of A have about the same norm, and all columns of B.
EVEN = {
    graded.normal,
    graded.whole,
    graded.near_overflow,
    graded.nan_in_a,
    graded.infinity_in_b,
    graded.subnormal,
    graded.some_subnormal,
}


@cache
def known(given, dtype):
    """Return the classical product of an input, with every row."""
    found = graded.classical(given, SIZE, dtype)
    return graded.Classical(found.a, found.b, np.arange(SIZE))


def product(plan, operands):
    """Multiply by a plan; inputs stay, and flags of exceptions are not raised."""
    with np.errstate(all="raise"):
        return plan(operands.a, operands.b)


@pytest.mark.parametrize(("backend", "dtype"), CASES)
@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_schemes(name, backend, dtype):
    """As if "auto" had chosen them: zeros, and errors relative to each row and column.

    By name: errors relative to the largest row and column.
    """
    for given in graded.INPUTS:
        operands = known(given, dtype)
        by_name = falcon.plan(operands.a, operands.b, scheme=name, backend=backend)
        chosen = replace(by_name, guarded=True)
        assert chosen.scheme is not None
        found = operands.grades(product(chosen, operands))
        assert not (found["zeros"] or found["reach"]), given.name
        assert found["error"] <= 1.5 * chosen.growth, given.name
        assert not (given.make is graded.whole and found["rounded"])
        c = product(by_name, operands)
        found = operands.grades(c)
        assert not found["reach"], given.name
        if given.make in EVEN:
            assert found["error"] <= 1.5 * by_name.growth, given.name
            assert not (given.make is graded.whole and found["rounded"])
        elif given.make is not graded.scaled_rows:  # no type holds a norm's square
            bound = by_name.error_bound(operands.a, operands.b)
            assert (np.abs(c - operands.exact) <= bound).all(), given.name


def test_schemes_by_name_err_where_auto_does_not():
    """Else the test above would show nothing."""
    for given in graded.INPUTS:
        if given.make not in EVEN:
            operands = known(given, "float32")
            found = operands.grades(falcon.gemm(operands.a, operands.b, scheme="strassen"))
            assert found["error"] > 100 or found["zeros"] > 1000, given.name


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_without_schemes(dtype, backend):
    """max_growth=1: all that a classical product promises."""
    for given in graded.INPUTS:
        operands = known(given, dtype)
        plan = falcon.plan(operands.a, operands.b, max_growth=1.0, backend=backend)
        found = operands.grades(product(plan, operands))
        assert not (found["zeros"] or found["reach"]), given.name
        assert found["error"] <= 1.5, given.name
        assert not (given.exact and found["rounded"]), given.name


def split_plan(name, backend):
    """Return a plan by bfloat16 parts, None if there are no such kernels here."""
    how = {"scheme": name, "arithmetic": "bf16x6", "backend": backend}
    try:
        return falcon.plan((SIZE, SIZE), (SIZE, SIZE), "float32", **how)
    except (TypeError, ValueError):
        return None


def test_splits():
    """bfloat16 parts hold no subnormal numbers: such products are multiplied as they are."""
    some = [split_plan(x, y) for x in ("classical", "strassen", "2x3x3:15") for y in BACKENDS]
    plans = [replace(x, guarded=x.scheme is not None) for x in some if x is not None]
    for plan in plans:
        for given in graded.INPUTS:
            operands = known(given, "float32")
            found = operands.grades(product(plan, operands))
            assert not (found["zeros"] or found["reach"]), given.name
            assert found["error"] <= 1.5 * max(plan.growth, 1), given.name


@pytest.mark.parametrize("dtype", ["float16", "complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_zeros_of_other_types(name, dtype):
    random = np.random.default_rng(1)
    a, b = graded.zeros(random, SIZE, np.dtype("float64"))
    if dtype[0] == "c":
        a, b = (x * np.exp(1j * random.uniform(0, 7, x.shape)) for x in (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    plan = replace(falcon.plan(a, b, scheme=name), guarded=True)
    c = plan(a, b)
    assert not c[~a.any(axis=1)].any()
    assert not c[:, ~b.any(axis=0)].any()
    np.testing.assert_array_equal(c != 0, np.outer(a.any(axis=1), b.any(axis=0)))


def test_zeros_of_gram():
    x = graded.zeros(np.random.default_rng(2), SIZE, np.dtype("float32"))[1]
    lines = x.any(axis=0)
    np.testing.assert_array_equal(falcon.gram(x) != 0, np.outer(lines, lines))
