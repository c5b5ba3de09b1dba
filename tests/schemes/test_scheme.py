"""`Scheme` as a value: what it accepts, refuses and derives, and that it cannot be changed."""

import json
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import Scheme, SchemeError, dump, get, load, names, symmetries
from falcon.schemes.catalogue import is_for_additions
from falcon.schemes.records import from_record
from falcon.schemes.writing import to_json

from .support import FRACTIONAL

STRASSEN = schemes.get("strassen")


def parts(scheme):
    """U, V, W as nested lists, to be damaged."""
    return [getattr(scheme, x).tolist() for x in "UVW"]


def test_facts():
    assert (STRASSEN.m, STRASSEN.k, STRASSEN.n, STRASSEN.rank) == (2, 2, 2, 7)
    assert STRASSEN.format == (2, 2, 2)
    assert STRASSEN.speedup_bound == pytest.approx(8 / 7)
    assert STRASSEN.is_integral
    assert not STRASSEN.is_classical
    assert "1969" in STRASSEN.source
    scheme = schemes.classical(2, 3, 5)
    assert scheme.is_classical and scheme.speedup_bound == 1.0


def test_lists_arrays_and_texts_are_the_same():
    lists = parts(STRASSEN)
    texts = [[[[str(x) for x in row] for row in block] for block in factor] for factor in lists]
    floats = [np.array(x, float) for x in lists]
    small = [np.array(x, np.int8) for x in lists]
    rows = [x.reshape(7, 4) for x in small]
    for given in (lists, texts, floats, small, rows):
        made = Scheme(*given)
        assert made == STRASSEN
        assert all(getattr(made, x).dtype == np.int64 for x in "UVW")


def test_fractions_stay_exact():
    scheme = FRACTIONAL
    assert not scheme.is_integral
    assert scheme.U.dtype == object
    assert all(isinstance(x, Fraction) for x in scheme.U.ravel())
    assert scheme.W.dtype == np.int64
    assert Scheme(scheme.U.tolist(), scheme.V.tolist(), scheme.W) == scheme
    assert scheme != STRASSEN
    # A half is a binary fraction, a third is not.
    assert Scheme(STRASSEN.U * 0.5, STRASSEN.V * 2, STRASSEN.W).U[0, 0, 0] == Fraction(1, 2)
    for third in STRASSEN.U / 3, (STRASSEN.U / 3).round(4):
        with pytest.raises(SchemeError, match=r"\). Coefficients are rounded: use fractions, "):
            Scheme(third, STRASSEN.V * 3.0, STRASSEN.W)


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        STRASSEN.name = "other"
    for factor in "UVW":
        with pytest.raises(ValueError, match="read-only"):
            getattr(STRASSEN, factor)[0, 0, 0] = 5


def test_the_arrays_are_its_own():
    U, V, W = (np.array(getattr(STRASSEN, x)) for x in "UVW")
    scheme = Scheme(U, V, W)
    U[...] = 9
    assert scheme == STRASSEN


def test_equality_and_hash():
    renamed = STRASSEN.renamed("other", "a test")
    assert (renamed.name, renamed.source, STRASSEN.name) == ("other", "a test", "strassen")
    for other in (renamed, Scheme(STRASSEN.U, STRASSEN.V, STRASSEN.W, "other")):
        assert other == STRASSEN
        assert hash(other) == hash(STRASSEN)
    assert schemes.get("winograd") != STRASSEN
    assert STRASSEN != "strassen"
    assert len({STRASSEN, other, schemes.get("winograd")}) == 2


def test_repr_and_str():
    assert repr(STRASSEN) == "<Scheme strassen <2,2,2;7>>"
    text = str(STRASSEN)
    assert text.startswith("strassen <2,2,2;7>: speed-up bound 1.143, non-zeros 12+12+12")
    assert "additions 18 (shared: 18), RMS growth 2.00, e_max 12" in text
    assert "h1 = (a11 + a22)(b11 + b22)" in text
    assert "c11 = h1 + h4 - h5 + h7" in text


def test_error_bound():
    u = 2.0**-24
    assert STRASSEN.error_bound(1000, u) == 12 * 500 * (500 + 2 + 2 + 4) * u
    assert schemes.get("winograd").error_bound(1000, u) > STRASSEN.error_bound(1000, u)
    assert STRASSEN.error_bound(1001, u) == STRASSEN.error_bound(1002, u)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[0][0].pop(), "U is not a rectangular array"),
        (lambda p: p[0].pop(), r"V has shape \(7, 2, 2\); expected \(6, 2, 2\)"),
        (lambda p: p[2].pop(), r"W has shape \(6, 2, 2\); expected \(7, 2, 2\)"),
        (lambda p: p.__setitem__(0, p[0][0]), "2, 4 and 4 coefficients, which are"),
        (lambda p: p.__setitem__(1, 5), "V has shape .*expected three axes"),
        (lambda p: p.__setitem__(slice(3), np.ones((3, 7, 5))), "mk, kn and mn of no format"),
        (lambda p: p.__setitem__(0, []), "expected three axes"),
        (lambda p: p.__setitem__(0, np.zeros((0, 2, 2))), "no dimension may be zero"),
        (lambda p: p[1][3].__setitem__(0, [float("nan"), 0]), "V has the coefficient nan"),
        (lambda p: p[1][3].__setitem__(0, [float("inf"), 0]), "V has the coefficient inf"),
        (lambda p: p[2][3].__setitem__(0, ["x", 0]), "W has the coefficient 'x'"),
        (lambda p: p[2][3].__setitem__(0, ["1/0", 0]), "W has the coefficient '1/0'"),
        (lambda p: p[2][3].__setitem__(0, ["1e999999999", 0]), "W has the coefficient '1e9"),
        (lambda p: p[2][3].__setitem__(0, [2**20 + 1, 0]), "W has a coefficient beyond 1048576"),
        (lambda p: p[2][3].__setitem__(0, [-(2**63), 0]), "W has a coefficient beyond"),
        (lambda p: p[2][3].__setitem__(0, [2**64 - 1, 0]), "W has a coefficient beyond"),
        (lambda p: p[2][3].__setitem__(0, [10**400, 0]), "W has a coefficient beyond"),
        (lambda p: p[2][3].__setitem__(0, [1e300, 0]), "W has a coefficient beyond"),
        (
            lambda p: p[0][0].__setitem__(0, [0, 0]),
            r"Brent equation a\[1,1\] \* b\[1,1\] in c\[1,1\]",
        ),
    ],
)
def test_refusals(change, message):
    given = parts(STRASSEN)
    change(given)
    with pytest.raises(SchemeError, match=message):
        Scheme(*given, "damaged")


