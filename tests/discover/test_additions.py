"""Walks on additions: schemes stay schemes, and get cheaper than the sparse ones are."""

import random

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.discover.walk import additions, masks, sums

from .support import residual


def cheapest(name, walks, moves, seed):
    """Fewest additions after some walks, each from the best so far."""
    scheme, rng = schemes.get(name), random.Random(seed)
    terms = masks.terms_of(scheme)
    least = sums.reduce(terms, scheme.format, 500, rng)[0]
    first = least
    for _ in range(walks):
        found = additions.walk(terms, scheme.format, moves, rng)
        assert residual(found, scheme.format) == 0
        assert len(found) == scheme.rank
        cost = sums.reduce(found, scheme.format, 500, rng)[0]
        if cost <= least:
            terms, least = found, cost
    return first, least


def test_strassen_becomes_winograd():
    """18 additions to 15, with more non-zeros than before."""
    assert cheapest("strassen", 10, 300, 1) == (18, 15)


def test_the_sparsest_scheme_is_not_the_cheapest():
    first, least = cheapest("3x3x3:23", 8, 500, 2)
    assert first >= 66
    assert least <= first - 4


def test_repeatable():
    terms = masks.terms_of(schemes.get("2x3x3:15"))
    found = [additions.walk(terms, (2, 3, 3), 200, random.Random(5)) for _ in range(2)]
    assert np.array_equal(*found)
