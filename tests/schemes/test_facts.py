"""The table of facts of stored schemes: it is current, and holds for all images of a scheme."""

from pathlib import Path

import pytest

from falcon.schemes import catalogue, facts, get, names, symmetries
from falcon.schemes.algebra import symmetry
from falcon.schemes.metrics import one_sign_growth, sum_growth


def test_the_table_is_up_to_date():
    text = Path(facts.__file__).with_name("facts.csv").read_text(encoding="utf-8")
    assert text == catalogue.facts_table(), (
        "write falcon.schemes.catalogue.facts_table() to falcon/schemes/facts.csv"
    )


@pytest.mark.parametrize("name", ["strassen", "hopcroft-kerr", "2x3x4:20", "5x5x5:99", "3x3x6:43"])
def test_facts_of_images(name):
    known = catalogue.facts_of(name)
    for number, (x, image) in enumerate(zip(known, symmetries(get(name)), strict=True)):
        assert (x.image, (x.m, x.k, x.n), x.rank) == (number, image.format, image.rank)
        assert [x.u, x.v, x.w] == [y.additions for y in image.shared_sums]
        assert x.phi == image.phi and x.growth == image.rms_growth
        assert x.is_integral == image.is_integral and x.kind == image.kind
        assert x.one_sign == pytest.approx(one_sign_growth(image.U, image.V, image.W), abs=1e-6)
        assert x.sums == pytest.approx(sum_growth(image.U, image.V, image.W), abs=1e-6)
        assert symmetry(get(name), number) == image
        assert symmetry(get(name), number).name == image.name


def test_all_schemes_have_facts():
    for name in names():
        assert facts.images(get(name)) == catalogue.facts_of(name)
