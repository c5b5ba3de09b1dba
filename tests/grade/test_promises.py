"""What falcon promises on inputs that tell a classical product from others.

For every scheme of the catalogue, as if "auto" had chosen it, and by name.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._grade.probes import Subject
from falcon._grade.products import Products

from ..doors import Problem
from ..test_every_scheme import MORE, NAMES

SIZE = 109  # divided by no format
_FLOAT = Problem.of_sizes((512,) * 3, dtype_of("float32"), Options())
BACKENDS = [x.name for x in available_backends() if not x.why_classical_only(_FLOAT)]
# The NumPy backend runs the same code for both types.
CASES = [(x, y) for x in BACKENDS for y in ("float32", "float64")[: 1 + (x == "cpu")]]


def products(plan, dtype="float32", signs=2):
    """Products by a plan; inputs stay, and flags of exceptions are not raised."""

    def multiply(a, b):
        given = a.copy(), b.copy()
        with np.errstate(all="raise"):
            c = plan(a, b)
        np.testing.assert_array_equal([a, b], given)
        return c

    return Products(Subject(multiply, np.dtype(dtype), SIZE), signs)


def plan_of(name, backend, dtype="float32", **how):
    return falcon.plan((SIZE, SIZE), (SIZE, SIZE), dtype, scheme=name, backend=backend, **how)


def uneven(x):
    """Powers of two for rows of A, or columns of B: one, or all."""
    reach, one = (x.subject.most - 8) // 4, np.arange(SIZE) == SIZE // 3
    many = x.random.integers(-reach, reach, SIZE)
    return {"r": one * reach}, {"s": one * reach}, {"r": many}, {"s": many}


def error(x, **how):
    """The largest one over u sqrt(K) norm(a_i) norm(b_j)."""
    return np.abs(x.errors(x.scaled(**how))[1]).max()


@pytest.mark.parametrize(("backend", "dtype"), CASES)
@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_schemes(name, backend, dtype):
    """As if "auto" had chosen them: zeros, and errors relative to each row and column."""
    by_name = plan_of(name, backend, dtype)
    x = products(replace(by_name, guarded=True), dtype)
    assert not (x.zeros() or x.misplaced() or x.overflowing() or x.whole(2.0**24) or x.flushed())
    for how in ({}, *uneven(x)):
        assert error(x, **how) <= 1.5 * by_name.growth, how
    x = products(by_name, dtype)
    assert not (x.misplaced() or x.overflowing() or x.whole(2.0**24))
    assert error(x) <= 1.5 * by_name.growth


def test_schemes_by_name_err_where_auto_does_not():
    """Else the test above would show nothing."""
    x = products(plan_of("strassen", "auto"))
    assert x.zeros() and x.permuted() and x.uneven(1e3)
    assert all(error(x, **how) > 100 for how in uneven(x))


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("signs", [1, 2])
def test_without_schemes(dtype, backend, signs):
    """max_growth=1: all that a classical product promises."""
    x = products(plan_of("auto", backend, dtype, max_growth=1.0), dtype, signs)
    assert not (x.zeros() or x.misplaced() or x.overflowing() or x.permuted() or x.flushed())
    assert not (x.uneven(SIZE) or x.whole(2.0**24)) and error(x) <= 1.5


def test_splits():
    """bfloat16 parts hold no subnormal numbers: such products are multiplied as they are."""
    for name, backend in product(("classical", "strassen", "2x3x3:15"), BACKENDS):
        with suppress(TypeError, ValueError):  # no such kernels here
            plan = plan_of(name, backend, arithmetic="bf16x6")
            x = products(replace(plan, guarded=plan.scheme is not None))
            assert not (x.zeros() or x.misplaced() or x.overflowing() or x.flushed())
            assert not x.whole(2.0**24)
            assert all(error(x, **how) <= 1.5 * max(plan.growth, 1) for how in ({}, *uneven(x)))


@pytest.mark.parametrize("dtype", ["float16", "complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_zeros_of_other_types(name, dtype):
    a, b = np.random.default_rng(1).standard_normal((2, SIZE, SIZE))
    if dtype[0] == "c":
        a, b = a + 1j * b, b - 1j * a
    a[::4], b[:, 1::5] = 0, 0
    a, b = a.astype(dtype), b.astype(dtype)
    c = replace(falcon.plan(a, b, scheme=name), guarded=True)(a, b)
    np.testing.assert_array_equal(c != 0, np.outer(a.any(axis=1), b.any(axis=0)))


def test_zeros_of_gram():
    x = np.random.default_rng(2).standard_normal((SIZE, SIZE)).astype("float32")
    x[:, 1::5] = 0
    np.testing.assert_array_equal(falcon.gram(x) != 0, np.outer(x.any(axis=0), x.any(axis=0)))
