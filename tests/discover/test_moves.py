"""Moves between formats, masks, lifting, starts of a search: every result is a scheme again."""

import random

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.discover.catalogue import library
from falcon.discover.catalogue.library import SLACK_TO_IMPROVE, Library
from falcon.discover.walk import lifting, masks, moves
from falcon.discover.walk._core import Walker

from .support import residual

NAMES = ["strassen", "laderman", "2x3x5:25", "3x4x4:38"]


def factors(name):
    scheme = schemes.get(name)
    return scheme.U, scheme.V, scheme.W


@pytest.mark.parametrize("name", schemes.names())
def test_masks_and_back(name):
    scheme = schemes.get(name)
    terms = masks.terms_of(scheme)
    again = masks.scheme_of(terms, scheme.format, name, "a test")
    assert again.same_coefficients(scheme)
    assert masks.nnz(terms) == sum(scheme.nnz)
    assert masks.phi(terms) == scheme.phi


def test_masks_refuse():
    with pytest.raises(ValueError, match="is not -1, 0 or 1"):
        masks.pack(np.array([[[2]]]))
    with pytest.raises(ValueError, match="has 65 entries"):
        masks.pack(np.zeros((1, 5, 13)))


def test_classical():
    for dims in [(1, 1, 1), (2, 3, 4), (4, 1, 3)]:
        expected = masks.terms_of(schemes.classical(*dims))
        assert np.array_equal(moves.classical(dims), expected)


@pytest.mark.parametrize("name", NAMES)
def test_images_and_bases(name):
    rng = random.Random(1)
    first = factors(name)
    m, k, n = moves.dims_of(first)
    for dims in {(m, k, n), (k, n, m), (n, k, m), (n, m, k)}:
        image = moves.reshaped(first, dims, rng)
        assert moves.dims_of(image) == dims
        other = moves.shuffled(image, rng)
        for x in (image, other):
            assert residual(masks.from_arrays(*x), dims) == 0
        assert sorted(np.abs(x).sum() for x in other) == sorted(np.abs(x).sum() for x in first)
    with pytest.raises(ValueError, match="no image"):
        moves.reshaped(first, (7, 1, 1), rng)


@pytest.mark.parametrize("axis", range(3))
def test_merge(axis):
    rng = random.Random(axis)
    sizes = [2, 3, 3]
    sizes[axis], other = 2, list(sizes)
    other[axis] = 1
    library = Library()
    first, second = library.draw(tuple(sizes), rng), library.draw(tuple(other), rng)
    whole = list(sizes)
    whole[axis] += 1
    terms = moves.merged(first, second, axis)
    assert len(terms) == len(first[0]) + len(second[0])
    assert residual(terms, tuple(whole)) == 0


@pytest.mark.parametrize("mod2", [False, True])
@pytest.mark.parametrize("axis", range(3))
def test_project(axis, mod2):
    rng = random.Random(axis)
    killed = 0
    for name in ("laderman", "3x4x4:38", "2x3x5:25"):
        start = factors(name)
        dims = list(moves.dims_of(start))
        dims[axis] -= 1
        for _ in range(10):
            terms = moves.projected(start, axis, rng, mod2=mod2)
            assert terms is not None
            assert residual(terms, tuple(dims), mod2) == 0
            killed += len(start[0]) - len(terms)
    assert killed > 60  # some terms vanish each time


def test_lift():
    """The support of any ternary scheme has signs; a wrong support has none."""
    rng = random.Random(3)
    for name in (*NAMES, "5x5x5:93"):
        scheme = schemes.get(name)
        terms = masks.terms_of(scheme)
        terms[:, :, 0] |= terms[:, :, 1]
        terms[:, :, 1] = 0
        lifted = lifting.lift(terms, scheme.format, rng)
        assert len(lifted) == scheme.rank
        assert residual(lifted, scheme.format) == 0
        assert np.array_equal(lifted[:, :, 0] | lifted[:, :, 1], terms[:, :, 0])


def test_lift_after_walks_modulo_two():
    rng = random.Random(1)
    lifted = apart = 0
    for seed in range(12):
        walker = Walker((3, 3, 3), moves.classical((3, 3, 3)), seed, mod2=True)
        while walker.rank > 24:
            walker.walk(200_000)
        found = lifting.lift(walker.terms, (3, 3, 3), rng)
        assert len(found) in (0, walker.rank)
        if len(found):
            lifted += 1
            assert residual(found, (3, 3, 3)) == 0
            continue
        # Where signs do not suffice, coefficients 2 may: as terms of their own.
        longer = lifting.lift_apart(walker.terms, (3, 3, 3), rng)
        if len(longer):
            apart += 1
            assert len(longer) > walker.rank
            assert residual(longer, (3, 3, 3)) == 0
    assert lifted > 0
    assert apart > 0


def test_library():
    library = Library()
    assert library.rank((5, 3, 4)) == library.rank((3, 4, 5)) <= 48
    assert library.rank((1, 2, 3)) == 6
    assert Library(catalogue=False).rank((3, 4, 5)) == 60
    kinds = {start.kind for start in library.starts((3, 4, 4))}
    assert kinds == {"classical", "merge", "project", "known"}
    assert [x.kind for x in Library(catalogue=False).starts((3, 4, 4))] == ["classical"]
    rng = random.Random(0)
    for dims in [(3, 4, 4), (4, 2, 5), (2, 2, 6)]:
        for start in library.starts(dims):
            for mod2 in (False, True):
                assert residual(start(rng, mod2), dims, mod2) == 0, start


def test_repeated_parts_share_the_sums_of_one_operand():
    library = Library()
    rng = random.Random(0)
    starts = {repr(start): start for start in library.starts((2, 2, 7))}
    for _ in range(5):
        terms = starts["merge 2x2x2 + 2x2x2 + 2x2x2 + 2x2x1"](rng, False)
        assert len(terms) == 25
        assert residual(terms, (2, 2, 7)) == 0
        left = [tuple(x) for x in terms[:, 0].tolist()]
        assert left[:7] == left[7:14] == left[14:21]


# --- starts of a search ----------------------------------------------------------------------


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
