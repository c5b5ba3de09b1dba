"""What `check` says of formulas, in the names of who wrote them."""

import random
import re

import pytest

from falcon import Scheme, SchemeError
from falcon.schemes import check, get

from .support import FRACTIONAL

WINOGRAD = """
s1 = A21 + A22; s2 = s1 - A11; s3 = A11 - A21; s4 = A12 - s2
t1 = B12 - B11; t2 = B22 - t1; t3 = B22 - B12; t4 = t2 - B21
p1 = A11 @ B11; p2 = A12 @ B21; p3 = s4 @ B22; p4 = A22 @ t4
p5 = s1 @ t1; p6 = s2 @ t2; p7 = s3 @ t3
u2 = p1 + p6; u3 = u2 + p7; u4 = u2 + p5
C11 = p1 + p2; C12 = u4 + p3; C21 = u3 - p4; C22 = u3 + p5
"""


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("s4 = A12 - s2", "s4 = A12 + s2", "line s4: try A12 - s2"),
        ("s2 = s1 - A11", "s2 = s1 - A12", "line s2: try s1 - A11"),
        ("t2 = B22 - t1", "t2 = B22", "line t2: try B22 - t1"),
        ("t3 = B22 - B12", "t3 = B22 - B12 + t1", "line t3: try B22 - B12"),
        ("t3 = B22 - B12", "t3 = 3 B11 + t1", "line t3: try -B12 + B22"),
        ("s3 = A11 - A21", "s3 = 2 A11 - A21", "line s3: try A11 - A21"),
        ("p4 = A22 @ t4", "p4 = A22 @ t3", "line p4: try A22 @ t4"),
        ("p4 = A22 @ t4", "p4 = (A22 - A21) @ t4", "line p4: try (A22) @ t4"),
        ("p6 = s2 @ t2", "p6 = s2 @ B22", "line p6: try s2 @ t2"),
        ("u3 = u2 + p7", "u3 = p7", "line u3: try p7 + u2"),
        ("C21 = u3 - p4", "C21 = u4 - p4", "line C21: try u3 - p4"),
        ("C22 = u3 + p5", "C22 = u3 - p5", "line C22: try u3 + p5"),
        ("; C22 = u3 + p5", "", "line c22: try p1 + p5 + p6 + p7"),
    ],
)
def test_one_line_is_wrong(right, wrong, told, tmp_path):
    assert right in WINOGRAD
    found = check(WINOGRAD.replace(right, wrong))
    assert found.differences == (told,) and told in str(found)
    assert found.nearest.same_coefficients(Scheme.from_formulas(WINOGRAD))
    (tmp_path / "mine.txt").write_text(WINOGRAD.replace(right, wrong))
    assert check(tmp_path / "mine.txt").differences == (told,)


def test_factors_of_products_keep_their_signs_in_parentheses():
    text = get("strassen").to_formulas()
    for right, wrong in [
        ("h4 = a22 (-b11 + b21)", "a22 b21"),
        ("h3 = a11 (b12 - b22)", "-a11 b12"),
    ]:
        found = check(text.replace(right, f"{right[:5]}{wrong}"))
        (told,) = found.differences
        assert re.fullmatch(r"line h[34]: try -?a\d\d \(-?b\d\d [-+] b\d\d\)", told), told
        fixed = text.replace(right, f"{right[:5]}{told.partition('try ')[2]}")
        assert Scheme.from_formulas(fixed)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["strassen", "2x2x3:11", "3x3x3:23", "fractional"])
