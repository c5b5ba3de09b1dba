"""The command `schemes`, and schemes in files, in place of names."""

import json

import numpy as np
import pytest

import falcon
from falcon import schemes
from falcon._tools.timing import Record
from falcon.bench import schemes as commands
from falcon.schemes.formulas import formulas

from .support import run


def rows(table):
    return [line.split() for line in table.splitlines()]


def test_schemes(capsys):
    status, out, err = run(capsys, "schemes")
    assert (status, err) == (0, "")
    head, *lines = rows(out.split("\n\n")[0])
    assert head[:4] == ["name", "format", "rank", "bound"]
    assert sorted(line[0] for line in lines) == schemes.names()
    strassen = next(line for line in lines if line[0] == "strassen")
    assert strassen == (["strassen", "<2,2,2>", "7", "1.143", "12+12+12", "18", "18", "2.00", "12"])
    assert max(map(len, out.splitlines())) <= 100
    assert "strassen: V. Strassen\n" in out
    assert out.endswith("all others: falcon's own flip-graph search\n")


@pytest.mark.parametrize("form", ["4x3x4", "4X3X4", "4,3,4"])
def test_schemes_of_a_format(capsys, form):
    status, out, _ = run(capsys, "schemes", form)
    assert status == 0
    lines = rows(out.partition("\n\n")[0])[1:]
    stored = [schemes.permuted(schemes.get(x), 4, 3, 4) for x in schemes.names()
              if sorted(schemes.get(x).format) == [3, 4, 4]]  # fmt: skip
    assert sorted(line[0] for line in lines) == sorted(x.name for x in stored)
    assert {line[1] for line in lines} == {"<4,3,4>"}


def test_schemes_of_a_format_that_is_built(capsys):
    status, out, _ = run(capsys, "schemes", "2x3x9")
    assert status == 0
    best = schemes.best(2, 3, 9)
    assert rows(out)[1][:3] == [best.name, "<2,3,9>", str(best.rank)]


def test_show(capsys):
    status, out, _ = run(capsys, "schemes", "--show", "strassen")
    assert status == 0
    assert "h1 = (a11 + a22)(b11 + b22)" in out
    assert "with shared sums" not in out
    assert run(capsys, "schemes", "--show", "strassen@winograd")[0] == 0
    out = run(capsys, "schemes", "--show", "winograd")[1]
    plain, shared = out.split("with shared sums, 15 additions:\n")
    assert "h3 = (a11 + a12 - a21 - a22) b22" in plain
    assert "h3 = (a12 + s2) b22\n" in shared


@pytest.fixture
def found(tmp_path, clean):
    """A file as a search writes it: its scheme has the name of one in the catalogue."""
    path = tmp_path / "2x3x4_20-s0.json"
    schemes.dump(schemes.get("2x3x4:20"), path)
    return path


def test_a_file_in_place_of_a_name(capsys, found):
    assert "h1 " in run(capsys, "schemes", "--show", found)[1]
    status, out, err = run(capsys, "plan", 256, 256, 256, "--scheme", found)
    assert (status, err) == (0, "")
    assert "2x3x4_20-s0.json" in out
    assert "<2,3,4;20>" in out
    found.write_text("{}", encoding="utf-8")
    status, out, err = run(capsys, "plan", 256, 256, 256, "--scheme", found)
    assert (status, out) == (2, "")
    assert "expected the fields m, k, n, U, V, W" in err


def test_measured_for_as_long_as_asked(capsys, monkeypatch):
    asked = []

    def compare(plan, candidates, rounds, seconds, **limits):
        asked.append(seconds)
        return real(plan, candidates, 1, 0.0, **limits)

    real = commands.compare
    monkeypatch.setattr(commands, "compare", compare)
    for more in ([], ["--seconds", "2.5"]):
        words = "schemes", "--compare", "strassen", "--size", "64", "--measure"
        assert run(capsys, *words, *more)[0] == 0
    assert asked == [10.0, 2.5]


def test_speeds_of_a_disturbed_machine_are_undecided(capsys, doors):
    why = "this process had 10% of a CPU"
    doors.turns(lambda sides, *_, **__: [Record(x.name, (1.0 + i,) * 5, why)
                                         for i, x in enumerate(sides)])  # fmt: skip
    _, out, _ = run(capsys, "schemes", "--compare", "strassen", "--size", 64, "--measure")
    assert f"undecided: other programs disturbed it ({why}); run it again" in " ".join(out.split())
    assert ", undecided" in out


