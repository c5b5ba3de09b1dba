"""Residues: the number follows from them, and no sum of products exceeds what is promised."""

from math import gcd, prod

import numpy as np
import pytest

from falcon._core.dtypes import FLOAT64
from falcon._core.modular import KINDS, Residues, coprime
from falcon._numpy.residues import modulo

MODULI = [2, 3, 4, 7, 256, 1009, 65537, 2**26, 2**31 - 2, 2**31 - 1, 2**53 + 5, 2**61 - 1, 2**62]


@pytest.mark.parametrize("modulus", MODULI)
def test_numbers_follow_from_their_residues(modulus):
    half = modulus // 2
    numbers = {0, 1, half - 1, half, half + 1, modulus - 1, -1, -half, 2**63 - 1, -(2**63)}
    x = np.array(sorted(numbers | set(range(-300, 300))))[None]
    for kind, longest in ((kind, K) for kind in KINDS for K in (1, 1000)):
        way = Residues.several((modulus,), kind, longest, modulus)
        assert way is not None
        found = np.empty((len(way.moduli), *x.shape), kind.numpy)
        modulo([(x, 1, 0, 0)], *way.of_operand(found))
        assert abs(found.astype(int)).max() <= way.largest <= KINDS[kind]
        terms, carry = way.of_sums(found, modulus)
        back = np.empty(x.shape, np.int64)
        modulo(terms, [(back, 0)], modulus, carry)
        assert (back == x.astype(object) % modulus).all()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("modulus", MODULI)
def test_sums_of_the_largest_residues_are_held(kind, modulus):
    for longest in (1, 300, 5000):
        bound = longest * modulus**2
        way = Residues.several((modulus,), kind, longest, bound)
        if way is None:
            continue
        held = np.iinfo(way.sums.numpy).max if kind.is_exact else 1 / kind.unit_roundoff
        assert longest * way.largest**2 <= held
        assert prod(way.moduli) > 3 * bound
        assert way.headroom(longest) >= 1
        assert all(gcd(x, y) == 1 for x in way.moduli for y in way.moduli if x != y)


def test_moduli():
    assert coprime(255, 2**131)[:6] == (255, 254, 253, 251, 247, 241)
    assert len(coprime(255, 2**131)) == 17
    assert coprime(20, 2**100) == ()
    assert Residues((6, 10), FLOAT64).modulus == 30
    assert Residues((2**61 - 1, 2**31 - 1), FLOAT64).modulus == 0  # operands are not reduced
