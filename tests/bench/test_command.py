"""The command line of benchmarks against peers: a whole small run, stopped, ended, shown."""

import json
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._cpu.peak import Peak
from falcon._numpy import threads
from falcon.bench import peers, records
from falcon.bench.adapters import LIBRARIES
from falcon.bench.compare import own_classical
from falcon.bench.run import INCOMPLETE
from falcon.bench.workloads import WORKLOADS, Shape

from ..cli.support import run
from .support import PEAK


@pytest.fixture
def small(doors):
    """Only NumPy as a peer."""
    doors.peers((peers.TABLE[0],), PEAK)
    doors.no_pauses()


@pytest.mark.usefixtures("small")
def test_a_run_that_is_stopped_and_ended(capsys, tmp_path, monkeypatch):
    pytest.importorskip("jsonschema")
    path = tmp_path / "x.json"
    odd = replace(WORKLOADS["odd"], shapes=[Shape(33, 65, 17)])
    monkeypatch.setitem(WORKLOADS, "odd", odd)
    shapes = ("--shape", "64,48,80", "--workload", "odd", "--dtype", "float32,float64")
    asked = ("bench", "--peers", "--rounds", 1, "--case-seconds", 0,
             "--threads", 1, "-o", path, *shapes)  # fmt: skip
    status, _, err = run(capsys, *asked, "--time-budget", 1e-9)
    assert status == INCOMPLETE
    assert "the same command resumes it" in err
    assert not path.exists()
    status, out, err = run(capsys, *asked)
    assert status == 0
    assert "ratios are undecided, or from fewer than 5 pairs" in err
    assert "fastest, given, float32: " in out
    for word in ("falcon classical", "it over numpy", "64 x 48 x 80", "float64"):
        assert word in out
    assert not (tmp_path / "x.json.part").exists()
    found = records.read(path)
    assert len(found["sessions"]) == 2
    assert {x["rounds"] for x in found["cases"]} == {1}
    assert all(side["correct"] for x in found["cases"] for side in x["sides"].values())
    import jsonschema

    jsonschema.validate(found, records.schema())
    status, _, err = run(capsys, *asked)
    assert status == 0
    assert "is complete; delete it to measure again" in err
    path.unlink()
    asked = [x if x != "--peers" else "--quick" for x in asked]
    status, _, err = run(capsys, *asked, "--time-budget", 1e-9)
    assert (status, len(records.read(path)["cases"])) == (INCOMPLETE, 1)
    assert "are left out" in err and "resumes" not in err
    assert not (tmp_path / "x.json.part").exists()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("how", [(), ("--peers",)])
def test_batches(capsys, monkeypatch, how):
    shapes = [Shape.of_batch(9, 8, 7, 5), Shape.of_batch(9, 8, 7, 5, "ab")]
    monkeypatch.setitem(WORKLOADS, "batches", replace(WORKLOADS["batches"], shapes=shapes))
    status, out, _ = run(capsys, "bench", *how, "--workload", "batches", "--json",
                         "--rounds", 1, "--case-seconds", 0)  # fmt: skip
    assert status == 0
    cases = json.loads(out)["cases"]
    assert [x["label"] for x in cases] == [x.label for x in shapes] * 2
    assert len({x["key"] for x in cases}) == 4
    for x in cases:
        assert list(x["sides"]) == ["falcon", "falcon classical", "numpy"]
        assert all(side["correct"] for side in x["sides"].values())
        side = x["sides"]["numpy"]
        assert side["gflops"] == pytest.approx(5 * 2 * 9 * 8 * 7 / side["median"] / 1e9, abs=0.01)


@pytest.mark.usefixtures("small")
def test_a_wrong_result_is_an_error(capsys, monkeypatch):
    monkeypatch.setattr(records, "wrong_beyond", lambda *x: 0.0)
    asked = ("bench", "--peers", "--rounds", 1, "--shape", "9,8,7", "--json",
             "--case-seconds", 0)  # fmt: skip
    status, out, err = run(capsys, *asked)
    assert status == 1
    assert "WRONG RESULT: falcon" in err
    assert json.loads(out)["format"] == records.FORMAT


