"""Fewer additions: programs for a matrix cost what the search says; walks make schemes cheaper."""

import random

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.discover.walk import additions, masks, moves, sums
from falcon.discover.walk._core import share
from falcon.schemes.additions import naive_additions, replay

from ..schemes.test_additions import matrix_of
from .support import residual


@pytest.mark.parametrize("seed", range(20))
def test_random_matrices(seed):
    random = np.random.default_rng(seed)
    matrix = random.choice([-1, 0, 0, 1], (random.integers(1, 30), random.integers(1, 20)))
    cost, pairs = share(matrix, rounds=50, seed=seed)
    program = replay(matrix, pairs)
    assert np.array_equal(matrix_of(program), matrix)
    assert program.additions == cost <= naive_additions(matrix)
    assert share(matrix, rounds=50, seed=seed) == (cost, pairs)
    # To go on from a program never loses anything; zero rounds replay it.
    assert share(matrix, rounds=0, seed=0, pairs=pairs) == (cost, pairs)
    assert share(matrix, rounds=50, seed=seed + 1, pairs=pairs)[0] <= cost


def test_winograd_twice():
    """Level by level it takes 15 * 4 + 7 * 15 = 165; the least published is 159."""
    scheme = schemes.get("winograd@winograd")
    terms = masks.terms_of(scheme)
    assert 159 <= sums.reduce(terms, (4, 4, 4), 6_000, random.Random(2))[0] <= 162


@pytest.mark.parametrize("name", ["2x3x3:15", "3x3x4:29", "4x5x5:76"])
def test_no_worse_than_greedy(name):
    scheme = schemes.get(name)
    rows = [getattr(scheme, factor).reshape(scheme.rank, -1) for factor in "UVW"]
    greedy = sum(schemes.additions.share(x).additions for x in rows)
    greedy += scheme.rank - scheme.m * scheme.n
    found, _ = sums.reduce(masks.terms_of(scheme), scheme.format, 500, random.Random(1))
    assert found <= greedy + 1


def test_empty_rows_and_columns():
    assert share(np.zeros((3, 4), int), rounds=5, seed=1) == (0, [])
    assert share(np.eye(4, dtype=int), rounds=5, seed=1) == (0, [])
    same = np.ones((5, 3), int)
    assert share(same, rounds=5, seed=1)[0] == 2


@pytest.mark.parametrize("name", ["2x3x3:15", "3x5x5:58", "4x4x5:62", "2x2x2:7-adds"])
def test_the_image_with_the_least_error_bound(name):
    """Another image of a scheme keeps its costs, and the programs are turned with it."""
    scheme = schemes.get(name)
    dims, terms = scheme.format, masks.terms_of(scheme)
    cost, programs = sums.reduce(terms, dims, 200, random.Random(0))
    calm, turned = sums.calmest(terms, dims, programs)
    image = masks.scheme_of(calm, dims, "image", "a test")
    assert sums.reduce(calm, dims, 0, random.Random(0), turned)[0] == cost
    assert (sum(image.nnz), image.phi) == (sum(scheme.nnz), scheme.phi)
    factors = masks.arrays_of(terms, dims)
    images = [masks.scheme_of(masks.from_arrays(*x), dims, "image", "a test")
              for x in moves.images(factors, dims)]  # fmt: skip
    assert len(images) == (6 if len(set(dims)) == 1 else 2)
    assert image.e_max == min(x.e_max for x in images) <= scheme.e_max
    assert sums.calmest(terms, dims)[1] is None


def test_a_program_with_renamed_columns():
    generator = np.random.default_rng(0)
    matrix = generator.choice([-1, 0, 0, 1], (20, 12))
    cost, pairs = share(matrix, rounds=100, seed=0)
    order = generator.permutation(12)
    places = np.argsort(order).tolist()
    assert any(places[x] > places[y] for x, y, _ in pairs if max(x, y) < 12)
    again = share(matrix[:, order], rounds=0, seed=0, pairs=sums.renamed(pairs, places))
    assert again[0] == cost


# --- walks on additions ----------------------------------------------------------------------


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
