"""The best scheme of a format: known ranks, how ties are broken, what is built where nothing is
stored.
"""

from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import best
from falcon.schemes.best import LARGEST_VOLUME, BestTable

# Ranks by format; test_metrics.py has those of all stored formats.
RANKS = {
    (1, 1, 1): 1,
    (1, 2, 3): 6,
    (1, 5, 5): 25,
    (2, 2, 2): 7,
    (3, 4, 5): 47,
    (4, 5, 5): 76,
    # Built: compositions and direct sums.
    (2, 2, 6): 21,
    (2, 2, 8): 28,
    (3, 3, 6): 44,
    (4, 4, 8): 98,
    (6, 6, 6): 161,
    (8, 8, 8): 343,
}


@pytest.mark.parametrize("form", RANKS)
def test_known_ranks(form):
    for order in set(permutations(form)):
        scheme = best(*order)
        assert scheme.format == order
        assert scheme.rank <= RANKS[form]


@pytest.mark.parametrize("form", list(combinations_with_replacement(range(1, 6), 3)))
def test_by(form):
    by_nnz, by_growth, by_adds = (best(*form, by=x) for x in ("nnz", "growth", "additions"))
    assert by_nnz.rank == by_growth.rank == by_adds.rank
    stored = [schemes.get(x) for x in schemes.names()]
    rivals = [x for x in stored if sorted(x.format) == sorted(form) and x.rank == by_nnz.rank]
    for x in rivals:
        image = schemes.permuted(x, *form)
        assert by_adds.additions.reduced <= image.additions.reduced
        assert sum(by_nnz.nnz) <= sum(image.nnz)
        assert by_growth.phi <= image.phi


def test_by_decides():
    assert best(2, 2, 2, by="additions").additions.reduced == 15
    assert sum(best(2, 2, 2).nnz) == 36
    assert best(2, 2, 2, by="growth").rms_growth == 2.0
    assert best(5, 5, 5, by="growth").rms_growth < best(5, 5, 5).rms_growth
    # "auto" leaves out those for additions
    assert best(3, 4, 4).name == schemes.get("3x4x4").name == "3x4x4:38"


def test_predictions_are_what_comes_out():
    """The table predicts from the parts; what is built must measure the same."""
    table = BestTable([schemes.get(x) for x in ("strassen", "winograd", "hopcroft-kerr")])
    for form in ((2, 2, 3), (4, 4, 4), (3, 4, 5), (6, 2, 3)):
        for by in ("nnz", "growth", "additions"):
            recipe, built = table._recipe(form, by), table.best(*form, by)
            assert (built.rank, built.nnz, built.phi) == (recipe.rank, recipe.nnz, recipe.phi)
            # Sharing on the whole may find more than sharing on the parts.
            assert built.additions.reduced <= built.additions.naive


def test_names_of_what_is_built():
    scheme = best(2, 3, 9)
    assert scheme.name == "2x3x9:45"
    assert scheme.source.startswith("built as ")
    assert schemes.get("2x3x9:45") == scheme
    assert best(4, 3, 3).name == "4x3x3:29"


def test_numpy_integers():
    assert best(np.int64(2), np.int32(2), 2) == best(2, 2, 2)


@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "2", None])
@pytest.mark.parametrize("axis", range(3))
def test_bad_sizes(bad, axis):
    sizes = [2, 2, 2]
    sizes[axis] = bad
    with pytest.raises(ValueError, match=f"{'mkn'[axis]} is .*expected a positive integer"):
        best(*sizes)


def test_bad_arguments():
    with pytest.raises(ValueError, match="by is 'speed'; expected one of 'nnz', 'growth', 'add"):
        best(2, 2, 2, by="speed")
    with pytest.raises(ValueError, match=f"at most {LARGEST_VOLUME}"):
        best(17, 16, 16)


@pytest.mark.parametrize("form", [(1, 1, 1500), (512, 2, 2), (13, 11, 17)])
def test_large_formats(form):
    scheme = best(*form)
    assert scheme.format == form
    assert scheme.rank <= form[0] * form[1] * form[2]