@pytest.mark.usefixtures("small")
def test_list_peers(capsys, monkeypatch, doors):
    nobody = LIBRARIES["numpy"]  # of which a worker does not know
    monkeypatch.setitem(LIBRARIES, "nobody", nobody)
    absent = peers.Peer("nobody", "nobody")
    doors.peers((*peers.TABLE[:1], absent))
    status, out, _ = run(capsys, "bench", "--list-peers")
    assert status == 0
    lines = out.splitlines()
    assert lines[1].split()[0] == "falcon"
    assert "absent: nobody: KeyError" in lines[3]
    status, out, _ = run(capsys, "bench", "--list-peers", "--json")
    assert [x["peer"] for x in json.loads(out)] == ["falcon", "numpy", "nobody"]


def test_layers_are_measured_for_few_and_many_rows(capsys):
    for more, rows in (((), ["512", "2048"]), (("--tokens", "64"), ["64"])):
        asked = ("bench", "--model", "Qwen2.5-7B", "--max-gib", "1e-9", *more)
        _, _, err = run(capsys, *asked)
        skipped = [x.split(" x ")[0].split()[-1] for x in err.splitlines() if "skipped" in x]
        assert list(dict.fromkeys(skipped)) == rows
        assert "no shape is left to measure" in err


def test_workloads():
    for name, workload in WORKLOADS.items():
        shapes = workload.shapes
        assert len(shapes) == len(set(shapes)) > 1
        assert set(workload.dtypes) <= {"float32", "float64"}
        if name == "llm":
            assert {x.label.split()[0] for x in shapes} == {"Qwen2.5-7B", "Llama-3.1-8B"}
            assert not any("lm_head" in x.label for x in shapes)
    assert Shape(8192, 8192, 8192) in WORKLOADS["squares"].shapes


def test_the_peak(capsys, monkeypatch, doors):
    found = [Peak("float32", "avx2", 2, 123.45)]
    monkeypatch.setattr("falcon._cpu.peak.measure", lambda threads: found)
    _, out, _ = run(capsys, "bench", "--peak", "--threads", "2")
    assert out.splitlines()[1].split() == ["avx2", "float32", "2", "123.5"]
    found.clear()
    doors.without("cpu", "not compiled")
    status, out, err = run(capsys, "bench", "--peak")
    assert (status, out) == (2, "")
    assert "--peak needs falcon's own kernels: not compiled" in err


def test_the_classical_side_is_falcons_own_kernels(capsys):
    """Where "auto" would call NumPy's product for the classical algorithm, too."""
    pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
    (found,) = json.loads(run(capsys, "bench", "40,30,20", "--rounds", 1, "--json")[1])["cases"]
    assert found["sides"]["falcon classical"]["plan"]["backend"] == "cpu"
    assert own_classical({"backend": "numpy"}, ["float32"])["backend"] == "numpy"


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_numpy_has_the_threads_of_the_comparison(capsys, doors, dtype):
    """Whatever number its BLAS usually has; loops for integers have one."""
    usual = 16
    count = [usual]
    blas = threads.Blas(lambda: count[0], lambda x: count.__setitem__(0, x), {})
    doors.peers(library=blas)
    seen = doors.watched(np, "matmul", seen=lambda *_, **__: count[0])
    asked = "bench", "40,30,20", "--threads", 1, "--rounds", 1, "--json", "--dtype", dtype
    status, out, err = run(capsys, *asked)
    (case,) = json.loads(out)["cases"]
    assert status == 0 and "not all sides" not in err
    assert seen and {*seen} == {1}
    assert {name: x["threads"] for name, x in case["sides"].items()} == dict.fromkeys(
        ("falcon", "falcon classical", "numpy"), 1
    )
    assert count == [usual]


def test_all_of_falcons_products_have_the_threads_of_the_comparison(capsys, doors):
    seen = doors.watched(falcon, "gemm", seen=lambda *_, threads, **__: threads)
    asked = "bench", "40,30,20", "--modulus", 1009, "--threads", 1, "--rounds", 1, "--json"
    status, out, _ = run(capsys, *asked)
    sides = json.loads(out)["cases"][0]["sides"]
    assert status == 0 and {*seen} == {1}
    assert sides["numpy int64"]["kernel"] == "NumPy's loops"


def test_products_modulo_a_number(capsys):
    status, out, _ = run(capsys, "bench", "40", "50", "60", "--modulus", "1009", "--json")
    case = json.loads(out)["cases"][0]
    assert status == 0
    assert case["dtype"] == "int64"
    assert {"falcon", "numpy int64", "falcon float64"} <= case["sides"].keys()
    assert all(x["error"] == 0 for x in case["sides"].values())
    status, _, err = run(capsys, "bench", "40", "50", "60", "--modulus", "1009", "--peers")
    assert status != 0 and "--modulus does not go with --peers" in err
