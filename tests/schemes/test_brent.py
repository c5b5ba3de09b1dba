"""The Brent equations: falcon and the reference prove every scheme and find every error."""

import tracemalloc
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falcon import schemes
from falcon.schemes import Scheme, SchemeError, brent
from reference.brent import brent_residual


def slow_violations(U, V, W):
    """The equations one by one, in falcon's order, in Python's own numbers."""
    rank, m, k = U.shape
    n = V.shape[2]
    U, V, W = (x.tolist() for x in (U, V, W))
    for i, l, p, j, x, y in np.ndindex(m, k, k, n, m, n):
        got = sum(U[r][i][l] * V[r][p][j] * W[r][x][y] for r in range(rank))
        expected = int(l == p and x == i and y == j)
        if got != expected:
            yield (i + 1, l + 1), (p + 1, j + 1), (x + 1, y + 1), got, expected


def slow_first_violation(U, V, W):
    return next(slow_violations(U, V, W), None)


def found(U, V, W):
    violation = next(iter(brent.violations(U, V, W)), None)
    if violation is None:
        return None
    return violation.a, violation.b, violation.c, violation.got, violation.expected


@pytest.mark.parametrize("name", schemes.names())
def test_every_scheme_in_all_permutations(name):
    scheme = schemes.get(name)
    images = schemes.symmetries(scheme)
    assert len(images) == 6
    assert {x.format for x in images} == set(permutations(scheme.format))
    for image in images:
        assert not brent.violations(image.U, image.V, image.W)
    # The reference is slow: it checks one image, and all images of small schemes.
    volume = scheme.m * scheme.k * scheme.n
    for image in images if volume <= 27 else images[:1]:
        if volume <= 48:
            assert brent_residual(image.U, image.V, image.W) == 0


def test_first_violation_is_the_first():
    s = schemes.get("strassen")
    for factor in range(3):
        for index in np.ndindex(7, 2, 2):
            wrong = [np.array(x) for x in (s.U, s.V, s.W)]
            wrong[factor][index] += 1
            assert found(*wrong) == slow_first_violation(*wrong) is not None


@given(st.data())
@settings(max_examples=60)
def test_random_triples_agree_with_the_slow_check(data):
    rank, m, k, n = (data.draw(st.integers(1, 3)) for _ in range(4))
    coefficients = st.integers(-2, 2)
    factors = []
    for shape in ((rank, m, k), (rank, k, n), (rank, m, n)):
        size = int(np.prod(shape))
        values = data.draw(st.lists(coefficients, min_size=size, max_size=size))
        factors.append(np.array(values, np.int64).reshape(shape))
    assert found(*factors) == slow_first_violation(*factors)
    assert (found(*factors) is None) == (brent_residual(*factors) == 0)


def test_a_small_wrong_scheme_of_a_large_format_takes_little_memory():
    one = np.zeros((1, 100, 100), np.int64)
    one[0, 0, 0] = 1
    tracemalloc.start()
    with pytest.raises(SchemeError, match=r"\(999999 of 1000000000000 equations fail\)"):
        schemes.Scheme(one, one, one)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 96 * 2**20


def test_all_violations_come_in_order():
    s = schemes.get("strassen")
    U = s.U.copy()
    U[2, 0, 0] += 1  # sums that are wrong, and others that are lost
    U[0] = 0
    wrong = brent.violations(U, s.V, s.W)
    listed = [(x.a, x.b, x.c, x.got, x.expected) for x in wrong]
    assert listed == list(slow_violations(U, s.V, s.W))
    assert len(wrong) == len(listed) and {x[4] for x in listed} == {0, 1}


def test_fractions_are_exact():
    s = schemes.get("strassen")
    tiny = Fraction(1, 10**30)
    scheme = Scheme(s.U * Fraction(1, 3), s.V * Fraction(3, 7), s.W * 7)
    assert brent_residual(scheme.U, scheme.V, scheme.W) == 0
    U = np.array(scheme.U)
    U[0, 0, 0] += tiny
    assert found(U, scheme.V, scheme.W) == slow_first_violation(U, scheme.V, scheme.W) is not None


def test_nothing_wraps():
    """Coefficients whose products leave int64 when summed must not cancel modulo 2**64."""
    c = 2**20
    U, V, W = (np.full((32, 1, 1), c) for _ in range(3))
    assert [x.got for x in brent.violations(U, V, W)] == [2**65]
    U[:16] = -c
    assert [x.got for x in brent.violations(U, V, W)] == [0]


def test_the_message_names_the_equation():
    s = schemes.get("3x3x3:23")
    W = np.array(s.W)
    index = tuple(np.argwhere(W)[0])
    W[index] *= -1
    with pytest.raises(SchemeError) as error:
        Scheme(s.U, s.V, W, "flipped")
    a, b, c, got, expected = slow_first_violation(s.U, s.V, W)
    assert str(error.value) == (
        "'flipped' as <3,3,3;23> is not a matrix multiplication algorithm: Brent equation "
        f"a[{a[0]},{a[1]}] * b[{b[0]},{b[1]}] in c[{c[0]},{c[1]}]: the term "
        f"a{a[0]}{a[1]} b{b[0]}{b[1]} occurs {got} times in c{c[0]}{c[1]}, expected {expected} "
        f"({len(brent.violations(s.U, s.V, W))} of 729 equations fail); falcon.schemes.check says "
        "what is nearest"
    )


def test_work_counts_products():
    s = schemes.get("strassen")
    assert brent.work(s.U, s.V, s.W) == 32
    twice = s @ s
    assert brent.work(twice.U, twice.V, twice.W) == 32**2
