"""Scheme files: what other programs write is read, whatever its orientation, and every kind of
damage ends in an error that says what is wrong.
"""

import json
import pickle
import random
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falcon import schemes
from falcon.schemes import SchemeError, dump, load, load_all
from falcon.schemes.writing import to_json

from .support import FRACTIONAL, archive

NAMES = ["strassen", "hopcroft-kerr", "2x3x4:20", "3x4x5:48"]
WITH_SUMS = [schemes.get("4x4x4:49-adds"), *schemes.symmetries(schemes.get("3x4x4:38"))]


def flat(scheme, factor):
    return np.array(getattr(scheme, factor)).reshape(scheme.rank, -1)


def w_transposed(scheme):
    return scheme.W.transpose(0, 2, 1).reshape(scheme.rank, -1)


def flip_graph_record(scheme):
    """The JSON of flip-graph searches: n for the format, m for the rank, W for C transposed."""
    return {
        "n": list(scheme.format),
        "m": scheme.rank,
        "z2": False,
        "u": flat(scheme, "U").tolist(),
        "v": flat(scheme, "V").tolist(),
        "w": w_transposed(scheme).tolist(),
    }


def bare(name):
    """A scheme as the formats of other researchers hold it: without programs for its sums."""
    return schemes.get(name).with_sums(None)


def falcon_record(scheme):
    return json.loads(to_json(scheme))


def alphatensor(path, found, *, plain=False, w_for_c=False, dtype=np.int32):
    """Write AlphaTensor's layout: key "m,k,n", three arrays of shape (entries, R)."""
    entries = {}
    for scheme in found:
        w = flat(scheme, "W") if w_for_c else w_transposed(scheme)
        factors = [x.T.astype(dtype) for x in (flat(scheme, "U"), flat(scheme, "V"), w)]
        if plain:
            held = np.array(factors)
        else:
            held = np.empty(3, dtype=object)
            held[:] = factors
        entries[",".join(map(str, scheme.format))] = held
    np.savez_compressed(path, **entries)
    return path


def write(path, record):
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


# --- what is read ---------------------------------------------------------------------------


@pytest.mark.parametrize("held", [schemes.get("3x3x3:23"), FRACTIONAL], ids=lambda x: x.name)
def test_what_is_saved_obeys_the_suffix(held, tmp_path):
    for suffix in ("", ".json", ".JSON", ".txt", ".exp"):
        path = tmp_path / f"mine{suffix}"
        held.save(path)
        assert load(path).same_coefficients(held)
        assert (path.read_text()[0] == "{") == (suffix.lower() in ("", ".json"))
    for suffix in (".npz", ".sms", ".m", ".mpl", ".pdf"):
        with pytest.raises(ValueError, match=rf"mine\{suffix}: .* as \.json, or formulas as \.txt"):
            held.save(tmp_path / f"mine{suffix}")
        assert not (tmp_path / f"mine{suffix}").exists()


@pytest.mark.parametrize(
    "scheme", [*map(schemes.get, NAMES), FRACTIONAL, *WITH_SUMS], ids=lambda x: x.name
)
def test_falcon_json_round_trip(scheme, tmp_path):
    path = tmp_path / "scheme.json"
    dump(scheme, path)
    read = load(path)
    assert read == scheme
    assert (read.name, read.source) == (scheme.name, scheme.source)
    assert load(str(path)) == scheme
    dump(read, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_json_in_any_orientation_and_nesting(name, tmp_path):
    """Rows may be nested, as `Scheme` takes them; the sizes may be left out."""
    scheme, path = bare(name), tmp_path / "found.json"
    flips, rows = flip_graph_record(scheme), [flat(scheme, x).tolist() for x in "UVW"]
    assert load(write(path, flips)).name == "found"
    w = scheme.W.transpose(0, 2, 1)
    u, v, w, w_of_c = (x.tolist() for x in (scheme.U, scheme.V, w, scheme.W))
    cube = {"n": scheme.m} if len(set(scheme.format)) == 1 else {}
    for record in (
        {**flips, **cube},
        {**flips, "w": rows[2]},
        {**flips, "u": u, "v": v, "w": w},
        {**flips, "u": u, "v": v, "w": w_of_c},
        {**falcon_record(scheme), "W": w_transposed(scheme).tolist()},
        dict(zip("UVW", rows, strict=True)),
        {"U": u, "V": v, "W": w_of_c},
    ):
        assert load(write(path, record)) == scheme


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float64])
@pytest.mark.parametrize("w_for_c", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_alphatensor_objects(name, w_for_c, dtype, tmp_path):
    scheme = bare(name)
    path = alphatensor(tmp_path / "factorizations_r.npz", [scheme], w_for_c=w_for_c, dtype=dtype)
    read = load(path)
    assert read == scheme
    assert read.name == f"{'x'.join(map(str, scheme.format))}:{scheme.rank}-factorizations_r"


@pytest.mark.parametrize("name", ["strassen", "3x3x3:23", "4x4x4:49"])
def test_alphatensor_plain(name, tmp_path):
    path = alphatensor(tmp_path / "plain.npz", [bare(name)], plain=True)
    assert load(path) == bare(name)


@pytest.mark.parametrize("rows", [False, True], ids=["nested", "rows"])
@pytest.mark.parametrize("dtype", [np.int8, float, object])
@pytest.mark.parametrize("scheme", [*map(bare, NAMES), FRACTIONAL], ids=lambda x: x.name)
def test_factors_by_name(scheme, dtype, rows, tmp_path):
    if scheme is FRACTIONAL:
        dtype = object  # fractions are pickled
    factors = {x: getattr(scheme, x).astype(dtype) for x in "UVW"}
    if rows:
        factors = {x: y.reshape(scheme.rank, -1) for x, y in factors.items()}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "mine.npz", **factors)
        assert load(tmp_path / "mine.npz").same_coefficients(scheme)
    assert load(tmp_path / "mine.npz").name == "mine"
    assert schemes.check(tmp_path / "mine.npz")
    np.savez(tmp_path / "mine.npz", **factors, more=np.ones(3))
    with pytest.raises(SchemeError, match=r"expected a key such as .* or U, V and W"):
        load(tmp_path / "mine.npz")


