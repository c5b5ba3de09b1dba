"""Formulas as text, back and forth, and what is said of those that are wrong."""

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from falcon import Scheme, SchemeError
from falcon.schemes import check, classical, get, names
from falcon.schemes.formulas import formulas
from falcon.schemes.reading import Formulas

STRASSEN = formulas(get("strassen"))


HALVES = Scheme(get("strassen").U * Fraction(1, 2), get("strassen").V * Fraction(-7, 3),
                get("strassen").W * Fraction(-6, 7))  # fmt: skip


@pytest.mark.parametrize("name", [*names(), "halves", "1x10x2", "12x1x1", "strassen@hopcroft-kerr"])
def test_what_is_printed_is_read(name):
    scheme = HALVES if name == "halves" else get(name)
    assert formulas(scheme) == scheme.to_formulas()
    for shared in (False, True):
        found = Scheme.from_formulas(formulas(scheme, shared=shared), name, source="printed")
        assert found.same_coefficients(scheme)
        assert (found.name, found.source) == (name, "printed")
        assert Scheme.from_formulas(scheme.to_latex(shared=shared)).same_coefficients(scheme)


@pytest.mark.parametrize("entry", ["A{}{}", "a[{}, {}]", "a_{{{}{}}}", "a_{{{},{}}}", "A_{}{}"])
def test_what_papers_write(entry):
    text = "# Strassen 1969; seven products\n" + STRASSEN.replace("h", "M")
    for letter in "abc":
        for i, j in ("11", "12", "21", "22"):
            written = entry.format(i, j).replace("a", letter).replace("A", letter.upper())
            text = text.replace(f"{letter}{i}{j}", written)
    text = text.replace("-", "\u2212").replace(")(", ") \u00b7 (").replace("\n", "  # so\n")
    assert Scheme.from_formulas(text).same_coefficients(get("strassen"))


@pytest.mark.parametrize("product", ["*", " * ", " @ "])
def test_signs_of_products(product):
    text = re.sub(r"(?<=\)) ?(?=[(b])|(?<=a\d\d) (?=\()", product, STRASSEN)
    assert text.count(product.strip()) == 7
    assert Scheme.from_formulas(text).same_coefficients(get("strassen"))


def test_semicolons_factors_and_products_in_place():
    found = Scheme.from_formulas("c11 = a11*b11 + 2 (1/2 a_12) b_21; s = a21 + 0 a11; "
                                 "c21 = -(-s b11) + a22 b21")  # fmt: skip
    assert found.format == (2, 2, 1) and found.rank == 4
    halves = Formulas("h = 1/2 a11 * 0.5 b11\nc11 = 4 h").factors()
    assert [x.item() for x in halves] == [Fraction(1, 4), 1, 4]
    wide = classical(1, 12, 1)
    assert "a1,12" in formulas(wide)
    assert Scheme.from_formulas(formulas(wide)).same_coefficients(wide)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h1 = b11 a11", r"a sum of B times a sum of A: a product has"),
        ("h1 = (a11 b11", "a parenthesis is not closed"),
        ("h1 = a11 b11)", r"'\)' is not expected"),
        ("h1 = a11 + b11", "a sum of A cannot be added to a sum of B"),
        ("h1", "expected 'name = sum'"),
        ("2 = a11", "expected 'name = sum'"),
        ("h1 = a11 $ b11", r"'\$ b11' cannot be read"),
        ("h1 = a11 b11 +", "a term is missing"),
        ("h1 = a11 h7", "'h7' is not an entry"),
        ("c11 = a11", "c11 is a sum of A; expected a sum of products"),
        ("h1 = a11 b11; h1 = a11 b11", "h1 is defined already"),
        ("a11 = a12", "a11 is defined already"),
        ("h1 = a11 b11", "no product of a sum of A and a sum of B, or no c11"),
        ("c11 = a11 b11 + a12 b21; c12 = a11 b12", "is not a matrix multiplication algorithm"),
        ("", "no product"),
        ("h1 = 1/0 a11", "1/0 divides by zero"),
        ("(a11)(b11)(c11)/b11", "'/' stands before a number"),
        ("2 c11", "a sum of C; expected a sum of trilinear terms"),
        ("h1 = a00 b00", "a00: indices are from 1 to 999"),
        ("h1 = a1,1000 b1000,1; c11 = h1", "indices are from 1 to 999"),
        ("h1 = " + "(" * 9999 + "a11", "nested too deeply"),
        (f"h1 = {'9' * 5000} a11", "a number of 5000 characters is too long"),
        ("x1 = 2" + "".join(f"; x{i} = x{i - 1} x{i - 1}" for i in range(2, 99)), "too large"),
        ("h1 = a999,1 b1,999; h2 = a1,999 b1,1; c11 = h1 + h2", "too many coefficients"),
    ],
)
def test_what_cannot_be_read(text, why):
    with pytest.raises(SchemeError, match=why):
        Scheme.from_formulas(text)


