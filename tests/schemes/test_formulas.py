"""The pretty printer: what it prints forms the product (test_reading.py reads it back)."""

import re
from fractions import Fraction

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import Scheme
from falcon.schemes.formulas import formulas


def test_scales_and_commas():
    lines = formulas(Scheme([[[-1]]], [[[Fraction(-2, 3)]]], [[[Fraction(3, 2)]]])).splitlines()
    assert lines == ["h1 = (-a11) (-2/3 b11)", "", "c11 = 3/2 h1"]
    assert "a1,10 b10,1" in formulas(schemes.classical(1, 10, 1))


def evaluated(text, values):
    """Run printed formulas, line by line."""
    values = dict(values)
    for line in filter(None, text.splitlines()):
        name, _, body = line.partition(" = ")
        body = re.sub(r"(?<=[\w)]) (?=[\w(])|(?<=\))(?=\()", "*", body)
        values[name.strip()] = eval(re.sub(r"(\d+)/(\d+)", r"Fraction(\1, \2)", body), None,
                                    {**values, "Fraction": Fraction})  # fmt: skip
    return values


@pytest.mark.parametrize("name", ["winograd", "3x3x3:23", "4x5x5:76-adds", "winograd@strassen"])
def test_shared_sums_are_printed_as_they_are_counted(name):
    scheme = schemes.get(name)
    m, k, n = scheme.format
    text = formulas(scheme, shared=True)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)).tolist(), rng.integers(-9, 9, (k, n)).tolist()
    entries = {f"a{i + 1}{l + 1}": a[i][l] for i, l in np.ndindex(m, k)}
    entries |= {f"b{l + 1}{j + 1}": b[l][j] for l, j in np.ndindex(k, n)}
    values = evaluated(text, entries)
    product = np.array(a) @ np.array(b)
    assert all(values[f"c{i + 1}{j + 1}"] == product[i, j] for i, j in np.ndindex(m, n))
    signs = len(re.findall(r" [+-] ", text))
    assert signs == scheme.additions.reduced < scheme.additions.naive
    assert evaluated(formulas(scheme), entries)["c11"] == product[0, 0]


def test_latex():
    lines = schemes.get("strassen").to_latex().splitlines()
    assert (lines[0], lines[-1]) == (r"\begin{aligned}", r"\end{aligned}")
    assert lines[1] == r"h_{1} &= (a_{11} + a_{22})(b_{11} + b_{22}) \\"
    assert lines[7:9] == [r"h_{7} &= (a_{12} - a_{22})(b_{21} + b_{22}) \\[1ex]",
                          r"c_{11} &= h_{1} + h_{4} - h_{5} + h_{7} \\"]  # fmt: skip
    assert lines[-2] == r"c_{22} &= h_{1} - h_{2} + h_{3} + h_{6}"
    assert r"s_{1} &= a_{21} + a_{22} \\" in schemes.get("winograd").to_latex(shared=True)
    half = Scheme([[[Fraction(1, 2)]]], [[[2]]], [[[1]]])
    assert r"\tfrac{1}{2} a_{11}" in half.to_latex()


def test_what_a_notebook_shows():
    shown = schemes.get("strassen")._repr_html_()
    assert "strassen &lt;2,2,2;7&gt;: speed-up bound 1.143" in shown
    assert r"h_{1} &= (a_{11}" in shown
    assert "h_" not in schemes.get("strassen@3x3x3:23")._repr_html_()
