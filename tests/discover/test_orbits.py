"""Symmetries of the tensor: they keep it, terms are permuted, and steps leave it so."""

import json

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon.discover.numerical import hops as hops_module
from falcon.discover.numerical import orbits, reals

CASES = [
    ((2, 3, 4), 2, (1, 0, 2), (0, 1)),
    ((3, 4, 6), 3, (0, 2, 2), ()),
    ((3, 3, 3), 3, (1, 1, 1), (0, 0)),
]


def sorted_terms(fit, x):
    """The tensors of the terms, in an order of their own: scales of factors don't count."""
    u, v, w = fit.factors(x)
    terms = np.einsum("ar,br,cr->rabc", u, v, w).reshape(x.shape[1], -1)
    return terms[np.lexsort(np.round(terms, 6).T)]


@pytest.mark.parametrize(("dims", "order", "moved", "kinds"), CASES)
def test_a_symmetry_keeps_the_tensor_and_permutes_terms(dims, order, moved, kinds):
    symmetry = orbits.Symmetry(dims, order, moved, kinds)
    turn = symmetry._powers[1]
    np.testing.assert_allclose(np.linalg.matrix_power(turn, order), np.eye(len(turn)), atol=1e-12)
    assert not np.allclose(turn, np.eye(len(turn)))
    rank = len(kinds) + 4 * order
    x = symmetry.noise(rank, np.random.default_rng(1))
    fit = reals.Fit(dims, x)
    a, b, c = (turn[rows, rows] for rows in fit._rows)
    target = reals.target(dims)
    kept = np.einsum("ai,bj,ck,ijk->abc", a, b, c, target, optimize=True)
    np.testing.assert_allclose(kept, target, atol=1e-12)
    assert not np.allclose(turn @ x, x)
    np.testing.assert_allclose(sorted_terms(fit, turn @ x), sorted_terms(fit, x), atol=1e-9)
    np.testing.assert_allclose(symmetry.symmetric(x), x, atol=1e-12)
    other = np.random.default_rng(2).standard_normal(x.shape)
    near = symmetry.symmetric(other)
    np.testing.assert_allclose(symmetry.symmetric(near), near, atol=1e-12)
    assert abs(((other - near) * near).sum()) < 1e-9  # the nearest: what is taken off is orthogonal


@pytest.mark.parametrize(("dims", "order", "moved", "kinds"), CASES)
def test_steps_keep_the_symmetry(dims, order, moved, kinds):
    symmetry = orbits.Symmetry(dims, order, moved, kinds)
    x = 0.4 * symmetry.noise(len(kinds) + 5 * order, np.random.default_rng(3))
    fit = reals.Fit(dims, x)
    before = fit.error()
    assert fit.relax(5, 0.1) < before
    np.testing.assert_allclose(symmetry.symmetric(fit.x), fit.x, atol=1e-6)


def test_factors_of_fixed_terms_are_multiplied_by_signs():
    symmetry = orbits.Symmetry((2, 3, 4), 2, (1, 0, 2), (0, 1, 2, 3))
    x = symmetry.noise(6, np.random.default_rng(9))
    fit = reals.Fit((2, 3, 4), x)
    turned = fit.factors(symmetry._powers[1] @ x)
    for term, signs in enumerate(orbits.SIGNS[2]):
        for before, after, sign in zip(fit.factors(), turned, signs, strict=True):
            assert np.abs(before[:, term]).max() > 1e-3
            np.testing.assert_allclose(after[:, term], sign * before[:, term], atol=1e-12)


def test_whole_orbits_and_their_noise():
    symmetry = orbits.Symmetry((3, 3, 3), 3, (1, 1, 1), (0, 0))
    assert list(symmetry.orbits(np.array([1, 3, 9]))) == [1, 2, 3, 4, 8, 9, 10]
    x = symmetry.noise(2 + 3 * 500, np.random.default_rng(4))
    assert 0.95 < x[:, 2:].std() < 1.05
    again = orbits.Symmetry((3, 3, 3), *symmetry.state())
    np.testing.assert_array_equal(again.noise(23, np.random.default_rng(5)),
                                  symmetry.noise(23, np.random.default_rng(5)))  # fmt: skip


@pytest.mark.parametrize(("dims", "rank"), [((2, 2, 2), 7), ((3, 4, 6), 54), ((3, 4, 5), 47)])
def test_what_is_drawn_has_no_empty_terms(dims, rank):
    rng = np.random.default_rng(6)
    found = [orbits.drawn(dims, rank, rng) for _ in range(200)]
    made = [symmetry for symmetry in found if symmetry is not None]
    assert {symmetry.order for symmetry in made} == {2, 3}
    assert len({symmetry.moved for symmetry in made}) > 5
    assert len({len(symmetry.kinds) for symmetry in made}) > 2
    for symmetry in made:
        x = symmetry.noise(rank, rng)
        assert x.shape[1] == rank
        for part in reals.Fit(dims, x).factors():
            assert (np.linalg.norm(part, axis=0) > 1e-6).all()


def test_symmetric_starts_find_schemes_and_go_on(doors):
    doors.numbers(symmetric=1.0)
    hops, rng = hops_module.Hops((2, 3, 3), 15), np.random.default_rng(7)
    for _ in range(3000):
        solution = hops.step(rng)
        if solution is not None and hops._symmetry:
            break
    assert solution.error() < reals.SOLVED
    state = json.loads(json.dumps(hops.state(), default=np.ndarray.tolist))
    other = hops_module.Hops((2, 3, 3), 15, state=state)
    assert other._symmetry.state() == hops._symmetry.state()
    first, second = np.random.default_rng(8), np.random.default_rng(8)
    for _ in range(5):
        hops.step(first)
        other.step(second)
    assert other.best == hops.best
    for _, x in hops.minima:
        np.testing.assert_allclose(hops._symmetry.symmetric(x), x, atol=1e-2)
