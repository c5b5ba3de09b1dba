"""The commands of `day.py` for a GPU: they can be resumed, and their tests run on the stand-in."""

import inspect
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from falcon.__main__ import main as command
from falcon.bench.run import INCOMPLETE, Run

from . import day, test_on_gpu, without_pools

ROOT = Path(__file__).parents[2]
SOME = """
import time
def test_one(): time.sleep(0.3)
def test_two(): assert False, "the reason"
def test_three(): pass
"""


def run_pieces(folder, *arguments, some=SOME):
    (folder / "test_some.py").write_text(some)
    (folder / "pytest.ini").write_text("[pytest]\n")
    record = folder / "record.jsonl"
    plugin = "-p", "tests.gpu.pieces", "-c", folder / "pytest.ini", "--rootdir", folder
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, folder, "--record", record, *arguments],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    lines = [json.loads(x) for x in record.read_text().splitlines()]
    return done, [(x["test"].split("::")[1], x["outcome"]) for x in lines], lines


def test_tests_are_recorded_one_by_one_and_go_on(tmp_path):
    done, found, lines = run_pieces(tmp_path, "--budget", "0.1")
    assert found == [("test_one", "passed")]
    assert lines[0]["seconds"] >= 0.3
    assert "the time is up" in done.stdout
    assert done.returncode != 0
    done, found, lines = run_pieces(tmp_path)
    assert found[1:] == [("test_two", "failed"), ("test_three", "passed")]
    assert "the reason" in lines[1]["why"]
    done, found, _ = run_pieces(tmp_path)
    assert found[3:] == [("test_two", "failed")]
    assert done.returncode == 1
    done, found, _ = run_pieces(tmp_path, some=SOME.replace('assert False, "the reason"', "pass"))
    assert found[4:] == [("test_two", "passed")]
    assert [run_pieces(tmp_path)[0].returncode, done.returncode] == [0, 0]  # nothing is left


def test_what_failed_is_the_last_and_skipped_is_not_passed(tmp_path):
    lost = """
import sys, types
def lose(): raise RuntimeError("cudaErrorIllegalAddress")
runtime = types.SimpleNamespace(deviceSynchronize=lose)
sys.modules["cupy"] = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
def test_one(): assert False
def test_two(): pass
"""
    done, found, _ = run_pieces(tmp_path, some=lost)
    assert found == [("test_one", "failed")] and "the device is lost" in done.stdout
    _, found, _ = run_pieces(tmp_path, some=lost)
    assert found[1:] == [("test_two", "passed"), ("test_one", "failed")]
    skipped = "import pytest\n@pytest.mark.skip\ndef test_skipped(): pass"
    (tmp_path / "record.jsonl").unlink()
    assert run_pieces(tmp_path, some=skipped)[0].returncode == 1


def python(code):
    return [sys.executable, "-c", code]


def test_the_parts_of_the_day_go_on(tmp_path, monkeypatch, capsys):
    folder, other = tmp_path / "day", tmp_path / "other"
    wait = python("import sys; print('waited', sys.argv[1:]); sys.exit(3)")
    cached = "import os; os.makedirs(os.environ['CUPY_CACHE_DIR']); print('fine')"
    there = "import os; os.rmdir(os.environ['CUPY_CACHE_DIR']); print('fine')"
    made = [
        day.Part("first", python(cached), 9),
        day.Part("second", wait, 7, "--seconds", proof="waited"),
    ]
    monkeypatch.setattr(day, "parts", lambda folder: made)
    assert day.main([str(folder)]) == INCOMPLETE
    captured = capsys.readouterr()
    assert "second: not complete\nthe same command goes on" in captured.err
    assert captured.out.count("waited ['--seconds', '7']") == day._ROUNDS
    with tarfile.open(f"{folder}.tar.gz") as archive:
        assert not any("caches" in x for x in archive.getnames())
    made[1] = day.Part("second", python(there), 7)
    assert day.main([str(folder), "--budget", "59"]) == INCOMPLETE  # too late to begin a part
    # On another machine: results and caches come from the archive.
    assert day.main([str(other), "--state", f"{folder}.tar.gz"]) == 0
    assert (other / "first.txt").read_text() == "fine\n"
    waited = "waited ['--seconds', '7']\n" * day._ROUNDS
    assert (other / "second.txt").read_text() == f"{waited}fine\n"
    assert day.main([str(other)]) == 0