def test_a_scheme_holds_all_equations():
    scheme = get("3x3x3:23")
    found = check(scheme.U, scheme.V, scheme.W)
    assert found and found.equations == 729 and found.nearest is None
    assert found.scheme.same_coefficients(scheme)
    assert str(found) == "<3,3,3;23>: all 729 Brent equations hold"
    flat = (x.reshape(23, 9) for x in (scheme.U, scheme.V, scheme.W))
    assert check(*flat).format == (3, 3, 3)


@pytest.mark.parametrize("factor", [0, 1, 2])
@pytest.mark.parametrize("name", ["strassen", "winograd", "3x4x5:47"])
def test_one_wrong_factor_is_repaired(name, factor):
    scheme = get(name)
    factors = [x.copy() for x in (scheme.U, scheme.V, scheme.W)]
    for (r, i, j), x in zip(np.argwhere(factors[factor] == 0)[[3, 9]], (1, -2), strict=True):
        factors[factor][r, i, j] = x
    found = check(*factors)
    assert not found and found.violations and len(found.differences) == 2
    assert found.nearest.same_coefficients(scheme)
    for x in found.violations:
        (i, l), (p, j), (x_, y) = (tuple(n - 1 for n in place) for place in (x.a, x.b, x.c))
        got = sum(factors[0][:, i, l] * factors[1][:, p, j] * factors[2][:, x_, y])
        assert got == x.got != x.expected


def test_nothing_is_near_a_rank_that_no_scheme_has():
    U = np.ones((3, 2, 2), int)
    found = check(U, U, U)
    assert not found and found.nearest is None and found.differences == ()
    assert "more" in str(found)


def test_what_cannot_be_checked():
    with pytest.raises(SchemeError, match="V has shape"):
        check(np.ones((7, 2, 2)), np.ones((7, 3, 2)), np.ones((7, 2, 2)))
    with pytest.raises(SchemeError, match="formulas are given as U"):
        check("c11 = a11 b11", np.ones((1, 1, 1)))


@pytest.mark.parametrize("text", [None, b"h1", 3, Path("x.txt"), "x.txt", " /y/x.json\n"])
def test_what_is_no_text(text):
    what = SchemeError if isinstance(text, str) else TypeError
    with pytest.raises(what, match="is no formula"):
        Scheme.from_formulas(text)
    if text in (Path("x.txt"), "x.txt"):
        what = FileNotFoundError
    with pytest.raises(what, match=r"is no formula|there is no file x\.txt"):
        check(text)


@pytest.mark.parametrize(("multiple", "remedy"), [(-1, "negate V"), (Fraction(3, 2), "V by 2/3")])
def test_a_factor_of_all_products_is_told(multiple, remedy, tmp_path):
    known = get("strassen")
    found = check(known.U, known.V, known.W * multiple)
    assert not found
    assert found.nearest.same_coefficients(Scheme(known.U, known.V / multiple, known.W * multiple))
    assert f"Every product is {multiple} times" in found.differences[0]
    assert remedy in str(found) and len(found.violations) == 8
    with pytest.raises(SchemeError, match=f"{remedy}"):
        Scheme(known.U, known.V, known.W * multiple)


def test_files_are_checked(tmp_path):
    known, path = get("3x3x3:23"), tmp_path / "mine.json"
    known.save(path)
    assert check(path) and check(str(path)).scheme.same_coefficients(known)
    record = json.loads(path.read_text())
    record["U"][0][0] = 5
    path.write_text(json.dumps(record))
    found = check(path)
    assert not found and found.differences == check(*found.factors).differences != ()
    path.write_text("{}")
    with pytest.raises(SchemeError, match=r"mine\.json"):
        check(path)


def test_a_scheme_that_the_catalogue_lacks_is_repaired():
    """Strassen's on A X and inverse(X) B."""
    known, X = get("strassen"), np.array([[1, 2], [0, 1]])
    U, V = known.U @ X.T, np.array([[1, 0], [-2, 1]]) @ known.V
    mine = Scheme(U, V, known.W)
    wrong = V.copy()
    wrong[2, 1, 1] += 3
    found = check(U, wrong, known.W)
    assert found.nearest.same_coefficients(mine)
    assert found.nearest.name == "the same with another V"
    assert found.differences == (
        f"h3: the coefficient of b22 is {wrong[2, 1, 1]} in yours, {V[2, 1, 1]} in the nearest",
    )
    assert f"nearest: the same with another V; {found.differences[0]}" in str(found)
