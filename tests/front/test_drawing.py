"""Pictures of schemes."""

import numpy as np
import pytest

from falcon.schemes import get

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("scheme", [get("strassen"), get("3x4x5:47")], ids=lambda x: x.name)
def test_a_scheme_has_a_grid_for_each_coefficient(scheme, tmp_path):
    figure = scheme.draw()
    drawn = [x for x in figure.axes if x.images]
    assert len(drawn) == 3 * scheme.rank
    left = [x for x in drawn if x.get_title().startswith("h")]
    assert [x.get_title() for x in left] == [f"h{r + 1}" for r in range(scheme.rank)]
    for r, x in enumerate(left):
        assert (x.images[0].get_array() == scheme.U[r].astype(float)).all()
    figure.savefig(tmp_path / "scheme.svg")
    assert (tmp_path / "scheme.svg").read_text(encoding="utf-8").count("<path") > scheme.rank


@pytest.mark.parametrize(("name", "is_written"), [("3x4x4:38", True), ("4x4x8:96", False)])
def test_numbers_are_in_all_grids_or_in_none(name, is_written):
    scheme = get(name)
    drawn = [x for x in scheme.draw().axes if x.images]
    numbers = [len(x.texts) for x in drawn]
    assert numbers == [
        np.count_nonzero(x.images[0].get_array()) if is_written else 0 for x in drawn
    ]
    assert [x.get_ylabel() for x in drawn[:: min(scheme.rank, 12)]][:3] == ["A", "B", "C"]


def test_a_notebook_shows_it_without_a_magic():
    """As IPython does where matplotlib has registered nothing: by a method of the figure."""
    assert get("strassen").draw()._repr_png_().startswith(b"\x89PNG")