def test_a_tool_that_refuses_is_skipped_and_a_part_is_ended_in_time(tmp_path):
    def outcome(code, left=60, **how):
        return day.run(day.Part("some", python(f"import subprocess, sys; {code}"), 9, **how),
                       tmp_path, 9, left)  # fmt: skip

    assert outcome("sys.exit(255)", proof="SUMMARY") == "skipped: the tool did not run"
    assert outcome("print('SUMMARY: 1 error'); sys.exit(1)", proof="SUMMARY") == "not complete"
    assert outcome("sys.exit(1)") == "not complete"
    start = time.monotonic()  # the tool's own child holds the pipe, as with compute-sanitizer
    assert outcome("subprocess.run(['sleep', '60'])", 0.5, proof="SUMMARY") == "not complete"
    assert time.monotonic() - start < 5


def test_parts_find_this_falcon_and_keep_their_time(tmp_path, monkeypatch, capsys):
    script = tmp_path / "script.py"  # its folder is the first of the path
    script.write_text("import tests.gpu.day; print('found')")
    wait = python("import time; time.sleep(60)")
    made = [day.Part("script", [sys.executable, script], 60), day.Part("slow", wait, 0.5),
            day.Part("tool", ["no-such-tool"], 9)]  # fmt: skip
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(day, "parts", lambda folder: made)
    monkeypatch.chdir(tmp_path)
    start = time.monotonic()
    assert day.main(["day"]) == INCOMPLETE
    assert time.monotonic() - start < 30
    captured = capsys.readouterr()
    assert "found" in captured.out
    assert "slow: not complete\ntool: skipped: no-such-tool is not in PATH" in captured.err


def test_the_sanitizers_part_has_no_pools(cupy, monkeypatch):
    set_to = {}
    for name in ("set_allocator", "set_pinned_memory_allocator"):
        monkeypatch.setattr(cupy.cuda, name, lambda x, name=name: set_to.update({name: x}))
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "")
    without_pools.pytest_configure()
    assert set_to == {"set_allocator": None, "set_pinned_memory_allocator": None}
    part = day.parts(Path("x"))[-1]
    assert part.name == "sanitizer"
    assert "tests.gpu.without_pools" in part.command and part.proof


def test_the_commands_of_the_day(cupy, tmp_path, monkeypatch, capsys):
    """The benchmarks and the tests that it names are there."""
    cases = []
    monkeypatch.setattr(Run, "measure", lambda kept, _: cases.extend(kept.what.cases))
    named = {part.name: part for part in day.parts(tmp_path)}
    assert command([str(x) for x in named["bench"].command[3:]] + ["--time-budget", "9"]) == (
        INCOMPLETE
    )
    assert len(cases) == 4 * (3 + 9)
    assert len({case.shape for case in cases[:12]}) == 3  # squares of all types are the first
    study, *shapes = (str(x) for x in named["stages"].command[1:4])
    assert Path(study).exists() and shapes == ["4096,4096,4096", "8192,8192,8192"]
    tests = next(x for x in day.parts(tmp_path) if x.name == "tests").command
    done = subprocess.run([str(x) for x in tests] + ["--collect-only", "-q"], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert "test_matches_the_reference" in done.stdout
    assert "whole_catalogue" not in done.stdout


# What the stand-in lacks: a graph that is launched, a real allocator, torch, 40 GiB.
BEYOND = {"test_capture", "test_torch", "test_more_than_two_to_the_31_elements",
          "test_random_data_and_packed_weights", "test_whole_catalogue"}  # fmt: skip
NAMES = [name for name, _ in inspect.getmembers(test_on_gpu, inspect.isfunction)
         if name.startswith("test_") and name not in BEYOND]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_runs_on_a_gpu_runs_on_the_stand_in(cupy, monkeypatch, name):
    """The tests marked "gpu" themselves: a mistake in them would cost time on a GPU."""
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 2)
    test = getattr(test_on_gpu, name)
    wanted = inspect.signature(test).parameters
    given = {"real": cupy, "dtype": "bfloat16", "name": "strassen", "scheme": "2x4x2:14",
             "arithmetic": "bf16x6"}  # fmt: skip
    test(**{x: given[x] for x in wanted})
