"""The catalogue by name: which schemes it has, builds and registers."""

import json
import time
from importlib import resources

import pytest

from falcon import schemes
from falcon.schemes import get, names, register


def mine(name="mine", of="winograd"):
    return get(of).renamed(name, "a test")


def test_names_are_sorted_and_all_there():
    found = names()
    assert found == sorted(found)
    for name in found:
        scheme = get(name)
        assert scheme.name == name
        assert scheme.source
        assert get(name) is scheme


def test_every_format_up_to_five_is_stored():
    held = {tuple(sorted(get(x).format)) for x in names()}
    for m in range(2, 6):
        for k in range(m, 6):
            for n in range(k, 6):
                assert (m, k, n) in held


def test_files_name_what_they_hold():
    folder = resources.files(schemes.__package__) / "data"
    for entry in folder.glob("*.json"):
        record = json.loads(entry.read_text(encoding="utf-8"))
        assert record["name"] == entry.name.removesuffix(".json").replace("_", ":")
        assert record["source"]


@pytest.mark.parametrize(
    ("name", "form", "rank"),
    [
        ("strassen", (2, 2, 2), 7),
        ("hopcroft-kerr", (3, 2, 3), 15),
        ("1x1x1:1", (1, 1, 1), 1),
        ("4x3x4:38", (4, 3, 4), 38),
        ("5x3x4:47-adds", (5, 3, 4), 47),
        ("2x3x9", (2, 3, 9), 45),
        ("2x2x2:8", (2, 2, 2), 8),
        ("1x1x7:7", (1, 1, 7), 7),
        ("2x3x9:45", (2, 3, 9), 45),
        ("hopcroft-kerr[2x3x3]", (2, 3, 3), 15),
        ("strassen@3x3x3:23", (6, 6, 6), 161),
        ("strassen @ winograd", (4, 4, 4), 49),
        ("strassen@strassen@strassen", (8, 8, 8), 343),
        ("strassen@4x3x4:38", (8, 6, 8), 266),
        ("(strassen@2x2x3:11)[6x4x4]", (6, 4, 4), 77),
        ("strassen@(1x1x1:1@winograd)", (4, 4, 4), 49),
    ],
)
def test_get(name, form, rank):
    scheme = get(name)
    assert scheme.format == form
    assert scheme.rank == rank


def test_images_can_be_had_by_their_names():
    """Names that a plan prints are accepted."""
    for name in [*names(), "strassen@2x2x3:11"]:
        for image in schemes.symmetries(get(name)):
            assert get(image.name).format == image.format
            assert get(image.name).phi == image.phi


@pytest.mark.parametrize("name", [
    "", "2x2x2:6", "2x2", "2x2x2x2", "0x2x2:0", "99x99x99:970299", "strassen@", "@", "(strassen",
    "strassen)", "[2x2x2]", "²x2x2", "2x2x2:7-rms", "auto", "9" * 5000 + "x1x1", "0x2x2",
    "16x16x17", "strassen[3x3x3]",
])  # fmt: skip
def test_no_such_scheme(name):
    with pytest.raises(
        ValueError, match=r"there is no scheme |at most|positive|no permutation"
    ) as error:
        get(name)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "name, hint",
    [
        ("strasen", "; did you mean 'strassen'?"),
        ("Strassen", "; did you mean 'strassen'?"),
        ("strassen@wingrad", "there is no scheme 'wingrad'; did you mean 'winograd'?"),
        ("4x3x4:37", "of its format there are: 3x4x4:38, 3x4x4:38-adds"),
        ("9x9x9:100", "of its format there are: 9x9x9:516"),
        ("nothing", r"falcon.schemes.names\(\) lists"),
    ],
)
def test_suggestions_for_misspelt_names(name, hint):
    with pytest.raises(ValueError, match=hint):
        get(name)


@pytest.mark.parametrize(
    "name",
    [
        "strassen@" * 40 + "strassen",
        "(" * 5000,
        "@".join(["1x1x1"] * 60),
        "strassen@" * 6 + "winograd",
    ],
)
def test_names_that_would_take_long_are_refused_at_once(name):
    start = time.process_time()
    with pytest.raises(ValueError, match=r"at most 200 are read|too large to be verified"):
        get(name)
    assert time.process_time() - start < 60  # of CPU time: nothing of that size is made


@pytest.mark.parametrize("name", [None, 7, ["strassen"], b"strassen", get("strassen")])
def test_names_that_are_no_text(name):
    with pytest.raises(TypeError, match=r"scheme name is of type .*expected a str"):
        get(name)


@pytest.mark.usefixtures("clean")
def test_register():
    scheme = mine()
    assert register(scheme) is scheme
    assert "mine" in names()
    assert get("mine") is scheme
    assert get("mine@mine").rank == 49
    with pytest.raises(ValueError, match="there is a scheme named 'mine' already"):
        register(mine())
    other = mine(of="strassen")
    register(other, overwrite=True)
    assert get("mine") is other
    assert get("mine@mine") == get("strassen@strassen")


@pytest.mark.usefixtures("clean")
def test_registered_schemes_are_candidates():
    better = schemes.best(2, 3, 3)
    forged = better.renamed("2x3x3:14", "pretended")
    register(forged)
    assert get("3x3x2:14").format == (3, 3, 2)
    smooth = schemes.classical(1, 1, 2).renamed("pair", "a test")
    register(smooth)
    assert schemes.best(1, 1, 2).rank == 2


@pytest.mark.parametrize("name", ["auto", "classical", "unnamed", "", "a@b", "a[b", "a(b)"])
def test_reserved_names(name):
    with pytest.raises(ValueError, match="is reserved"):
        register(mine(name))


def test_register_refuses():
    with pytest.raises(ValueError, match="there is a scheme named 'strassen' already"):
        register(mine("strassen"), overwrite=True)
    with pytest.raises(TypeError, match="scheme is of type str; expected a falcon Scheme"):
        register("strassen")
