"""Starts of a search: which sums are drawn, and that parts walk before they are put together."""

import random

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon.discover.catalogue import library
from falcon.discover.catalogue.library import SLACK_TO_IMPROVE, Library
from falcon.discover.walk import masks

from .support import residual


@pytest.fixture(scope="module")
def known():
    return Library()


@pytest.mark.parametrize("mod2", [False, True])
def test_a_part_that_has_walked_is_another_scheme_of_no_higher_rank(known, mod2):
    rng, dims, new = random.Random(3), (3, 4, 5), 0
    for _ in range(5):
        factors = known.draw(dims, rng)
        found = library._wandered(factors, rng, mod2)
        terms = masks.from_arrays(*found)
        assert residual(terms, dims, mod2) == 0
        assert len(terms) <= len(factors[0])
        new += len(products(found, mod2) - products(factors, mod2)) > len(terms) // 6
    assert new >= 2


def products(factors, mod2):
    """The rank-one tensors that a scheme adds up, whatever the signs of their factors."""
    tensors = np.einsum("rab,rcd,ref->rabcdef", *factors).astype(np.int8)
    return {(x % 2 if mod2 else x).tobytes() for x in tensors}


def test_vectors_do_not_walk(known):
    rng = random.Random(3)
    factors = known.draw((3, 1, 4), rng)
    assert library._wandered(factors, rng, True) is factors


@pytest.mark.parametrize("mod2", [False, True])
def test_no_two_draws_of_a_sum_are_alike(known, mod2):
    dims = (2, 2, 5)
    (start, *_) = (x for x in known.starts(dims) if x.kind == "merge")
    drawn = [start(random.Random(seed), mod2) for seed in range(4)]
    for terms in drawn:
        assert residual(terms, dims, mod2) == 0
    assert len({np.sort(terms, axis=0).tobytes() for terms in drawn}) == 4


def test_parts_to_improve_with_may_be_sums():
    """Their ranks may be a little higher, and they are as smooth as what they consist of."""
    known, rng, dims = Library(slack=SLACK_TO_IMPROVE), random.Random(3), (4, 5, 5)
    least = known.rank(dims)
    drawn = [masks.from_arrays(*known.draw(dims, rng)) for _ in range(40)]
    assert all(residual(terms, dims) == 0 for terms in drawn)
    ranks = [len(terms) for terms in drawn]
    assert min(ranks) == least < max(ranks)
    assert {len(Library().draw(dims, rng)[0]) for _ in range(40)} <= {least, least + 1}
