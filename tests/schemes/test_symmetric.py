"""Schemes for X X^T: what is refused, what the constructions give, and that all multiply."""

import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import SchemeError, SymmetricScheme, symmetric
from reference.gram import gram_by_scheme

CONSTRUCTED = [
    symmetric.classical(1, 1),
    symmetric.classical(3, 2),
    symmetric.get("2x1:1+2@strassen"),
    symmetric.get("2x2:2+4@winograd"),
    symmetric.from_general(schemes.get("2x3x2:11"), parts=3),
    symmetric.from_general(schemes.get("4x2x4:26"), diagonal=symmetric.get("2x1:1+2@strassen")),
]
SCHEMES = [*map(symmetric.get, symmetric.names()), *CONSTRUCTED]
ONE = symmetric.classical(2, 1)


@pytest.fixture
def rng():
    return np.random.default_rng(28)


every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)


@every_scheme
def test_integers_are_exact_and_floats_within_the_bound(scheme, rng):
    shape = rng.integers(1, 14, 2)
    x = rng.integers(-9, 10, shape)
    assert np.array_equal(gram_by_scheme(x, scheme.U, scheme.V, scheme.W), x @ x.T)
    x = rng.standard_normal(shape)
    inner = -(-shape[1] // scheme.k) * scheme.k
    bound = scheme.error_bound(inner, 2.0**-53) * abs(x).max() ** 2
    error = abs(gram_by_scheme(x, scheme.U, scheme.V, scheme.W) - x @ x.T)
    assert error.max() <= 2 * bound  # and NumPy's own error


@every_scheme
def test_files_and_pickles_give_the_scheme_back(scheme, tmp_path):
    path = tmp_path / "scheme.json"
    symmetric.dump(scheme, path)
    for other in (symmetric.load(path), pickle.loads(pickle.dumps(scheme))):
        assert other == scheme
        assert hash(other) == hash(scheme)
        assert (other.name, other.source, other.kind) == (scheme.name, scheme.source, scheme.kind)


@every_scheme
def test_counts(scheme):
    assert scheme.n_general + scheme.n_symmetric == scheme.rank
    assert scheme.cost == scheme.n_general + Fraction(scheme.n_symmetric, 2)
    whole = [
        not s or w[~np.eye(scheme.m, dtype=bool)].any()
        for s, w in zip(scheme.symmetric, scheme.W, strict=True)
    ]
    assert scheme.triangle_cost == sum(1 if x else Fraction(1, 2) for x in whole) >= scheme.cost
    assert 1 <= scheme.speedup_bound < 2
    assert scheme.additions.reduced <= scheme.additions.naive
    sums, left, right = scheme.operands
    assert np.array_equal(sums[left], scheme.U.reshape(scheme.rank, -1))
    assert np.array_equal(sums[right], scheme.V.reshape(scheme.rank, -1))
    assert np.array_equal(left == right, scheme.symmetric)


@every_scheme
def test_a_changed_coefficient_is_refused(scheme, rng):
    for factor in "UVW":
        arrays = {x: getattr(scheme, x).copy() for x in "UVW"}
        r, i = rng.integers(scheme.rank), rng.integers(scheme.m)
        arrays[factor][r, i, -1] += 1
        with pytest.raises(SchemeError, match=r"does not compute.*Brent equation x\["):
            SymmetricScheme(**arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"U": [[1]]}, "U has shape"),
        ({"V": np.zeros((3, 1, 2), int)}, "V has shape"),
        ({"W": np.zeros((3, 1, 1), int)}, "W has shape"),
        ({"W": np.ones((3, 2, 2), int)}, r"W\[0, 1, 0\] is 1; expected zeros below"),
        ({"kind": "best"}, "kind is 'best'"),
        ({"U": np.full((3, 2, 1), np.nan)}, "not finite"),
        ({"W": ONE.W * [[1, 2], [1, 1]]}, r"x\[1,1\] \* x\^T\[2,1\] in c\[1,2\].* occurs 2 times"),
        # x2 x1^T is below the diagonal: it is no product for c12, though scalars would commute.
        ({"U": ONE.V, "V": ONE.U}, "Brent equation"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(SchemeError, match=message):
        SymmetricScheme(**({x: getattr(ONE, x) for x in "UVW"} | change))


def test_signs_of_symmetric_products_go_to_w():
    one = symmetric.classical(2, 2)
    V, W = one.V.copy(), one.W.copy()
    V[0] *= -1
    W[0] *= -1
    other = SymmetricScheme(one.U, V, W)
    assert other == one
    assert other.symmetric[0]


def test_compose_recurses_only_where_a_triangle_suffices():
    # c12 = x1 (x1 + x2)^T - x1 x1^T needs the whole of h1 = x1 x1^T.
    U, V, W = ONE.U.copy(), ONE.V.copy(), ONE.W.copy()
    V[1] = U[1] + V[1]
    W[0, 0, 1] = -1
    outer = SymmetricScheme(U, V, W)
    assert outer.off_diagonal.tolist() == [True, True, False]
    flat = symmetric.compose(outer, schemes.get("strassen"))
    # Of Strassen's products with x1 x1^T one is symmetric, as it happens.
    assert (flat.rank, flat.n_symmetric) == (7 + 7 + 6, 1 + 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: symmetric.get("strassen"), "there is no scheme 'strassen' for X X"),
        (lambda: symmetric.get("2x2:3+4"), "there is no scheme"),
        (lambda: symmetric.from_general(schemes.get("2x2x3")), "expected <m,k,m>"),
        (
            lambda: symmetric.from_general(schemes.get("strassen"), 2, symmetric.classical(3, 2)),
            "does not fit",
        ),
        (lambda: symmetric.classical(2, 1).recursive_ratio(), "expected a square"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
    with pytest.raises(TypeError, match="expected a str"):
        symmetric.get(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a JSON object"),
        ("{", "neither JSON nor"),
        ('{"product": "X X^T", "m": 1}', "'k' is missing"),
        ('{"product":"X X^T","m":0,"k":1,"rank":1,"U":[],"V":[],"W":[]}', "positive integers"),
        ('{"product":"X X^T","m":1,"k":1,"rank":1,"U":[[1]],"V":[[1]],"W":[[2]]}', "Brent"),
        ('{"product":"X X^T","m":1,"k":1,"rank":1,"U":[[1]],"V":[[1,1]],"W":[[1]]}', "V has shape"),
    ],
)
def test_damaged_files(text, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(SchemeError, match=message):
        symmetric.load(path)


def test_fractions():
    one = symmetric.classical(1, 1)
    half = SymmetricScheme(one.U * 2, one.V * 2, [[["1/4"]]], "quarter")
    assert not half.is_integral
    assert half.W[0, 0, 0] == Fraction(1, 4)
    assert "1/4 h1" in str(half)


def test_print():
    text = str(symmetric.get("2x2:2+4@strassen"))
    assert "<4,4;22+16>" in text
    assert "^T" in text
    assert "c34 = " in text
    assert "c43" not in text
    assert r"^{\mathsf{T}}" in symmetric.classical(2, 1)._repr_html_()
    assert repr(symmetric.classical(2, 2)) == "<SymmetricScheme 2x2:2+4 <2,2;2+4>>"


def test_the_stored_files_are_named_as_their_schemes():
    for name in symmetric.names():
        scheme = symmetric.get(name)
        assert scheme.name == name
        assert name == f"{scheme.m}x{scheme.k}:{scheme.n_general}+{scheme.n_symmetric}"


def table():
    """The table of docs/gram.md: classical, composed and stored schemes."""
    names = ["2x2:2+4", "2x1:1+2@strassen", "2x2:2+4@strassen", *symmetric.names()]
    lines = [
        "| scheme | general | symmetric | cost | cost, whole | classical | ratio | additions "
        "| growth | at depth |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for x in map(symmetric.get, names):
        cells = (
            f"`{x.name}`",
            x.n_general,
            x.n_symmetric,
            f"{float(x.cost):g}",
            f"{float(x.triangle_cost):g}",
            f"{x.m * x.m * x.k / 2:g}",
            f"{x.speedup_bound:.3f}",
            x.additions.reduced,
            f"{x.rms_growth:.2f}",
            f"{x.recursive_ratio():.3f}" if x.m == x.k else "",
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def test_the_table_in_the_docs_is_current():
    assert table() in (Path(__file__).parents[2] / "docs" / "gram.md").read_text(encoding="utf-8")
