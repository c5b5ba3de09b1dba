"""A run: turns rotate, cases end when they are known, stopping loses a round at most."""

import json

import pytest

from falcon.bench import suite
from falcon.bench.peers import TABLE
from falcon.bench.stream import Stream

from .support import MACHINE, pretend, spec

FOREVER = float("inf")


def session(asked, stream, deadline=FOREVER):
    said = []
    complete = suite.Suite(asked, stream, deadline, lambda *x: said.append(x)).run()
    return complete, said


def rounds(stream, key="squares 8x8x8 float32"):
    return [x["seconds"] for x in stream.of("round") if x["round"] == key]


def test_a_case_ends_when_its_ratios_are_known(monkeypatch):
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.1], numpy=[2.0])
    asked = spec(sizes=(8,))
    stream = Stream(None, asked.header(MACHINE))
    assert session(asked, stream)[0]
    assert len(rounds(stream)) == 5
    assert rounds(stream)[0] == {"falcon": 1.0, "falcon classical": 1.1, "numpy": 2.0}
    order = [name for name, _ in worker.log[3:]]
    assert order[:3] == ["falcon", "falcon classical", "numpy"]
    assert order[3:6] == ["falcon classical", "numpy", "falcon"]
    assert {repeats for _, repeats in worker.log} == {1}


def test_short_calls_are_repeated(monkeypatch):
    worker = pretend(monkeypatch, falcon=[0.03], falcon_classical=[0.012], numpy=[0.2])
    session(spec(sizes=(8,)), Stream(None, spec(sizes=(8,)).header(MACHINE)))
    assert dict(worker.log) == dict.fromkeys(("falcon", "falcon classical", "numpy"), 5)


def test_noise_asks_for_more_rounds_but_not_for_ever(monkeypatch):
    noisy = [1.0, *([2.0, 3.0] * 50)]
    pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=noisy)
    asked = spec(sizes=(8,))
    stream = Stream(None, asked.header(MACHINE))
    session(asked, stream)
    assert len(rounds(stream)) == 20
    pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0, *([2.0, 3.0] * 50)])
    asked = spec(sizes=(8,), case_seconds=1.0)
    stream = Stream(None, asked.header(MACHINE))
    session(asked, stream)
    assert len(rounds(stream)) == 5


def test_a_run_goes_on_where_it_stopped(monkeypatch, tmp_path):
    pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    asked, path = spec(), tmp_path / "x.part"
    stream = Stream(path, asked.header(MACHINE))
    # Whatever the deadline, a session gets ahead by one round.
    assert not session(asked, stream, deadline=0.0)[0]
    assert len(rounds(stream)) == 1
    sessions = 1
    while True:
        stream = Stream(path, asked.header(MACHINE))
        before = len(stream.of("round"))
        complete, _ = session(asked, stream, deadline=0.0)
        sessions += 1
        assert len(stream.of("round")) >= before
        if complete:
            break
        assert sessions < 40
    for key in ("squares 8x8x8 float32", "squares 16x16x16 float32"):
        assert len(rounds(stream, key)) == 5
    assert len(stream.of("identity")) == 5  # libraries are looked at once
    assert len(stream.of("done")) == 2
    lines = len(stream.lines)
    assert session(asked, Stream(path, asked.header(MACHINE)))[0]  # nothing left to do
    assert len(stream.lines) == lines


def test_a_kill_in_the_middle_of_a_line_loses_that_line(monkeypatch, tmp_path):
    pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    asked, path = spec(sizes=(8,)), tmp_path / "x.part"
    session(asked, Stream(path, asked.header(MACHINE)), deadline=0.0)
    text = path.read_text(encoding="utf-8")
    last = [i for i, line in enumerate(text.splitlines()) if '"round"' in line][-1]
    whole = text.splitlines()
    path.write_text("\n".join(whole[:last]) + "\n" + whole[last][:20], encoding="utf-8")
    stream = Stream(path, asked.header(MACHINE))
    assert rounds(stream) == []
    assert session(asked, stream)[0]
    assert len(rounds(stream)) == 5
    assert all(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def test_another_run_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "x.part"
    Stream(path, spec().header(MACHINE))
    with pytest.raises(ValueError, match=r"begun with other cases, peers or settings.*--fresh"):
        Stream(path, spec(sizes=(32,)).header(MACHINE))
    with pytest.raises(ValueError, match="other cases"):
        Stream(path, spec().header({**MACHINE, "cpu": "another"}))
    path.write_text("hello\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not a run of falcon bench"):
        Stream(path, spec().header(MACHINE))


def test_a_peer_that_fails_does_not_stop_the_others(monkeypatch):
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    worker.broken.add("numpy")
    asked = spec(sizes=(8,))
    stream = Stream(None, asked.header(MACHINE))
    assert session(asked, stream)[0]
    assert set(rounds(stream)[0]) == {"falcon", "falcon classical"}
    assert stream.of("prepared")[0]["sides"]["numpy"] == {"failed": "peer numpy: MemoryError"}


def test_progress_adds_up(monkeypatch):
    pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    asked = spec()
    _, said = session(asked, Stream(None, asked.header(MACHINE)))
    assert sum(seconds for seconds, _ in said) == pytest.approx(
        sum(asked.seconds(case) for case in asked.cases)
    )
    assert any("16x16x16 float32, round 5" in word for _, word in said)


def test_self_check_of_real_processes(monkeypatch):
    monkeypatch.setattr(suite, "_CHECKED", suite.Shape(64, 64, 64))
    monkeypatch.setattr(suite, "_CHECK_PAIRS", 3)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    found = suite.self_check(1)
    assert found["count"] == 3
    assert found["passed"] == (abs(found["median"] - 1) <= 0.02)


def test_the_best_kernels_are_those_of_the_dtype(monkeypatch):
    worker = pretend(
        monkeypatch, falcon=[1.0], falcon_classical=[1.0], **{"numpy (best kernels)": [1.0]}
    )
    asked = spec(sizes=(8,), dtypes=("float32", "float64"))
    asked.sides[2] = TABLE[1]
    stream = Stream(None, asked.header(MACHINE))
    assert session(asked, stream)[0]
    best = [x["OPENBLAS_CORETYPE"] for name, x in worker.started if name == TABLE[1].name]
    assert best == ["Zen", "Old"]
    assert [name for name, _ in worker.started].count("falcon") == 1
    found = stream.of("identity")[2]
    assert found["tried"]["float64"] == {"Zen": 5.0, "Old": 7.0}
    assert found["found"]["environment"]["float64"] == {"OPENBLAS_CORETYPE": "Old"}
    assert set(found["found"]["kernels"]) == {"float32", "float64"}
