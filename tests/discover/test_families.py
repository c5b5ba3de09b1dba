"""Walks over families: how families differ, which are left out, how evenly they are drawn."""

import collections
import json
import random

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.__main__ import main
from falcon.discover.catalogue.library import Library
from falcon.discover.walk import families, lifting, masks, moves
from falcon.discover.walk._core import Walker
from falcon.discover.worker import Worker

from .support import reached, residual


def walked(dims, rank, seed):
    """A scheme modulo 2 of that rank, by walks from the classical algorithm."""
    walker = Walker(dims, moves.classical(dims), seed, mod2=True)
    for _ in range(40):
        if walker.rank <= rank:
            break
        walker.walk(300_000, plus_after=5_000, margin=2)
    assert walker.rank == rank
    return walker.terms


def starts_near(dims):
    library = Library(catalogue=False)
    return {form: library.varied(form) for form in families.near(dims)}


@pytest.mark.parametrize(
    ("name", "core"),
    [
        ("1x1x1:1", {}),
        ("strassen", {(2, 2, 2): 1}),
        ("winograd", {(2, 2, 2): 1}),
        ("laderman", {(2, 2, 2): 4}),
        ("4x4x4:49", {(2, 2, 2): 12, (4, 4, 4): 1}),
        ("5x5x5:93", {(2, 2, 2): 32}),
    ],
)
def test_the_core_of_known_schemes(name, core):
    scheme = schemes.get(name)
    key = families.family(masks.terms_of(scheme), scheme.format)
    assert dict(collections.Counter(key)) == core
    assert list(key) == sorted(key)


@pytest.mark.parametrize("name", ["3x4x5:47", "4x4x5:61", "4x4x5:62", "2x4x4:26"])
def test_a_core_is_the_same_in_other_bases_and_images(name):
    scheme, rng = schemes.get(name), random.Random(1)
    expected = families.family(masks.terms_of(scheme), scheme.format)
    for image in moves.images((scheme.U, scheme.V, scheme.W), scheme.format):
        factors = moves.shuffled(image, rng)
        assert families.family(masks.from_arrays(*factors), scheme.format) == expected


@pytest.mark.parametrize(
    ("dims", "formats"),
    [
        ((1, 1, 1), [(1, 1, 1)]),
        ((2, 2, 2), [(2, 2, 2), (2, 2, 3)]),
        ((5, 4, 4), [(4, 4, 5), (2, 4, 5), (3, 4, 4), (3, 4, 5), (4, 4, 4), (4, 4, 6), (4, 5, 5)]),
    ],
)
def test_formats_near(dims, formats):
    assert families.near(dims) == formats


def test_ranks_modulo_2():
    """Of all vectors in the span of the rows there are 2^rank."""
    rng = np.random.default_rng(2)
    for shape in [(1, 1), (2, 3), (4, 4), (5, 4)] * 10:
        matrix = rng.integers(0, 2, shape)
        spanned = {tuple(np.array(c) @ matrix % 2) for c in np.ndindex(*(2,) * shape[0])}
        mask = int(masks.pack(matrix[None])[0, 0])
        assert 2 ** families._rank(mask, shape) == len(spanned)


def whole_system(terms, dims):
    """The same question as `lifting.liftable`, by the equations that `lift_apart` solves."""
    supports = lifting._supports(terms)
    sizes = [rows * columns for rows, columns in masks.shapes(dims)]
    places = [(r, x, y) for r in range(len(terms)) for x in range(3) for y in range(sizes[x])]
    unknowns = {place: x for x, place in enumerate(places)}
    rows = lifting._system(supports, unknowns, dims, len(unknowns))
    return lifting._eliminated(rows, len(unknowns)) is not None


def test_which_schemes_modulo_2_are_liftable():
    dims = (3, 3, 4)
    found = collections.Counter()
    for seed in (1, 2, 3, 4, 5, 141):
        terms = walked(dims, 30, seed)
        expected = whole_system(terms, dims)
        assert lifting.liftable(terms, dims) == expected
        if not expected:
            assert not len(lifting.lift_apart(terms, dims, random.Random(seed)))
        found[expected] += 1
    assert len(found) == 2  # some are, some not
    for name in ("strassen", "4x4x4:49", "3x4x5:47"):
        scheme = schemes.get(name)
        walker = Walker(scheme.format, masks.terms_of(scheme), 1, mod2=True)
        assert lifting.liftable(walker.terms, scheme.format)
    with pytest.raises(ValueError, match="no scheme modulo 2"):
        lifting.liftable(moves.classical(dims)[1:], dims)


@pytest.mark.parametrize("mod2", [False, True])
@pytest.mark.parametrize("dims", [(1, 1, 1), (2, 2, 2), (1, 3, 2), (3, 4, 4), (4, 3, 5)])
def test_formats_that_grow(dims, mod2):
    rng = random.Random(3)
    starts = [x for x in Library(catalogue=False).varied(dims) if x.kind == "grow"]
    assert starts
    ranks = set()
    for _ in range(4):
        terms = starts[0](rng, mod2)
        assert residual(terms, dims, mod2=mod2) == 0
        ranks.add(len(terms))
    if dims == (4, 3, 5):
        assert min(ranks) < 60 and len(ranks) > 1


@pytest.fixture
def short(doors):
    doors.numbers(first_walk=300_000, extended_walk=200_000, walks=(200_000, 500_000))


@pytest.mark.parametrize(("dims", "rank"), [((2, 2, 3), 11), ((3, 3, 3), 23)])
def test_from_scratch(dims, rank, short):
    worker = Worker(dims, [], 1, 0, "families", near=starts_near(dims))
    assert reached(worker, dims, rank, 300) == rank
    assert "in " in worker.describe() and "families" in worker.describe()


