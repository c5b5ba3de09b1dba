"""The pretty printer: what it prints, read back, is the scheme."""

import re
from fractions import Fraction

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import Scheme
from falcon.schemes.formulas import formulas

TERM = re.compile(r"([+-]?)\s*(?:(\d+(?:/\d+)?) )?([abch])(\d+)(?:,(\d+))?")


def indices(text, letter, shape):
    """Read ``12`` or ``1,12``; digits without a comma are one each."""
    first, second = text
    if letter == "h":
        return (int(first) - 1,)
    if second is None:
        assert max(shape) <= 9
        assert len(first) == 2
        first, second = first
    return int(first) - 1, int(second) - 1


def read_sum(text, letter, shape):
    values = np.zeros(shape, dtype=object)
    rest = text
    while rest.strip():
        match = TERM.match(rest.strip())
        assert match, f"{rest!r} in {text!r}"
        sign, size, found, *position = match.groups()
        assert found == letter
        index = indices(position, letter, shape)
        assert values[index] == 0
        values[index] = Fraction(size or 1) * (-1 if sign == "-" else 1)
        rest = rest.strip()[match.end() :]
    return values


def read(text, form):
    """Return U, V, W from printed formulas."""
    m, k, n = form
    products, outputs = text.split("\n\n")
    U, V = [], []
    for r, line in enumerate(products.splitlines()):
        head, _, body = line.partition(" = ")
        assert head.strip() == f"h{r + 1}"
        split = re.fullmatch(r"(\(.+?\)|\S+) ?(\(.+?\)|\S+)", body)
        for rows, part, letter, shape in (
            (U, split[1], "a", (m, k)),
            (V, split[2], "b", (k, n)),
        ):
            rows.append(read_sum(part.strip("()"), letter, shape))
    W = np.zeros((len(U), m, n), dtype=object)
    lines = outputs.splitlines()
    assert len(lines) == m * n
    for line, (i, j) in zip(lines, np.ndindex(m, n), strict=True):
        head, _, body = line.partition(" = ")
        assert head.strip() == (f"c{i + 1},{j + 1}" if max(m, n) > 9 else f"c{i + 1}{j + 1}")
        W[:, i, j] = read_sum(body, "h", (len(U),))
    return U, V, W


def fractional():
    s = schemes.get("strassen")
    return Scheme(s.U * Fraction(1, 2), s.V * Fraction(-7, 3), s.W * Fraction(-6, 7), "f")


@pytest.mark.parametrize(
    "name", [*schemes.names(), "fractional", "1x10x2", "12x1x1", "strassen@hopcroft-kerr"]
)
def test_printed_formulas_are_the_scheme(name):
    scheme = fractional() if name == "fractional" else schemes.get(name)
    text = formulas(scheme)
    assert Scheme(*read(text, scheme.format)).same_coefficients(scheme)
    assert text in str(scheme)


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
    assert r"\tfrac{1}{2} a_{11}" in fractional().to_latex()


def test_what_a_notebook_shows():
    shown = schemes.get("strassen")._repr_html_()
    assert "strassen &lt;2,2,2;7&gt;: speed-up bound 1.143" in shown
    assert r"h_{1} &= (a_{11}" in shown
    assert "h_" not in schemes.get("strassen@3x3x3:23")._repr_html_()