@pytest.mark.parametrize("value", [None, 1j, b"1", object(), {}, (1, "a", 2)])
def test_values_that_are_no_numbers(value):
    with pytest.raises((TypeError, SchemeError), match="U "):
        Scheme([[[value]]], [[[1]]], [[[1]]])


def test_too_large_to_verify():
    big = np.ones((1, 70, 70), np.int64)
    with pytest.raises(SchemeError, match="too large to be verified"):
        Scheme(big, big, big)


# --- kind and levels --------------------------------------------------------------------------


def test_kind_and_levels_are_fields():
    plain, fewest = get("4x4x5:61"), get("4x4x5:61-adds")
    assert (plain.kind, fewest.kind, get("4x4x5:62-rms").kind) == ("plain", "additions", "growth")
    twice = get("strassen") @ fewest
    assert (plain.levels, twice.levels, (get("strassen") @ twice).levels) == (1, 2, 3)
    renamed = twice.renamed("mine", "")
    for image in (*symmetries(renamed), pickle.loads(pickle.dumps(renamed))):
        assert image.levels == 2
    for image in (*symmetries(fewest), pickle.loads(pickle.dumps(fewest))):
        assert image.kind == "additions"


def test_facts_of_sums_pickles_and_files(tmp_path):
    twice = (get("strassen") @ get("strassen")).with_facts(kind="growth", levels=3)
    dump(twice, tmp_path / "x.json")
    for again in (pickle.loads(pickle.dumps(twice)), load(tmp_path / "x.json")):
        assert (again.kind, again.levels) == ("growth", 3)
    assert schemes.direct_sum(get("strassen"), get("2x2x2:7"), "k").levels == 1
    assert schemes.direct_sum(twice, schemes.classical(4, 1, 4), "k").levels == 3


@pytest.mark.parametrize("facts", [{"kind": "best"}, {"levels": 0}, {"levels": "two"}])
def test_wrong_facts_are_refused(facts):
    x = get("strassen")
    with pytest.raises(SchemeError, match=f"{next(iter(facts))} is .*; expected"):
        Scheme(x.U, x.V, x.W, "x", **facts)
    record = {**json.loads(to_json(x)), **facts}
    with pytest.raises(SchemeError, match=f"{next(iter(facts))} is .*; expected"):
        from_record(record)


def test_the_catalogue_says_what_its_files_do():
    """A file's name follows from its kind."""
    for name in names():
        ending = {"-adds": "additions", "-rms": "growth"}.get(name[name.rfind("-") :], "plain")
        assert get(name).kind == ending, name
        assert is_for_additions(name) == (ending == "additions")


def test_powers():
    strassen = schemes.get("strassen")
    assert strassen**1 is strassen
    assert strassen**2 == strassen @ strassen
    assert (strassen**3).levels == 3
    with pytest.raises(ValueError, match="the exponent is 0; expected at least one level"):
        strassen**0
    with pytest.raises(TypeError):
        strassen**0.5


@pytest.mark.parametrize("name", ["strassen", "2x3x4:20"])
def test_w_for_c_transposed_is_noticed(name):
    scheme = schemes.get(name)
    with pytest.raises(SchemeError, match=r"give W\.transpose\(0, 2, 1\)"):
        Scheme(scheme.U, scheme.V, scheme.W.transpose(0, 2, 1))
    rows = [x.reshape(scheme.rank, -1) for x in (scheme.U, scheme.V, scheme.W.transpose(0, 2, 1))]
    with pytest.raises(SchemeError, match=r"give W\.(reshape.*)?transpose\(0, 2, 1\)"):
        Scheme(*rows)
    with pytest.raises(SchemeError, match="Brent equation") as raised:
        Scheme(scheme.U, scheme.V, -scheme.W)
    assert "transpose" not in str(raised.value)


def test_long_formulas_are_cut_in_print_alone():
    best = schemes.get("6x6x6")
    printed, whole = str(best).splitlines(), best.to_formulas()
    assert len(printed) < 50 < len(whole.splitlines())
    assert printed[-1].startswith("... and ") and "to_formulas()" in printed[-1]
    assert schemes.Scheme.from_formulas(whole).same_coefficients(best)
    assert STRASSEN.to_formulas() in str(STRASSEN)


@pytest.mark.parametrize("name", ["classical", "Standard", "naive"])
def test_the_classical_scheme_has_a_format(name):
    with pytest.raises(ValueError, match=r"falcon.schemes.classical\(m, k, n\)"):
        schemes.get(name)