@pytest.mark.parametrize("scheme", [schemes.get("3x3x3:23"), FRACTIONAL], ids=lambda x: x.name)
def test_what_is_printed_is_loaded(scheme, tmp_path):
    sourced = scheme.renamed("a; name", "S. Omebody, 1999; and others = more")
    for text in (str(sourced), f"{sourced!s}\n\nwith shared sums, 3 additions:\n\nh1 = 2"):
        (tmp_path / "mine.txt").write_text(text)
        assert load(tmp_path / "mine.txt").same_coefficients(scheme)
    (tmp_path / "long.txt").write_text(str(schemes.get("3x4x5:47")))
    with pytest.raises(SchemeError, match=r"long.txt: .*and 23 more .*scheme.save\(path\) writes"):
        load(tmp_path / "long.txt")


def test_fortran_order_and_protocols_of_numpy(tmp_path):
    scheme = schemes.get("hopcroft-kerr")
    content = np.empty(3, dtype=object)
    content[:] = [
        np.asfortranarray(x.T) for x in (flat(scheme, "U"), flat(scheme, "V"), w_transposed(scheme))
    ]
    for protocol in range(2, 5):
        held = {"3,2,3": pickle.dumps(content, protocol)}
        assert load(archive(tmp_path / "x.npz", held)) == scheme


def sms(folder, scheme, **changes):
    """Write PLinOpt's three files; return that of the left factor."""
    for letter, factor in zip("LRP", "UVW", strict=True):
        matrix = flat(scheme, factor)
        matrix = matrix if letter != "P" else matrix.T
        lines = ["# a comment", "{} {} R".format(*matrix.shape)]
        for i, j in np.argwhere(matrix != 0):
            lines.append(f"{i + 1} {j + 1} {matrix[i, j]}")
        text = "\n".join([*lines, "0 0 0", ""])
        (folder / f"own_{letter}.sms").write_text(changes.get(letter, text))
    return folder / "own_L.sms"


@pytest.mark.parametrize("scheme", [*map(schemes.get, NAMES), FRACTIONAL], ids=lambda x: x.name)
def test_sparse_matrices_of_plinopt(scheme, tmp_path):
    path = sms(tmp_path, scheme)
    assert load(path).same_coefficients(scheme)
    assert load(tmp_path / "own_P.sms").name == "own"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"R": "7 4 R\n1 1 1/2X\n0 0 0\n"}, "own_R.sms: no sparse matrix of numbers .*'1/2X'"),
        ({"R": ""}, "own_R.sms: no sparse matrix"),
        ({"L": "7 4 R\n8 1 1\n0 0 0\n"}, r"\(8, 1\) is outside 7 x 4"),
        ({"L": "7 4 R\n-3 1 1\n0 0 0\n"}, r"\(-3, 1\) is outside"),
        ({"L": "99999999 99999999 R\n"}, "it has 99999999 rows"),
        ({"P": "5 7 R\n1 1 1\n0 0 0\n"}, "4, 4 and 5 coefficients, which are .* of no format"),
        ({"P": "4 7 R\n1 1 1\n0 0 0\n"}, "is not a matrix multiplication algorithm"),
    ],
)
def test_damaged_sparse_matrices(changes, message, tmp_path):
    with pytest.raises(SchemeError, match=message):
        load(sms(tmp_path, schemes.get("strassen"), **changes))


