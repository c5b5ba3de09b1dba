"""The command line: what it prints, what it returns, and how it says that an argument is wrong."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import falcon
from falcon.__main__ import main
from falcon._core.options import PLANNING, TUNING
from falcon._tools.timing import Record
from falcon.bench import workloads
from falcon.decision import MachineProfile
from falcon.decision.store import Choice, Fastest

from ..support import ROOT, python
from .support import run

# --- info -----------------------------------------------------------------------------------


def test_info(capsys):
    status, out, err = run(capsys, "info")
    assert (status, err) == (0, "")
    for word in ("falcon", "Python", "CPU", "backends", "numpy kernels", "gpu", "arithmetic"):
        assert word in out


def test_info_of_choices(capsys, monkeypatch):
    """They are named, and where rates come from."""
    stored = Fastest("one", Choice("cpu"), "measured")
    monkeypatch.setattr(
        "falcon._front.info.profile", lambda _: MachineProfile(choices={"0": stored})
    )
    for name in [x for x in os.environ if x.startswith("FALCON_")]:
        monkeypatch.delenv(name)
    out = run(capsys, "info")[1]
    assert "classical on cpu (measured)" in out
    assert "cpu float32" in out and "ecorded on" in out
    assert out.endswith("environment: none\n")


def test_info_json(capsys):
    status, out, _ = run(capsys, "info", "--json")
    assert status == 0
    found = json.loads(out)
    assert found["falcon"] == falcon.__version__
    assert found["backends"]["numpy"] == "available"


# --- plan -----------------------------------------------------------------------------------


def test_plan(capsys):
    status, out, _ = run(capsys, "plan", 100, 200, 300)
    assert status == 0
    assert "100 x 300 @ 300 x 200 float32: classical" in out
    assert "too small for any LCMA" in out


def test_plan_options(capsys):
    options = ["--dtype", "float64", "--scheme", "winograd", "--backend", "numpy", "--threads", 1]
    status, out, _ = run(capsys, "plan", 100, 200, 300, *options, "--workspace-limit", "1MiB")
    assert status == 0
    assert "float64: winograd on backend numpy" in out
    assert "2.65 x classical RMS error" in out


def test_every_planning_option_is_a_flag(capsys):
    for command, names in (("plan", PLANNING), ("bench", PLANNING), ("tune", TUNING)):
        usage = run(capsys, command, "--help")[1]
        assert all(f"--{name.replace('_', '-')} " in usage for name in names)
    tuned = run(capsys, "tune", "--shape", "64,64,64", "--arithmetic", "native", "--rounds", 1)
    assert (tuned[0], "64 x 64 @ 64 x 64 float32: " in tuned[1]) == (0, True)


def test_plan_compares_a_scheme_by_name(capsys):
    arguments = (200, 200, 200, "--scheme", "winograd", "--backend", "numpy", "--rounds", 1)
    status, out, err = run(capsys, "plan", *arguments, "--compare")
    assert status == 0
    assert "candidates in turn, 1 rounds or more: about 10 s\n" in err
    head, *lines = (x.split() for x in out.rpartition("\n\n")[2].splitlines())
    assert head[-3:] == ["that", "of", "winograd"]
    assert lines[0][:2] == ["winograd", "numpy"] and "1.000" in lines[0]
    assert ["strassen", "numpy"] in [x[:2] for x in lines]
    assert ["classical", "numpy"] in [x[:2] for x in lines]
    assert all(x[2] != "-" for x in lines)
    assert "no candidates were compared" not in out


def test_plan_says_why_a_disturbed_machine_decides_nothing(capsys, doors):
    why = "this process had 10% of a CPU"
    doors.turns(lambda sides, *_, **__: [Record(x.name, (1.0 + i,) * 5, why)
                                         for i, x in enumerate(sides)])  # fmt: skip
    _, out, _ = run(capsys, "plan", 200, 200, 200, "--backend", "numpy", "--compare")
    again = "run it again when the machine is quiet"
    assert out.endswith(f"\nundecided: other programs disturbed it ({why}); {again}\n")
    assert "faster" not in out.rpartition("interleaved rounds")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-1", "2", "3"], "expected three integers >= 0, M,N,K"),
        (["1", "2", "3", "--dtype", "float99"], "--dtype 'float99': data type 'float99' not und"),
        (["1", "2", "3", "--dtype", "object"], "expected integers, floats or complex"),
        (["1", "2", "3", "--scheme", "nonsense"], "there is no scheme 'nonsense'"),
        (["1", "2", "3", "--backend", "gpu"], "backend 'gpu' is not available"),
        (["1000000000"] * 3, "expected sizes below 10^9"),
        (["1", "2"], "'1 2': expected M N K, or shapes such as 2048,2048,2048"),
        (["1", "2", "y"], "shape '1 2 y': expected three integers >= 0, M,N,K"),
        (["1,2,3", "4,5,6"], "2 shapes were given; plan takes one"),
        (["64", "64", "64", "--scheme", "strassen", "--workspace-limit", "9"], "workspace_limit"),
    ],
)
def test_plan_refuses(capsys, arguments, message):
    status, out, err = run(capsys, "plan", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("falcon plan: ")
    assert message in err


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["plan"], ["plan", "1", "2", "3", "--workspace-limit", "much"],
     ["bench", "--rounds", "x"], ["info", "--nonsense"], ["plan", "1", "2", "3", "--threads", "0"]],
)  # fmt: skip
def test_usage_errors(capsys, arguments):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert "usage: python -m falcon" in err


def test_numbers_that_are_none_are_named(capsys):
    for flag, message in (
        (("--threads", "1,2"), "threads is '1,2'; expected an integer"),
        (("--max-growth", "x"), "max_growth is 'x'; expected a number"),
        (("--workspace-limit", "much"), "workspace_limit is 'much'; expected a number of bytes"),
    ):
        status, _, err = run(capsys, "plan", 9, 9, 9, *flag)
        assert status == 2 and message in err


def test_an_unknown_option_shows_the_command_and_the_nearest(capsys):
    status, _, err = run(capsys, "schemes", "--compere", "strassen")
    assert status == 2
    assert err.startswith("usage: python -m falcon schemes [-h]")
    assert "unrecognized arguments: --compere (did you mean '--compare'?)" in err


@pytest.mark.parametrize(
    ("words", "meant"),
    [("bnch", "'bench'"), ("bench --workload squaers", "'squares'"), ("xyzzy", None)],
)
def test_an_unknown_word_gets_the_nearest(capsys, words, meant):
    status, _, err = run(capsys, *words.split())
    assert status == 2 and f"invalid choice: {words.split()[-1]!r} (choose from" in err
    assert err.endswith(")\n" if meant is None else f") (did you mean {meant}?)\n")
    assert meant is not None or "did you mean" not in err


def test_version_and_help(capsys):
    assert run(capsys, "--version")[:2] == (0, f"falcon {falcon.__version__}\n")
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for command in ("info", "schemes", "plan", "bench"):
        assert command in out
        assert run(capsys, command, "--help")[0] == 0


def test_verbose_logs_every_plan(capsys, caplog):
    assert run(capsys, "plan", 101, 203, 307)[0] == 0
    assert not caplog.records
    assert run(capsys, "-v", "plan", 101, 203, 308)[0] == 0
    assert "101 x 308 @ 308 x 203 float32: classical" in caplog.text


# --- bench ----------------------------------------------------------------------------------


def test_bench_says_what_it_runs(capsys, monkeypatch):
    small = workloads.Workload([workloads.Shape(9, 9, 9)], ["float32"])
    monkeypatch.setitem(workloads.WORKLOADS, "cpu", small)
    err = run(capsys, "bench", "--rounds", 1, "--case-seconds", 0)[2]
    assert err.startswith("no shape given: 1 shapes of language models; one shape, such as ")


TINY = ("--shape", "40,30,20", "--shape", "17x5x9", "--rounds", 1, "--case-seconds", 0)


@pytest.mark.parametrize(
    ("dtype", "scheme"),
    [("float32", "auto"), ("float64", "strassen"), ("uint8", "strassen"), ("complex64", "auto"),
     ("float16", "auto")],
)  # fmt: skip
def test_bench(capsys, dtype, scheme):
    status, out, err = run(capsys, "bench", *TINY, "--dtype", dtype, "--scheme", scheme, "--json")
    assert status == 0
    assert "ratios are undecided" in err  # of one round
    found = json.loads(out)
    assert found["machine"]["numpy"] == np.__version__
    assert [(x["M"], x["N"], x["K"]) for x in found["cases"]] == [(40, 30, 20), (17, 5, 9)]
    for case in found["cases"]:
        assert case["dtype"] == dtype
        sides = case["sides"]
        chosen = "classical" if scheme == "auto" else "strassen"
        assert sides["falcon"]["plan"]["scheme"] == chosen
        assert case["speedups"]["numpy"]["median"] > 0
        limit = {"float16": 1e-2, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-14}
        for side in ("falcon", "falcon classical", "numpy"):
            assert sides[side]["correct"]
            assert 0 <= sides[side]["error"] <= limit.get(dtype, 0)


def test_bench_table(capsys):
    status, out, _ = run(capsys, "bench", *TINY, "-v")
    assert status == 0
    assert "40 x 30 x 20" in out
    assert "17 x 5 x 9" in out
    assert "geometric mean\n" in out
    assert "confidence interval" in out


def test_bench_is_bounded(capsys):
    options = ("--rounds", 1000, "--time-budget", 1e-9, "--json")
    status, out, err = run(capsys, "bench", *TINY, *options)
    assert (status, [x["rounds"] for x in json.loads(out)["cases"]]) == (3, [1])
    assert "to end in 1e-09 s (--time-budget): 1 of 2 cases have fewer rounds" in err
    assert "; 1 are left out" in " ".join(err.split())
    assert "time-budget" not in run(capsys, "bench", *TINY)[2]


def test_bench_models(capsys, monkeypatch):
    monkeypatch.setattr(
        workloads, "model_shapes", lambda name, tokens: [workloads.Shape(tokens, 8, 8, name)]
    )
    options = ("--model", "one", "--model", "two", "--tokens", "12,13", "--rounds", 1)
    status, out, _ = run(capsys, "bench", *options, "--case-seconds", 0, "-v")
    assert status == 0
    assert "one, 12 x 8 x 8 float32" in out
    assert "two, 13 x 8 x 8" in out
    assert out.count("  falcon packed  ") == 4  # of one pair there is no mean
    assert "MiB taken" in out


def test_bench_skips_what_is_too_large(capsys):
    options = ("--max-gib", "0.001", "--rounds", 1, "--json")
    status, out, err = run(
        capsys, "bench", "--shape", "9,9,9", "--shape", "100000,100000,9", *options
    )
    assert status == 0
    assert "skipped shape 100000 x 100000 x 9: about" in err
    assert len(json.loads(out)["cases"]) == 1
    status, out, err = run(capsys, "bench", "--shape", "100000,100000,9", *options)
    assert (status, out) == (2, "")
    assert "no shape is left to measure" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "1,2"], "shape '1,2': expected three positive integers"),
        (["--model", "GPT-0"], "there is no model 'GPT-0'; known: "),
        (["--tokens", "0"], "--tokens '0': expected positive integers"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--time-budget", "nan"], "--time-budget must be more than 0"),
        (["--shape", "8,8,8", "--dtype", "bool"], "dtype bool"),
        (["--peers", "--dtype", "float32,what"], "--dtype 'what': data type 'what' not understood"),
        (
            [*map(str, TINY), "--dtype", "float16", "--scheme", "strassen", "--backend", "numpy"],
            "scheme 'strassen' cannot multiply",
        ),
    ],
)
def test_bench_refuses(capsys, arguments, message):
    status, out, err = run(capsys, "bench", *arguments)
    assert (status, out) == (2, "")
    assert "falcon bench: " in err
    assert message in err


# --- pipes and processes --------------------------------------------------------------------


def test_interrupt(monkeypatch, capsys):
    def interrupted(mode):
        raise KeyboardInterrupt

    monkeypatch.setattr(falcon, "show_config", interrupted)
    assert main(["info", "--json"]) == 130
    assert capsys.readouterr().err == "falcon info: interrupted\n"
    monkeypatch.setattr(falcon, "tune", lambda *_, **__: interrupted(""))
    assert main(["tune", "--shape", "8,8,8"]) == 130
    said = "falcon tune: interrupted; what was measured until now is stored\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("by", [None, signal.SIGTERM])
def test_interrupted_measurements_are_shown(monkeypatch, capsys, by):
    from falcon.bench.in_process import BesideNumpy

    sides, calls = BesideNumpy.sides, []

    def once(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            if by is None:  # SIGINT may be ignored here
                raise KeyboardInterrupt
            signal.raise_signal(by)
        return sides(*arguments)

    monkeypatch.setattr(BesideNumpy, "sides", once)
    status, out, err = run(capsys, "bench", "8,8,8", "9,9,9", "7,7,7", "--rounds", 1)
    assert status == 130
    assert "8x8x8" in out and "9x9x9" not in out
    assert "stopped: 1 of 3 cases are complete" in err


def without_progress(said):
    """Leave out what a process says on a busy machine, where it takes more than five seconds."""
    return "".join(x for x in said.splitlines(keepends=True) if not x.startswith("["))


def test_as_a_process(tmp_path):
    done = python("-m", "falcon", "schemes", "2x2x2", where={"cwd": tmp_path})
    assert without_progress(done.stderr) == ""
    assert "winograd" in done.stdout
    done = python("-m", "falcon", "plan", 0, 0, 0, status=2, FALCON_MAX_GROWTH="lots")
    assert "environment variable FALCON_MAX_GROWTH='lots'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes differ on Windows")
def test_reader_that_leaves_early(tmp_path):
    """As in ``python -m falcon schemes | head -0``: no traceback, neither now nor at exit."""
    process = subprocess.Popen(
        [sys.executable, "-m", "falcon", "schemes", "--show", "5x5x5:93"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), without_progress(errors)) == (0, "")
