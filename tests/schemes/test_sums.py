"""A scheme's shared sums belong to it: images, pickles and copies keep them."""

import copy
import json
import pickle

import pytest

from falcon import schemes
from falcon.schemes import Scheme, SchemeError
from falcon.schemes.loaders import from_record
from falcon.schemes.writing import to_json

NAMES = [name for name in schemes.names() if schemes.get(name).sums]


def additions(scheme):
    return [sums.additions for sums in scheme.shared_sums]


def test_the_catalogue_has_them():
    assert len(NAMES) > 90


@pytest.mark.parametrize("name", NAMES)
def test_images_and_pickles_keep_them(name):
    scheme = schemes.get(name)
    rows_w = scheme.rank - scheme.m * scheme.n
    u, v, w = additions(scheme)
    expected = {"U": u, "V": v, "W": w - rows_w}  # of the factors as R rows
    for image in schemes.symmetries(scheme):
        held = Scheme(image.U, image.V, image.W, "constructed", sums=image.sums)
        assert held.shared_sums == image.shared_sums  # replayed, they are the same programs
        u, v, w = additions(image)
        w -= image.rank - image.m * image.n
        assert sorted((u, v, w)) == sorted(expected.values())
        again = pickle.loads(pickle.dumps(image))
        assert again == image and again.sums == image.sums
        assert again.shared_sums == image.shared_sums


def test_equal_schemes_run_alike():
    scheme = schemes.get("3x4x4:38")
    searched = Scheme(scheme.U, scheme.V, scheme.W, scheme.name)
    assert searched.sums is None and searched == scheme.with_sums(None)
    assert hash(searched) == hash(scheme) and searched.same_coefficients(scheme)
    assert searched != scheme and searched.shared_sums != scheme.shared_sums
    assert searched.with_sums(scheme.sums) == scheme
    assert not searched.same_coefficients(schemes.get("3x4x4:38-adds"))
    # A program that says what the search finds makes no difference.
    strassen = schemes.get("strassen").with_sums(None)
    assert strassen.with_sums({"U": []}) == strassen


@pytest.mark.parametrize(
    "make",
    [
        copy.copy,
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: x.renamed("other", "a test").renamed(x.name, x.source),
    ],
)
@pytest.mark.parametrize(
    "name", ["strassen", "3x4x4:38", "strassen@3x4x4:38", "2x3x4:20@(strassen@winograd)"]
)
def test_copies_keep_them(make, name):
    scheme = schemes.get(name)
    made = make(scheme)
    assert made == scheme and made.shared_sums == scheme.shared_sums
    assert (made.name, made.source, made.levels) == (scheme.name, scheme.source, scheme.levels)
    assert scheme.levels == 1 or len(pickle.dumps(scheme)) < scheme.U.nbytes  # as its levels


def test_they_cannot_be_changed():
    scheme = schemes.get("3x4x4:38")
    with pytest.raises(TypeError):
        scheme.sums["U"] = ()
    given = {"U": [[2, 3, 1]]}
    made = schemes.get("winograd").with_sums(given)
    given["U"].append([0, 0, 0])
    assert dict(made.sums) == {"U": ((2, 3, 1),)}


@pytest.mark.parametrize(
    ("sums", "message"),
    [
        ([1], r"'mine': sums is list '\[1\]'; expected lists of \[x, y, ratio\] by factor"),
        ({"X": []}, "sums is dict"),
        ({"U": 3}, "sums of U: got '3'; expected a list"),
        ({"V": [3]}, r"sums of V: got '\[3\]'; expected a list"),
        ({"W": [[0, 0, 1]]}, r"sums of W: temporary 0 is \[0, 0, 1\]; expected two earlier"),
        *(({"U": [[0, 1, *x]]}, "sums of U: temporary 0 is .* expected three integers")
          for x in ("1", (True,), (1.0,), ())),
        *(({"U": [x]}, "sums of U: temporary 0 is .* expected two earlier")
          for x in ([0, 9, 1], [-1, 1, 1], [0, 1, 2])),
        ({"U": [[0, 3, -1]]}, r"sums of U: temporary 0 is \[0, 3, -1\]: in no row"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(sums, message):
    s = schemes.get("strassen")
    for make in (
        lambda: Scheme(s.U, s.V, s.W, "mine", sums=sums),
        lambda: s.renamed("mine", "a test").with_sums(sums),
        lambda: from_record(json.loads(to_json(s.renamed("mine", ""))) | {"sums": sums}),
    ):
        with pytest.raises(SchemeError, match=message):
            make()


def test_only_integers_have_them():
    s = schemes.get("winograd")
    with pytest.raises(SchemeError, match="of a scheme of integers"):
        Scheme(s.U * 0.5, s.V * 2, s.W, sums={"V": []})