@pytest.mark.parametrize("measure", [False, True])
def test_schemes_of_a_format_and_their_speed(capsys, measure):
    wanted = ["schemes", "2x2x2", "--size", "640", *(["--measure"] if measure else [])]
    status, out, _ = run(capsys, *wanted)
    assert status == 0
    how = "measured" if measure else "predicted"
    head, *lines = out.partition("\n\n")[0].splitlines()
    assert head.split()[-1] == how
    for line in lines:
        assert float(line.split("±")[0].split()[-1]) >= 0
        assert ("±" in line) == measure
    text = " ".join(out.split())
    assert f"{how} speed, over falcon's classical algorithm, 640 x 640 x 640 float32; " in text
    assert max(map(len, out.splitlines())) <= 100
    chosen = falcon.plan((640, 640), (640, 640), "float32").method.label
    assert f'"auto" takes {chosen} there; ' in out


def test_schemes_and_files_are_compared(capsys, tmp_path):
    falcon.schemes.get("3x3x3:23").renamed("mine", "a test").save(tmp_path / "mine.json")
    wanted = ["schemes", "--size", "700", "--compare", str(tmp_path / "mine.json"), "strassen"]
    status, out, _ = run(capsys, *wanted)
    head, *rows = out.splitlines()[:3]
    assert status == 0 and head.split()[-2:] == ["e_max", "predicted"]
    assert [x.split()[0] for x in rows] == ["strassen", "mine"]
    assert "700 x 700 x 700 float32; --measure" in " ".join(out.split()) and '"auto"' not in out
    assert out.endswith(f"Strassen\nmine: a test\n{tmp_path / 'mine.json'} equals 3x3x3:23\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2x2"], "format '2x2': expected three sizes such as \"3x4x4\"\n"),
        (["strassen"], 'such as "3x4x4"; --show strassen prints that scheme'),
        (["2x2x2", "--size", "0"], "--size must be at least 1"),
        (["2x2x2", "--seconds", "1"], "--seconds goes with --measure"),
        (["2x2x2", "--measure", "--seconds", "0"], "--seconds goes with --measure, and is more"),
        (["--measure"], "--measure goes with --compare, or a format"),
        (["--compare", "strassen", "x"], "there is no scheme 'x'"),
        (["axbxc"], "expected three sizes"),
        (["²x2x2"], "expected three sizes"),
        (["0x2x2"], "m is 0; expected a positive integer"),
        (["99x99x99"], "at most 4096"),
        (["--show", "strasen"], "there is no scheme 'strasen'; did you mean 'strassen'?"),
    ],
)
def test_schemes_refuses(capsys, arguments, message):
    status, out, err = run(capsys, "schemes", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("falcon schemes: ")
    assert message in err
    assert "Traceback" not in err


def test_verify(capsys, tmp_path):
    path = tmp_path / "own.json"
    schemes.dump(schemes.get("2x3x4:20"), path)
    status, out, _ = run(capsys, "schemes", "--verify", path)
    assert status == 0
    assert out.splitlines()[1].split()[:3] == ["own.json", "<2,3,4;20>", "0"]
    record = json.loads(path.read_text(encoding="utf-8"))
    record["W"][0][0] += 1
    path.write_text(json.dumps(record), encoding="utf-8")
    status, out, err = run(capsys, "schemes", "--verify", path)
    assert (status, err) == (1, "")
    assert "Brent equation a[" in out

    path = tmp_path / "x.txt"
    for text in ("(a11)(b11)(c11)", "1 1 1 1\n1\n1\n1\n"):
        path.write_text(text)
        assert run(capsys, "schemes", "--verify", path)[0] == 0
    for arguments in (("--show", ""), ("",)):  # no names
        assert run(capsys, "schemes", *arguments)[:2] == (2, "")


JUNK = {
    "x.json": (b"hello", "neither JSON nor an .npz archive (Expecting value"),
    "empty.json": (b"", "neither JSON nor an .npz archive (it is empty)"),
    "x.png": (b"\x89PNG\r\n", "neither JSON nor an .npz archive (binary data)"),
    "x.npz": (b"PK\x03\x04xx", "a damaged or foreign .npz archive"),
    "list.json": (b"[1]", "expected a JSON object, got list"),
    "keys.json": (b'{"A": 1}', "expected the fields m, k, n, U, V, W or n, m, u, v, w"),
    "shape.json": (b'{"m": 1, "k": 1, "n": 2, "U": [[1, 2]], "V": [[1, 1]], "W": [[1, 1]]}',
                   "U has shape (1, 2); expected"),
    "x.txt": (b"\xff", "no UTF-8"),
    "word.txt": (b"hello", "formula 'hello': "),
}  # fmt: skip


@pytest.mark.parametrize("name", JUNK)
def test_verify_says_which_file_is_junk_and_why(capsys, tmp_path, name):
    data, why = JUNK[name]
    path = tmp_path / name
    path.write_bytes(data)
    status, out, err = run(capsys, "schemes", "--verify", path)
    assert (status, err) == (1, "")
    assert f"{path}: " in out and why in out
    good = tmp_path / "good.json"
    schemes.get("strassen").save(good)
    status, out, err = run(capsys, "schemes", "--verify", path, tmp_path / "missing.json", good)
    assert (status, err) == (1, "")
    first, second, third = out.splitlines()[1:]
    assert f"{path}: " in first and why in first
    assert "there is no file" in second and third.split()[:3] == ["good.json", "<2,2,2;7>", "0"]


def test_all_that_is_wrong_in_a_file_is_told(capsys, tmp_path):
    """A line a scheme; and which stored scheme it is, in another order, with other signs."""
    path, s = tmp_path / "many.npz", schemes.get("4x3x4:38")
    order, signs = np.random.default_rng(0).permutation(38), np.resize([1, -1], (38, 1, 1))
    own = falcon.Scheme(signs * s.U[order], s.V[order], signs * s.W[order])
    held = np.empty((3, 3), object)
    held[:] = [[np.array([[x]]) for x in (1, 1, 2)]] * 3
    held[1] = [x.reshape(38, -1).T for x in (own.U, own.V, own.W.transpose(0, 2, 1))]
    np.savez(path, **dict(zip(("1,1,1", "4,3,4", "1,1,1 "), held, strict=True)))
    status, out, _ = run(capsys, "schemes", "--verify", path)
    assert status == 1
    first, second, third = out.splitlines()[1:]
    assert all("occurs 2 times in c11, expected 1" in x for x in (first, third))
    assert second.split()[:4] == ["many.npz", "<4,3,4;38>", "0", str(own.additions.reduced)]
    assert second.endswith("equals 3x4x4:38")
    mine = tmp_path / "mine.json"
    own.save(mine)
    assert f"{mine} equals 3x4x4:38" in run(capsys, "schemes", "--compare", mine, "strassen")[1]


@pytest.mark.parametrize("more", [(), ("--measure", "--size", "64")])
def test_compared_schemes_of_one_name_are_told_apart(capsys, tmp_path, more):
    path = tmp_path / "mine.json"
    schemes.get("strassen").save(path)
    status, out, _ = run(capsys, "schemes", *more, "--compare", path, "strassen", "winograd")
    assert status == 0
    names = {x.split()[0] for x in out.splitlines()[1:4]}
    assert names == {str(path), "strassen", "winograd"}


def test_a_class_of_schemes_is_checked_in_one_table(capsys, tmp_path, clean):
    right = formulas(falcon.schemes.get("strassen"))
    texts = {"ada": right, "bo": right.replace("(-b11", "(b11"), "cy": "h1 = b11 a11"}
    paths = [tmp_path / f"{name}.txt" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    falcon.schemes.get("winograd").save(tmp_path / "dan.json")
    status, out, _ = run(capsys, "schemes", "--verify", *paths, tmp_path / "dan.json")
    assert status == 1
    lines = out.splitlines()
    assert lines[1].split() == ["ada.txt", "<2,2,2;7>", "0", "18", "2.00", "equals", "strassen"]
    assert "2 of 64" in lines[2] and "line h4: try a22 (-b11 + b21)" in lines[2]
    assert "a sum of B times a sum of A" in lines[3]
    assert lines[4].split()[:5] == ["dan.json", "<2,2,2;7>", "0", "15", "2.65"]
    assert run(capsys, "schemes", "--verify", paths[0])[0] == 0
    assert run(capsys, "schemes", "--show", paths[0])[1].startswith("ada <2,2,2;7>")
    assert "ada.txt" in run(capsys, "plan", 100, 100, 100, "--scheme", paths[0])[1]
    assert falcon.schemes.load(paths[0]).same_coefficients(falcon.schemes.get("strassen"))
    with pytest.raises(falcon.SchemeError, match=r"bo\.txt: .*\(2 of 64 equations fail\); falcon"):
        falcon.schemes.load(paths[1])
    paths[2].write_bytes(b"\xff")
    with pytest.raises(falcon.SchemeError, match="no UTF-8"):
        falcon.schemes.load(paths[2])
    with pytest.raises(ValueError, match=r"a file is loaded by falcon.schemes.load\('mine.json'\)"):
        falcon.gemm(np.eye(2), np.eye(2), scheme="mine.json")
