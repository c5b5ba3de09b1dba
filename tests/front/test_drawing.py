"""Pictures of schemes."""

import numpy as np
import pytest

from falcon.schemes import get

pytest.importorskip("matplotlib")


def drawn(scheme):
    """The picture, and its grids."""
    figure = scheme.draw()
    return figure, [x for x in figure.axes if x.images]


def test_a_scheme_has_a_grid_for_each_coefficient(tmp_path):
    """In two rows of products."""
    scheme = get("hopcroft-kerr")
    figure, grids = drawn(scheme)
    assert len(grids) == 3 * scheme.rank
    left = [x for x in grids if x.get_title().startswith("h")]
    assert [x.get_title() for x in left] == [f"h{r + 1}" for r in range(scheme.rank)]
    for r, x in enumerate(left):
        assert (x.images[0].get_array() == scheme.U[r].astype(float)).all()
    assert [x.get_ylabel() for x in grids[:36:12]] == ["A", "B", "C"]
    figure.savefig(tmp_path / "scheme.svg")
    assert (tmp_path / "scheme.svg").read_text(encoding="utf-8").count("<path") > scheme.rank


@pytest.mark.parametrize(("most", "is_written"), [(4, True), (3, False)])
def test_numbers_are_in_all_grids_or_in_none(most, is_written, doors):
    doors.numbers(drawn_numbers=most)
    _, grids = drawn(get("strassen"))
    numbers = [np.count_nonzero(x.images[0].get_array()) if is_written else 0 for x in grids]
    assert [len(x.texts) for x in grids] == numbers


def test_a_notebook_shows_it_without_a_magic():
    """As IPython does where matplotlib has registered nothing: by a method of the figure."""
    assert get("strassen").draw()._repr_png_().startswith(b"\x89PNG")


def test_some_of_the_products():
    """For two slides."""
    scheme = get("3x4x4:38")
    titles = []
    for products in range(1, 20), range(20, 39):
        figure = scheme.draw(products)
        titles += [x.get_title() for x in figure.axes if x.get_title()]
        grids = [x for x in figure.axes if x.images]
        assert (grids[0].images[0].get_array() == scheme.U[products[0] - 1].astype(float)).all()
    assert titles == [f"h{r + 1}" for r in range(38)]
    for products in range(30, 40), [0], []:
        with pytest.raises(ValueError, match="expected numbers from 1 to 38"):
            scheme.draw(products)


def test_every_grid_has_its_outer_edges():
    """Where the style of the caller's plots has none, as in the course."""
    import matplotlib as mpl

    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        _, grids = drawn(get("strassen"))
    assert all(x.spines[edge].get_visible() for x in grids for edge in ("top", "right"))
