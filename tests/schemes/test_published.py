"""Layouts of other researchers' files; all of these hold the same scheme."""

from fractions import Fraction

import pytest

from falcon.schemes import Scheme, SchemeError, get, load
from falcon.schemes._coefficients import exact_array

FORMULAS = """# a\nP1 := 2 * a11 * b11;\nP2 := ( - a12) * ( - b21);\nP3 := a11 * b12;
P4 := a12*(b22/2);\n\nc11 := 1/2*P1    + P2;\nc12 :=   P3 + 2 * P4;\nSimplify(c11 - (a11*b11));"""
MATRICES = """{{{{2, 0}}, {{1, 0}, {0, 0}}, {{1/2}, {0}}},
 {{{0, -1}}, {{0, 0}, {-1, 0}}, {{1}, {0}}}, {{{1, 0}}, {{0, 1}, {0, 0}}, {{0}, {1}}},
 {{{0, 1}}, {{0, 0}, {0, 1/2}}, {{0}, {2}}}}"""
LISTS = MATRICES.translate(str.maketrans("{}", "[]")).replace("[[[", "[Triad([[[")
HEAD = '{"n": [1, 2, 2], "m": 4, '
OTHER = "h1 = (a11 - a12) b11; h2 = a12 (b11 + b21); c11 = h1 + h2"
REDUCED = """{"n": [1, 2, 1], "m": 2,
    "u": [[{"index": 3, "value": -2}, {"index": 2, "value": 5}], [I]],
    "u_fresh": [[{"index": 0, "value": 1}, {"index": 1, "value": -1}], [{"index": 2, "value": 2}]],
    "v_fresh": [], "v": [[J], [I, J]], "w_fresh": [[J, I]], "w": [[{"index": 2, "value": 1}]]}"""
REDUCED = REDUCED.replace("I", '{"index": 1, "value": 1}').replace("J", '{"index": 0, "value": 1}')
LAYOUTS = {
    "x.exp": "# a\n(2*a11)*(b11)*(c11)/2\n(- a12)*-b21*c11\n(a11)*b12*c21\n(a12)*(1/2*b22)(2c21)",
    "yacas.txt": FORMULAS,
    "x.m": MATRICES,
    "x.mpl": f"A:=Matrix(1, 1, [[A_1_1]]):\nT:=TriadSet({LISTS}):",
    "numbers": "1 2 2 4\n2 0 0 -1 1 0 0 1\n1 0 0 0 0 0 -1 0 0 1 0 0 0 0 0 1/2\n1/2 0 1 0 0 1 0 2",
    "columns": "#\n2 0 1 0\n0 -1 0 1\n#\n1 0 0 0\n0 0 1 0\n0 -1 0 0\n0 0 0 0.5\n#\n"
    "1/2 1 0 0\n0 0 1 2",
    "sparse": HEAD + '"u_sparse": [{"i": [0], "c": [2]}, {"1": -1}, {"0": 1}, {"1": 1}], '
    '"v_sparse": {"0": {"i": [0], "c": [1]}, "1": {"2": -1}, "2": {"1": 1}, "3": {"3": 0.5}}, '
    '"w_sparse": [{"0": "1/2"}, {"0": 1}, {"1": 1}, {"1": 2}]}',
    "reduced.json": REDUCED,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, tmp_path):
    (tmp_path / name).write_text(LAYOUTS[name])
    expected = Scheme.from_formulas(OTHER if name == "reduced.json" else FORMULAS)
    assert load(tmp_path / name).same_coefficients(expected)


def test_schemes_modulo_2_are_told(tmp_path):
    scheme = get("strassen")
    U, V, W = factors = [abs(x) for x in (scheme.U, scheme.V, scheme.W)]
    text = str([[x[r].tolist() for x in factors] for r in range(7)])
    (tmp_path / "x").write_text(text.translate(str.maketrans("[]", "{}")))
    for read in (lambda: Scheme(U, V, W), lambda: load(tmp_path / "x")):
        with pytest.raises(SchemeError, match=r"occurs 2 times .* a scheme modulo 2 only"):
            read()
    with pytest.raises(SchemeError, match=r"negate V$"):
        Scheme(scheme.U, -scheme.V, scheme.W)


@pytest.mark.parametrize(("text", "message"), [
    ("{{{1}}, {{I}}, {{1}}}", "no three matrices of numbers"),
    ("1 0\n#\n1 0\n#\n1 0\n#\n1 0", "there are 4; expected U, V and W"),
    (HEAD + '"u_sparse": [{"2": 1}], "v_sparse": [], "w_sparse": []}', "no entry 2 of 2"),
    (REDUCED.replace('"value": 5', '"value": "5"'), "'5' is no integer"),
])  # fmt: skip
def test_what_is_none(text, message, tmp_path):
    (tmp_path / "x").write_text(text)
    with pytest.raises(SchemeError, match=message):
        load(tmp_path / "x")


def test_many_fractions_of_few_kinds():
    assert exact_array([["1/2", 3]] * 2**18, "U")[-1].tolist() == [Fraction(1, 2), 3]
    with pytest.raises(ValueError, match="65536 different ones"):
        exact_array([f"{i}/3" for i in range(2**16 + 1)], "U")
