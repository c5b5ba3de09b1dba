"""New schemes from old ones: every image, composition and sum multiplies matrices, exactly."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

import falcon
from falcon import schemes
from falcon.schemes import (
    Scheme,
    classical,
    compose,
    cyclic,
    direct_sum,
    permuted,
    symmetries,
    transposed,
)
from reference.brent import brent_residual

from .support import FRACTIONAL

NAMES = ["strassen", "winograd", "hopcroft-kerr", "2x3x4:20", "1x1x1:1"]


def proved(s):
    assert brent_residual(s.U, s.V, s.W) == 0
    return s


@pytest.mark.parametrize("sizes", list(product((1, 2, 3), repeat=3)))
def test_classical(sizes):
    s = proved(classical(*sizes))
    assert s.format == sizes
    assert s.rank == np.prod(sizes)
    assert s.nnz == (s.rank,) * 3
    assert s.name == "{}x{}x{}:{}".format(*sizes, s.rank)


@pytest.mark.parametrize("name", [*NAMES, "3x4x5:47-adds"])
def test_rotations_and_transposes(name):
    s = schemes.get(name)
    m, k, n = s.format
    once = cyclic(s)
    assert once.format == (k, n, m)
    assert cyclic(cyclic(once)) == s
    mirrored = transposed(s)
    assert mirrored.format == (n, k, m)
    assert transposed(mirrored) == s
    # The group is that of a triangle: rotating a mirror image goes the other way round.
    assert transposed(cyclic(s)) == cyclic(cyclic(transposed(s)))


@pytest.mark.parametrize("s", [schemes.get("2x3x4:20"), FRACTIONAL])
def test_permuted(s):
    images = symmetries(s)
    assert images[0] is s and {x.format for x in images} == set(permutations(s.format))
    for form in set(permutations(s.format)):
        image = proved(permuted(s, *form))
        assert image.format == form
        assert image.source == s.source
    assert permuted(s, *s.format) == s
    with pytest.raises(ValueError, match="no permutation of the format"):
        permuted(s, 5, 5, 5)


def test_names_of_images():
    images = {x.format: x.name for x in symmetries(schemes.get("2x3x4:20"))}
    assert images[4, 3, 2] == "4x3x2:20"
    assert cyclic(schemes.get("hopcroft-kerr")).name == "hopcroft-kerr[2x3x3]"
    assert cyclic(cyclic(schemes.get("hopcroft-kerr"))).name == "hopcroft-kerr[3x3x2]"
    assert cyclic(schemes.get("strassen")).name == "strassen"
    assert cyclic(schemes.get("3x4x5:47-adds")).name == "4x5x3:47-adds"
    both = schemes.get("strassen") @ schemes.get("2x2x3:11")
    assert cyclic(both).name == "(strassen@2x2x3:11)[4x6x4]"


@pytest.mark.parametrize("inner", NAMES)
@pytest.mark.parametrize("outer", ["strassen", "hopcroft-kerr", "1x2x3:6"])
def test_compose(outer, inner):
    x, y = schemes.get(outer), schemes.get(inner)
    both = compose(x, y)
    assert both.format == tuple(p * q for p, q in zip(x.format, y.format, strict=True))
    assert both.rank == x.rank * y.rank
    assert both.name == f"{outer}@{inner}"
    if both.m * both.k * both.n <= 64:
        proved(both)
    # The order of the levels is the order of the blocks: outside first.
    np.testing.assert_array_equal(both.U, [np.kron(u, v) for u in x.U for v in y.U])


def test_compose_fractions():
    both = proved(FRACTIONAL @ classical(1, 2, 1))
    assert not both.is_integral
    inverse = Scheme([[[Fraction(2, 3)]]], [[[Fraction(3, 2)]]], [[[1]]])
    # Fractions that cancel leave an integral scheme.
    assert Scheme([[[3]]], [[[2]]], [[[Fraction(1, 6)]]]) @ inverse == inverse @ Scheme(
        [[[3]]], [[[2]]], [[[Fraction(1, 6)]]]
    )


def test_composition_beyond_what_can_be_verified():
    large = schemes.get("5x5x5:93")
    with pytest.raises(ValueError, match=r"5x5x5:93@5x5x5:93@5x5x5:93|too large to be verified"):
        compose(large, schemes.get("strassen@strassen@strassen@strassen"))


@pytest.mark.parametrize("axis", "mkn")
@pytest.mark.parametrize("first", [schemes.get("strassen"), FRACTIONAL])
def test_direct_sum(axis, first):
    sizes = dict(zip("mkn", first.format, strict=True))
    sizes[axis] = 1
    second = classical(*sizes.values())
    for x, y in ((first, second), (second, first)):
        both = direct_sum(x, y, axis)
        expected = {**sizes, axis: getattr(first, axis) + 1}
        assert both.format == tuple(expected.values())
        assert both.rank == first.rank + second.rank
        assert both.phi == first.phi + second.phi
        if both.m * both.k * both.n <= 27:
            proved(both)
    assert both.U.dtype == first.U.dtype


def test_direct_sum_refusals():
    x, y = schemes.get("strassen"), schemes.get("3x3x3:23")
    with pytest.raises(ValueError, match="axis is 'x'; expected 'm', 'k' or 'n'"):
        direct_sum(x, x, "x")
    with pytest.raises(ValueError, match="differ in"):
        direct_sum(x, y, "m")


def test_a_composition_whose_sums_would_take_divisions_is_right():
    """In such a case they are searched in the flat coefficients."""
    U, V = [[[2, 3]], [[1, 1]]], [[[-1], [1]], [[3], [-2]]]
    skewed, strassen = Scheme(U, V, np.ones((2, 1, 1), int)), schemes.get("strassen")
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 10, (60, 80)), random.integers(-9, 10, (80, 40))
    for scheme in (strassen @ skewed, skewed @ strassen):
        made = falcon.gemm(a.astype(float), b.astype(float), scheme=scheme)
        np.testing.assert_array_equal(made, a @ b)