def test_a_sparse_matrix_alone(tmp_path):
    path = sms(tmp_path, schemes.get("strassen"))
    (tmp_path / "own_R.sms").unlink()
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(SchemeError, match="expected three files, such as "):
        load(path.rename(tmp_path / "left.sms"))


def test_several_schemes(tmp_path, doors):
    found = [bare(x) for x in NAMES]
    path = alphatensor(tmp_path / "many.npz", found)
    with pytest.raises(SchemeError, match=r"many.npz: 4 schemes .*say which by format"):
        load(path)
    with pytest.raises(SchemeError, match=r"no scheme of format \(9, 9, 9\); it holds"):
        load(path, format=(9, 9, 9))
    works = [schemes.brent.work(x.U, x.V, x.W) for x in found]
    doors.numbers(verified_work=sum(works))
    assert load_all(path) == found
    doors.numbers(verified_work=sum(works) - 1)
    with pytest.raises(SchemeError, match="it is too large to be verified"):
        load_all(path)
    # A scheme of a known format is verified alone.
    assert load(path, format=(2, 3, 4)) == bare("2x3x4:20")


# --- what is refused ------------------------------------------------------------------------


def coefficient(value):
    def change(record):
        record["V"][3][2] = value

    return change


DAMAGE = {
    "a field is missing": (lambda r: r.pop("W"), "expected the fields m, k, n, U, V, W or n, m"),
    "a size is missing": (lambda r: r.pop("k"), "the dimensions are"),
    "a size is zero": (lambda r: r.update(m=0), "expected three positive integers"),
    "a size is true": (lambda r: r.update(m=True), "expected three positive integers"),
    "a size is huge": (lambda r: r.update(m=10**9), "expected three positive integers"),
    "other sizes": (lambda r: r.update(m=2, k=3), r"V has shape \(15, 6\); expected \(15, 9\)"),
    "wrong rank": (lambda r: r.update(rank=14), r"U has shape \(15, 6\); expected \(14, 6\)"),
    "a row is short": (lambda r: r["V"][3].pop(), "V is not a rectangular array"),
    "a row is a number": (lambda r: r["V"].__setitem__(3, 1), "V is not a rectangular array"),
    "a factor is text": (lambda r: r.update(U="abc"), "U has the coefficient 'abc'"),
    "nested too deeply": (
        lambda r: r.update(U=[[[[x]] for x in y] for y in r["U"]]),
        r"U has shape \(15, 6, 1, 1\)",
    ),
    "null": (coefficient(None), "V has the coefficient None of type NoneType"),
    "a list": (coefficient([1]), "V is not a rectangular array"),
    "name is a number": (lambda r: r.update(name=7), "name and source must be strings"),
    "source is a list": (lambda r: r.update(source=[]), "name and source must be strings"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_json(damage, tmp_path):
    change, message = DAMAGE[damage]
    record = falcon_record(schemes.get("hopcroft-kerr"))
    change(record)
    path = write(tmp_path / "damaged.json", record)
    with pytest.raises(SchemeError, match=message) as error:
        load(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"3",
        b'"U"',
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        b"\x80abc",
        b"[" * 100_000,
        b'{"n": [2,2,2], "m": ' + b"9" * 5000 + b"}",
        b"PK",
        b"PK\x03\x04" + bytes(100),
        b"PK\x05\x06" + bytes(18),
    ],
    ids=lambda x: repr(x[:12]),
)
def test_files_that_are_no_schemes(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(SchemeError, match=r"x\.json"):
        load(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.json")
    with pytest.raises(OSError, match=r"directory|denied"):
        load(tmp_path)


@pytest.mark.parametrize("layout", ["falcon", "flip graph", "AlphaTensor"])
def test_one_coefficient_flipped_names_the_first_equation(layout, tmp_path):
    """In the orientation of the layout, whichever coefficient it is."""
    scheme = schemes.get("2x2x3:11")
    for factor in "UVW":
        arrays = {x: np.array(getattr(scheme, x)) for x in "UVW"}
        index = tuple(np.argwhere(arrays[factor])[-1])
        arrays[factor][index] *= -1
        wrong = next(iter(schemes.brent.violations(*arrays.values())))
        # Not a Scheme, but it has the attributes that the writers below use.
        bad = scheme.renamed("bad", "a test")
        object.__setattr__(bad, factor, arrays[factor])
        path = tmp_path / f"{factor}.file"
        if layout == "falcon":
            write(path, falcon_record(bad))
        elif layout == "flip graph":
            write(path, flip_graph_record(bad))
        else:
            alphatensor(path.with_suffix(".npz"), [bad])
            path = path.with_suffix(".npz")
        with pytest.raises(SchemeError) as error:
            load(path)
        assert str(wrong) in str(error.value)
        assert "<2,2,3;11> is not a matrix multiplication algorithm" in str(error.value)


@pytest.mark.parametrize("plain", [False, True])
def test_truncated_archives(plain, tmp_path):
    data = alphatensor(tmp_path / "x.npz", [schemes.get("strassen")], plain=plain).read_bytes()
    path = tmp_path / "short.npz"
    for length in range(2, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(SchemeError, match=r"short\.npz"):
            load(path)


@pytest.mark.parametrize("plain", [False, True])
def test_archives_with_random_bytes(plain, tmp_path):
    """Any byte may change: the file is refused, or it still holds the very scheme."""
    scheme = schemes.get("strassen")
    data = alphatensor(tmp_path / "x.npz", [scheme], plain=plain).read_bytes()
    path, generator = tmp_path / "noise.npz", random.Random(3)
    refused = 0
    for position in range(len(data)):
        noisy = bytearray(data)
        noisy[position] ^= generator.randrange(1, 256)
        path.write_bytes(noisy)
        try:
            assert all(x.U.shape[0] for x in load_all(path))
        except SchemeError:
            refused += 1
        except OSError:
            pytest.fail("an OSError says that the file cannot be read, but it can")
    assert refused > len(data) // 2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("2,2", np.zeros((3, 4, 7), int), "expected a key such as"),
        ("²,2,2", np.zeros((3, 4, 7), int), "expected a key such as"),
        ("2,2,-2", np.zeros((3, 4, 7), int), "expected a key such as"),
        ("9999,2,2", np.zeros((3, 4, 7), int), "expected a key such as"),
        ("0,2,2", np.zeros((3, 4, 7), int), "the dimensions are"),
        ("2,2,2", np.zeros((2, 4, 7), int), "expected three arrays of shape"),
        ("2,2,2", np.zeros((3, 28), int), "expected three arrays of shape"),
        ("2,2,2", np.array(5), r"archive"),
        ("2,2,2", np.zeros((3, 5, 7), int), "U has shape"),
        ("2,2,3", np.zeros((3, 4, 7), int), "V has shape"),
        ("2,2,2", np.zeros((3, 4, 7), int), r"Brent equation a\[1,1\] \* b\[1,1\] in c\[1,1\]"),
        ("2,2,2", np.zeros((3, 4, 7), "M8[s]"), "U has the coefficient|archive"),
        ("2,2,2", np.zeros((3, 4, 7), "i4,i4"), "archive|U has the coefficient"),
    ],
)
def test_archives_of_other_things(key, value, message, tmp_path):
    np.savez(tmp_path / "x.npz", **{key: value})
    with pytest.raises(SchemeError, match=message):
        load(tmp_path / "x.npz")


def test_archives_without_arrays(tmp_path):
    path = tmp_path / "empty.npz"
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(SchemeError, match="the archive is empty"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("2,2,2.npy", "hello")
    with pytest.raises(SchemeError, match=r"damaged or foreign \.npz archive"):
        load(path)


def test_archives_that_promise_too_much(tmp_path):
    """A header of a few bytes must not make us allocate terabytes."""
    shape = 3, 10**6, 10**6
    with pytest.raises(SchemeError, match="archive"):
        load(archive(tmp_path / "bomb.npz", {"2,2,2": bytes(64)}, shape, "<i8"))


# --- anything at all ------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["U", "V", "W", "m", "k", "n", "rank", "u", "v", "w", "name"]), JSON_VALUES
    ),
    max_size=4,
)
FUZZ = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def attempt(path):
    """Load; only the documented errors may be raised."""
    try:
        for scheme in load_all(path):
            assert not schemes.brent.violations(scheme.U, scheme.V, scheme.W)
    except (SchemeError, OSError):
        pass


@FUZZ
@given(st.binary(max_size=200))
def test_fuzz_bytes(tmp_path, data):
    path = tmp_path / "fuzz"
    for start in (b"", b"PK\x03\x04", b"{"):
        path.write_bytes(start + data)
        attempt(path)


@FUZZ
@given(st.booleans(), EDITS, st.integers(0, 14), st.integers(0, 5), JSON_VALUES)
def test_fuzz_records(tmp_path, falcons, edits, row, column, value):
    scheme = schemes.get("hopcroft-kerr")
    record = falcon_record(scheme) if falcons else flip_graph_record(scheme)
    record["U" if falcons else "u"][row][column] = value
    record.update(edits)
    attempt(write(tmp_path / "fuzz.json", record))
