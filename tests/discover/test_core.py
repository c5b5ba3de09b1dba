"""The C core: every move keeps the Brent equations; a walk is a function of its seed."""

import random

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.discover.walk import masks, moves, symmetric
from falcon.discover.walk._core import (
    MAX_CUBES,
    MAX_RANK,
    SymmetricWalker,
    Walker,
    share,
    violations,
)

from .support import residual

FORMATS = [(2, 2, 2), (1, 3, 2), (2, 3, 4), (3, 3, 3), (4, 2, 5), (8, 2, 8), (2, 8, 8), (8, 8, 2)]


@pytest.mark.parametrize("dims", FORMATS)
@pytest.mark.parametrize("mod2", [False, True])
def test_walks_keep_the_scheme(dims, mod2):
    walker = Walker(dims, moves.classical(dims), 3, mod2=mod2)
    volume = dims[0] * dims[1] * dims[2]
    for _ in range(60 if volume < 60 else 8):
        entry = walker.rank
        fell = walker.walk(2_000, plus_after=300, margin=2)
        assert fell == (walker.rank < entry)
        assert walker.rank <= entry + 2
        terms = walker.terms
        assert terms.shape == (walker.rank, 3, 2)
        assert residual(terms, dims, mod2) == violations(dims, terms, mod2=mod2) == 0
        assert not mod2 or not terms[:, :, 1].any()


def test_a_walk_is_a_function_of_its_seed():
    runs = []
    for seed in (1, 1, 2, 2**64 + 1):
        walker = Walker((3, 3, 3), moves.classical((3, 3, 3)), seed)
        walker.walk(50_000)
        runs.append(walker.terms)
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[3])  # seeds count modulo 2**64
    assert not np.array_equal(runs[0], runs[2])


def test_input_and_output_are_inverse():
    for name in ("2x3x5:25", "5x5x5:93", "laderman"):
        scheme = schemes.get(name)
        terms = masks.terms_of(scheme)
        walker = Walker(scheme.format, terms, 0)
        assert walker.rank == scheme.rank
        u, v, w = masks.arrays_of(walker.terms, scheme.format)
        # Signs may move between the factors of a term, no more.
        again = np.einsum("ra,rb,rc->rabc", *(x.reshape(len(x), -1).astype(int) for x in (u, v, w)))
        first = [x.reshape(scheme.rank, -1) for x in (scheme.U, scheme.V, scheme.W)]
        assert np.array_equal(again, np.einsum("ra,rb,rc->rabc", *first))


@pytest.mark.parametrize("phi", [False, True])
@pytest.mark.parametrize("name", ["2x3x3:15", "3x4x4:38", "winograd"])
def test_annealing(name, phi):
    scheme = schemes.get(name)
    measure = masks.phi if phi else masks.nnz
    hot, cold = (10.0, 1.0) if phi else (1.6, 0.25)
    walker = Walker(scheme.format, masks.terms_of(scheme), 5)
    for _ in range(3):
        cost, best = walker.anneal(30_000, phi=phi, hot=hot, cold=cold)
        assert cost == measure(best)
        assert residual(best, scheme.format) == 0
        # Its present terms are a scheme, too: the incremental cost has not drifted.
        assert residual(walker.terms, scheme.format) == 0
        assert walker.rank == scheme.rank
    assert cost <= measure(masks.terms_of(scheme)) * 1.2


