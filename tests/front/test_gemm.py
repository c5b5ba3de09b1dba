"""What `falcon.gemm` computes with a c of another type and by rational schemes; its plans dropped.

All else: tests/contract.
"""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon.schemes import Scheme


def rational_scheme():
    """Strassen's algorithm with its factors scaled: exact only among fractions."""
    s = falcon.schemes.get("strassen")
    scaled = (s.U * Fraction(1, 2), s.V * Fraction(1, 3), s.W * Fraction(6))
    return Scheme(*scaled, "rational strassen")


def operand(rng, shape, dtype, largest=9):
    """Small whole numbers, so that every dtype is exact."""
    dtype = np.dtype(dtype)
    x = rng.integers(0 if dtype.kind == "u" else -largest, largest + 1, shape)
    return (x + 1j * x[::-1]).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


@pytest.mark.parametrize("beta_dtype", ["f4", "f8", "i4", "c8", "g"])
def test_the_dtype_of_c_counts_for_the_result(beta_dtype):
    rng = np.random.default_rng(7)
    for dtype in ("i1", "i4", "f4", "c16"):
        a, b = operand(rng, (4, 3), dtype), operand(rng, (3, 5), dtype)
        c = operand(rng, (4, 5), beta_dtype)
        for k in (0, 3):
            found = falcon.gemm(a[:, :k], b[:k], c, beta=2)
            assert found.dtype == np.result_type(a, b, c)
            expected = a[:, :k].astype(found.dtype) @ b[:k].astype(found.dtype) + 2 * c
            np.testing.assert_array_equal(found, expected)
            assert falcon.gemm(a[:, :k], b[:k], c, beta=0).dtype == a.dtype


def test_a_beta_that_is_rounded_to_zero_is_zero():
    a, b, poison = np.ones((6, 4), "f4"), np.ones((4, 5), "f4"), np.full((6, 5), np.nan, "f4")
    np.testing.assert_array_equal(falcon.gemm(a, b, poison, beta=1e-300), np.full((6, 5), 4))


def test_rational_schemes():
    rng = np.random.default_rng(9)
    rational = rational_scheme()
    a, b = operand(rng, (9, 7), "f8"), operand(rng, (7, 8), "f8")
    np.testing.assert_allclose(falcon.gemm(a, b, scheme=rational), a @ b, atol=1e-12)
    with pytest.raises(TypeError, match=r"'rational strassen' cannot .*fractional coefficients"):
        falcon.gemm(a.astype(int), b.astype(int), scheme=rational)


def test_rational_coefficients_in_long_double():
    """1/3 as a float of Python has 53 bits; the coefficients must have all the dtype's."""
    if np.finfo("g").eps == np.finfo("d").eps:
        pytest.skip("long double is double here")
    rng = np.random.default_rng(10)
    a, b = operand(rng, (8, 8), "g"), operand(rng, (8, 8), "g")
    error = abs(falcon.gemm(a, b, scheme=rational_scheme()) - a @ b).max()
    assert error < 1000 * np.finfo("g").eps


def test_more_shapes_than_plans_are_kept(doors):
    """Threads that evict each other's plans get right results."""
    doors.numbers(kept_plans=3)
    _, plans = doors.forget()
    ones = np.ones((40, 40))

    def run(i):
        k = 1 + i % 30
        return (falcon.gemm(ones[:, :k], ones[:k], scheme="strassen") == k).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(400)))
    assert 0 < len(plans) <= 3


def test_a_replaced_scheme_replaces_its_plans(clean):
    """Names are looked up at every call: a plan of the former scheme must not be used."""
    for base in (falcon.schemes.get("strassen"), falcon.schemes.get("laderman")):
        mine = Scheme(base.U, base.V, base.W, "mine")
        falcon.schemes.register(mine, overwrite=True)
        assert falcon.plan((9, 9), (9, 9), scheme="mine").scheme is mine
