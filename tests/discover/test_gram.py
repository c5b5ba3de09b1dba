"""The search for schemes for X X^T: what it finds is proved, and its walks keep the tensor."""

import random
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon.discover import gram
from falcon.discover.walk import tied
from falcon.discover.walk._core import Walker
from falcon.schemes import symmetric


def test_the_start_is_classical():
    scheme = tied.scheme_of(tied.start(3, 2), 3, 2, "start")
    assert scheme == symmetric.classical(3, 2)
    assert scheme.name == "3x2:6+6"


@pytest.mark.parametrize("sparsity", [0, 0.05])
def test_a_tied_walk_keeps_the_tensor_and_counts_its_cost(sparsity):
    terms = tied.start(3, 3)
    walker = Walker((3, 3, 3), terms, 5)
    cost, best = walker.tied_walk(200_000, temperature=0.3, sparsity=sparsity, plus_after=3_000)
    for found in (best, walker.terms):
        assert tied.is_exact(found, 3, 3)
    scheme = tied.scheme_of(best, 3, 3, "")
    assert cost == 2 * scheme.cost
    assert cost <= 2 * symmetric.classical(3, 3).cost


def test_sparsity_lowers_the_non_zeros():
    walker = Walker((3, 3, 3), tied.start(3, 3), 1)
    cost, dense = walker.tied_walk(2_000_000, temperature=0.2, plus_after=20_000)
    sparse, found = Walker((3, 3, 3), dense, 2).tied_walk(
        500_000, temperature=0.05, sparsity=0.05, plus_after=500_000, margin=0
    )
    before, after = (tied.scheme_of(x, 3, 3, "") for x in (dense, found))
    assert sum(after.nnz) <= sum(before.nnz)
    assert sparse <= cost


def test_lifting_gives_a_tied_term_the_same_signs_twice():
    rng = random.Random(3)
    lifted = 0
    for seed in range(20):
        walker = Walker((2, 2, 2), tied.start(2, 2), seed, mod2=True)
        walker.walk(500)
        terms = walker.terms
        found = tied.lift(terms, 2, 2, rng)
        if len(found):
            lifted += 1
            assert np.array_equal(found[:, :, 0] | found[:, :, 1], terms[:, :, 0])
            scheme = tied.scheme_of(found, 2, 2, "")
            assert scheme.n_symmetric == (terms[:, 0, 0] == terms[:, 1, 0]).sum()
    assert lifted > 0


def test_what_is_no_scheme_modulo_2_is_not_lifted():
    assert len(tied.lift(tied.start(2, 2)[1:], 2, 2, random.Random(1))) == 0


@pytest.mark.parametrize("mod2", [False, True])
def test_eight_and_nine_are_found(mod2, monkeypatch):
    monkeypatch.setattr(gram, "STEP", 200_000)
    search = gram.Search(3, 3, 1, mod2=mod2, source="a test")
    found = [search.step() for _ in range(12)]
    ratings = [search.rating(x) for x in found if x is not None]
    assert ratings == sorted(ratings, reverse=True)
    assert (search.best.n_general, search.best.n_symmetric) == (8, 9)
    assert search.cost == 25


def test_triangles_counts_what_the_diagonal_alone_needs(monkeypatch):
    monkeypatch.setattr(gram, "STEP", 200_000)
    search = gram.Search(3, 3, 1, mod2=False, source="a test", triangles=True)
    for _ in range(12):
        search.step()
    assert search.best.triangle_cost == Fraction(search.cost, 2) == 13
    again = gram.Search(3, 3, 1, mod2=False, source="", triangles=True, known=[search.best])
    assert again.cost == search.cost
    again.step()
    assert again.best.triangle_cost <= 13


def test_the_command_writes_what_it_finds(tmp_path, capsys):
    # One walk always, whatever the time.
    assert gram.main(["2", "2", "--minutes", "1e-9", "--out", str(tmp_path)]) == 0
    found = symmetric.load(tmp_path / "2x2_2+4.json")
    assert found.source == (
        "own search: python -m falcon.discover.gram 2 2 --minutes 1e-09 --seed 1"
    )
    assert "1 walks; least cost: 4" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["9", "9"], ["0", "2"], ["2", "2", "--minutes", "nan"]])
def test_refusals(arguments, capsys):
    with pytest.raises(SystemExit):
        gram.main(arguments)
    assert "expected " in capsys.readouterr().err


def test_a_temperature_that_is_none():
    with pytest.raises(ValueError, match="temperature 0"):
        Walker((2, 2, 2), tied.start(2, 2), 1).tied_walk(10, temperature=0)
