"""Residues: parts put together are the number, and no sum of products exceeds what is promised."""

import numpy as np
import pytest

from falcon._core.dtypes import FLOAT64
from falcon._core.modular import KINDS, Residues
from falcon._numpy.residues import modulo

MODULI = [2, 3, 4, 7, 256, 1009, 65537, 2**26, 2**31 - 2, 2**31 - 1]


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize("parts", range(1, 7))
def test_parts_are_digits_of_residues_of_least_magnitude(modulus, parts):
    way = Residues(modulus, FLOAT64, (parts, 1))
    base, largest = way.bases[0], way.largest[0]
    half = modulus // 2
    numbers = {0, 1, half - 1, half, half + 1, modulus - 1, -1, -half, 2**63 - 1, -(2**63)}
    numbers |= set(range(-300, 300)) | {half - base // 2 + i for i in range(-3, 4)}
    x = np.array(sorted(numbers))[None]
    found = np.empty((parts, *x.shape))
    modulo([x], [1], list(found), modulus, base)
    assert abs(found).max() <= largest
    digits = found.astype(np.int64).astype(object)
    whole = sum(part * base**i for i, part in enumerate(digits))
    assert ((whole - x.astype(object)) % modulus == 0).all()
    assert (abs(whole) <= modulus / 2).all()
    if parts > 1:
        assert (base - 1) ** parts < modulus <= base**parts


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("modulus", MODULI)
def test_sums_of_the_largest_parts_are_held(kind, modulus):
    way = Residues(modulus, kind, (3, 2))
    a, b = way.largest
    longest = int(way.room(1))
    if kind.is_exact:
        assert longest * a * b <= np.iinfo(way.sums.numpy).max
    else:
        assert longest * a * b <= 1 / kind.unit_roundoff
    assert way.room(longest) >= 1 > way.room(longest + 1)