def test_only_low_ranks_and_liftable_schemes_are_kept(short):
    dims, rng, widest = (3, 3, 4), random.Random(4), 0
    run = families.Run(dims, starts_near(dims))
    for _ in range(60):
        _, found = run.step(rng)
        assert all(lifting.liftable(terms, dims) for terms in found)
        for form, ranks in run.held.items():
            slack = families.WARM if sum(form) == sum(dims) - 1 else families.SLACK
            assert max(ranks) <= min(ranks) + slack
            widest = max(widest, max(ranks) - min(ranks))
    assert widest > families.SLACK  # of a format with a line less
    assert min(run.held[dims]) <= 30
    assert set(run.held) == set(families.near(dims))
    for form, ranks in run.held.items():
        for rank, held in ranks.items():
            for key, kept in held.items():
                assert 0 < len(kept) <= families.HELD
                assert all(len(x) == rank and families.family(x, form) == key for x in kept)
                assert all(residual(x, form, mod2=True) == 0 for x in kept)
    assert run.count == len(run.held[dims][min(run.held[dims])])


@pytest.mark.parametrize("lines", [1, -1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_detour_comes_back(axis, lines, short):
    """It walks in both formats, and returns the schemes kept of the first one."""
    dims, rng = (3, 3, 4), random.Random(6)
    run = families.Run(dims, starts_near(dims))
    terms = walked(dims, 30, 2)
    flips, found = run._detour(dims, terms, axis, lines, rng)
    assert flips > 0
    assert set(run.held) == {dims, masks.ascending(masks.resized(dims, axis, dims[axis] + lines))}
    assert len(found) >= 1
    assert all(residual(x, dims, mod2=True) == 0 for x in found)


def test_finds_have_the_dimensions_in_their_order(short):
    dims, rng = (4, 2, 3), random.Random(7)
    run = families.Run(dims, starts_near(dims))
    found = [terms for _ in range(60) for terms in run.step(rng)[1]]
    assert min(map(len, found)) <= 21
    assert all(residual(terms, dims, mod2=True) == 0 for terms in found)


def drawn(held, dims, home):
    """How often each number of terms comes up when families are drawn."""
    run, rng = families.Run(home, {home: []}), random.Random(5)
    run.held[dims] = held
    return collections.Counter(len(run._draw(dims, rng)) for _ in range(3000))


def test_families_are_drawn_evenly_and_low_ranks_more_often():
    dims = (2, 2, 2)
    strassen, classical = masks.terms_of(schemes.get("strassen")), moves.classical(dims)
    held = {
        7: {((2, 2, 2),): [strassen] * 6, ((2, 2, 2),) * 2: [strassen[1:]]},
        8: {(): [classical]},
    }
    times = drawn(held, dims, dims)
    assert 0.8 < times[7] / times[6] < 1.25  # six schemes of the one, one of the other
    assert times[8] < (times[7] + times[6]) / 2
    times = drawn(held, dims, (2, 2, 3))  # of a format with a line less all ranks alike
    assert times[8] > 0.8 * (times[7] + times[6])


def test_lower_ranks_met_in_families_are_returned(monkeypatch):
    worker = Worker((2, 2, 2), [], 0, 0, "families", 8, near={(2, 2, 2): []})
    strassen = masks.terms_of(schemes.get("strassen"))
    monkeypatch.setattr(worker._families, "step", lambda _rng: (5, [strassen]))
    assert worker.elsewhere(random.Random(0), True) is strassen
    assert worker.flips == 5


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_line_more(axis):
    dims = (2, 3, 4)
    new, terms = families._extended(masks.terms_of(schemes.get("2x3x4:20")), dims, axis)
    assert new == masks.resized(dims, axis, dims[axis] + 1)
    assert len(terms) == 20 + 24 // dims[axis] and residual(terms, new, mod2=True) == 0


def test_a_checkpoint_goes_on_the_same(short):
    dims = (3, 3, 3)
    near = starts_near(dims)
    first = Worker(dims, [], 7, 0, "families", near=near)
    for _ in range(30):
        first.step()
    second = Worker(dims, [], 7, 0, "families", near=near)
    second.restore(json.loads(json.dumps(first.saved, default=np.ndarray.tolist)))
    for _ in range(10):
        first.step()
        second.step()
    assert first.flips == second.flips and first.best == second.best
    assert first.saved["families"]["families"] and second.saved["families"]["families"]
    for x, y in zip(*(run.saved["families"]["families"] for run in (first, second)), strict=True):
        assert x[0] == y[0] and x[2] == y[2]
        np.testing.assert_array_equal(x[1], y[1])


def test_a_checkpoint_with_a_wrong_scheme_is_refused():
    dims = (2, 2, 2)
    strassen = masks.terms_of(schemes.get("strassen"))
    state = {"families": [(dims, [strassen[1:].tolist()], 0)]}
    with pytest.raises(ValueError, match="violations modulo 2"):
        families.Run(dims, {dims: []}, state)


def test_from_the_command_line(tmp_path, capsys, short):
    command = "discover 2 2 3 --ring families --rank 11 --scratch --seed 2 --threads 1 --minutes 1"
    assert main([*command.split(), "--out", str(tmp_path)]) == 0
    assert "families" in capsys.readouterr().out
    scheme = schemes.load(tmp_path / "2x2x3_11-s2.json")
    assert scheme.rank == 11 and "--ring families" in scheme.source