def test_any_sign_or_name(name, shared):
    """What is told for a line repairs the formulas, whichever sign or entry was wrong."""
    known, generator = FRACTIONAL if name == "fractional" else get(name), random.Random(name)
    lines = [x for x in known.to_formulas(shared=shared).splitlines() if x]
    for at in generator.sample(range(len(lines)), min(len(lines), 16)):
        left, _, right = lines[at].partition(" = ")
        match = generator.choice([*re.finditer(r" [-+] |\b[ab]\d\d\b", right)] or [None])
        if match is None:
            continue
        other = {" + ": " - ", " - ": " + "}.get(match[0], f"{match[0][0]}19")
        wrong = f"{left} = {right[: match.start()]}{other}{right[match.end() :]}"
        (told,) = check("\n".join([*lines[:at], wrong, *lines[at + 1 :]])).differences
        line, _, text = told.removeprefix("line ").partition(": try ")
        names = [x.partition("=")[0].strip() for x in lines]
        lines_then = [*lines[:at], wrong, *lines[at + 1 :]]
        lines_then[names.index(line)] = f"{line} = {text}"
        assert Scheme.from_formulas("\n".join(lines_then)).format == known.format


@pytest.mark.parametrize(
    ("right", "wrong", "notes", "told"),
    [
        ("A12 - s2", "A23 - s2", ("A23 makes it <2,3,2>, without a13, b31 and b32",),
         "line s4: try A12 - s2"),
        ("B22 - t1", "B32 - t1", ("B32 makes it <2,3,2>, without a13, a23 and b31",),
         "line t2: try B22 - t1"),
        ("A11 @ B11", "A35 @ B11",
         ("A35 makes it <3,5,2>, without a13, a14, a15, a23, a24, a25 and 12 more",),
         "line p1: try A11 @ B11"),
        ("; C22 =", "; C33 =",
         ("C33 makes it <3,2,3>, without a31, a32, b13, b23, c13, c23 and 2 more",
          "c22 is not given"), None),
        ("; C21 = u3 - p4; C22 = u3 + p5", "",  ("c21 and c22 are not given",), None),
        ("A12 @ B21", "A12 @ B22", ("b21 is in no product",), None),
    ],
)  # fmt: skip
def test_stray_and_missing_entries(right, wrong, notes, told):
    text = WINOGRAD.replace(right, wrong)
    if notes == ("b21 is in no product",):
        text = text.replace("t2 - B21", "t2 - B22")
    found = check(text)
    assert found.notes == notes
    assert all(f"  {x}\n" in str(found) for x in notes)
    assert told is None or found.differences == (told,)
    with pytest.raises(SchemeError, match=re.escape(f"what is nearest; {'; '.join(notes)}")):
        Scheme.from_formulas(text)


def test_two_lines_are_wrong():
    """Differences are told in the author's names of products and entries."""
    text = WINOGRAD.replace("s3 @ t3", "A11 @ t3").replace("p3 = s4 @", "p3 = A12 @")
    text = text.replace("C11 = p1 + p2", "C11 = p1 + A12 @ B21")
    found = check(text)
    assert "p7: the coefficient of A21 is 0 in yours, -1 in the nearest" in found.differences
    assert "p3: the coefficient of A11 is 0 in yours, 1 in the nearest" in found.differences
    trilinear = "(a11 + a12)(b11)(c11); (a12)(b21)(c11)"
    assert check(trilinear).differences == ("line (a11 + a12)(b11)(c11): try (a11)(b11)(c11)",)
    dot = check("h1 = a11 b11; h2 = a12 b12; c11 = h1 + h2")
    assert dot.differences == ("line h2: try a12 b21",) and dot.nearest.format == (1, 2, 1)


def test_products_without_names_are_told_as_they_are_written():
    text = WINOGRAD.replace("p1 = A11 @ B11; p2", "p2").replace("C11 = p1", "C11 = u2 - p6")
    text = text.replace("u2 = p1 + p6", "u2 = p6 + A11 @ B11")
    assert check(text)
    told = check(text.replace("; C22 = u3 + p5", "")).differences
    assert "c22: the coefficient of A11 @ B11 is 0 in yours, 1 in the nearest" in told
    assert len(told) == 4


def test_schemes_have_no_notes():
    assert check(WINOGRAD).notes == check(WINOGRAD).differences == ()