def test_violations_counts():
    scheme = schemes.get("strassen")
    terms = masks.terms_of(scheme)
    assert violations((2, 2, 2), terms) == 0
    random = np.random.default_rng(0)
    for _ in range(50):
        changed = terms.copy()
        r, mode, sign = random.integers(7), random.integers(3), random.integers(2)
        changed[r, mode, sign] ^= np.uint64(1 << int(random.integers(4)))
        if changed[r, mode, 0] & changed[r, mode, 1]:
            continue
        assert violations((2, 2, 2), changed) == residual(changed, (2, 2, 2)) > 0
        assert violations((2, 2, 2), changed, mod2=True) == residual(changed, (2, 2, 2), True)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_symmetric_walks(n):
    rng = random.Random(n)
    dims = (n, n, n)
    for _ in range(4):
        walker = symmetric.start(n, rng)
        assert residual(symmetric.terms_of(walker, n), dims, True) == 0
        lowest = walker.rank
        for _ in range(20):
            fell = walker.walk(2_000, plus_after=100, margin=2)
            terms = symmetric.terms_of(walker, n)
            assert len(terms) == walker.rank
            assert residual(terms, dims, True) == 0
            lowest = min(lowest, walker.rank)
            assert fell or walker.rank >= lowest
        assert len(walker.cubes) + 3 * len(walker.orbits) == walker.rank
    assert lowest < n**3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((9, 8, 1), np.zeros((1, 3, 2), np.uint64), 0), "a factor has 72 entries"),
        (((0, 1, 1), np.zeros((1, 3, 2), np.uint64), 0), "a factor has 0 entries"),
        (((2, 2, 2), np.zeros((7, 3), np.uint64), 0), "dim"),
        (((2, 2, 2), np.zeros((7, 2, 2), np.uint64), 0), r"expected \(R, 3, 2\)"),
        (((2, 2, 2), np.zeros((0, 3, 2), np.uint64), 0), r"expected \(R, 3, 2\)"),
        (((2, 2, 2), np.ones((MAX_RANK + 1, 3, 2), np.uint64), 0), r"expected \(R, 3, 2\)"),
        (((2, 2, 2), np.zeros((7, 3, 2), np.uint64), 0), "a factor is zero"),
        (((2, 2, 2), np.ones((7, 3, 2), np.uint64), 0), r"both \+1 and -1"),
    ],
)
def test_walker_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Walker(*arguments)


def test_other_refusals():
    with pytest.raises(ValueError, match="hot >= cold > 0"):
        Walker((2, 2, 2), moves.classical((2, 2, 2)), 0).anneal(10, hot=1, cold=2)
    with pytest.raises(ValueError, match="at most 64 are supported"):
        SymmetricWalker(np.ones((1, 3), np.uint64), np.ones(MAX_CUBES + 1, np.uint64), 0)
    with pytest.raises(ValueError, match="a factor is zero"):
        SymmetricWalker(np.zeros((1, 3), np.uint64), np.ones(1, np.uint64), 0)
    with pytest.raises(ValueError, match=r"expected \(P, 3\)"):
        SymmetricWalker(np.zeros((1, 2), np.uint64), np.ones(1, np.uint64), 0)
    for pairs in ([(0, 0, 1)], [(0, 4, 1)], [(0, 1, 2)], [(1, 0, 1)], [(-1, 0, 1)]):
        with pytest.raises(ValueError, match="not earlier variables"):
            share(np.ones((3, 4), int), rounds=1, seed=0, pairs=pairs)
    with pytest.raises(ValueError, match="too large"):
        share(np.ones((700, 2), int), rounds=0, seed=0)


def test_a_wanted_rank_decides_the_number_of_cubes():
    for rank, cubes in ((49, {1, 4}), (48, {3}), (47, {2})):
        starts = [symmetric.start(4, random.Random(seed), rank) for seed in range(20)]
        assert {len(walker.cubes) for walker in starts} == cubes
    # Where no number fits, any will do.
    assert symmetric.start(2, random.Random(0), 6).rank >= 7


def test_a_symmetric_run_keeps_its_record():
    rng = random.Random(3)
    run = symmetric.Run(4, rng)
    lowest = run.record
    while not run.over and run.idle < 300_000:
        flips, found = run.step(50_000, rng)
        ranks = [len(terms) for terms in found]
        assert ranks == sorted(ranks, reverse=True)
        assert min([lowest, *ranks]) == run.record <= len(run.cubes) + 3 * len(run.orbits)
        assert flips <= 50_000 + 3
        lowest = run.record
        for terms in found:
            assert residual(terms, (4, 4, 4), True) == 0
    assert lowest < 64
