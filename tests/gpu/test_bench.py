"""`bench --device cuda` and the study of stages on the stand-in: what is kept as it is done.

Times mean nothing there, but the bytes and operations of the rates do.
"""

import importlib
import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon.bench import gpu, records
from falcon.bench.run import INCOMPLETE
from falcon.bench.workloads import Case, Shape
from falcon.codegen.cuda_plan import products

from ..cli.support import run as command
from .support import on_device, whole


@pytest.fixture(autouse=True)
def small(cupy):
    """The stand-in is measured by small products."""


@pytest.fixture
def gpu_stages(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "studies"))
    return importlib.import_module("gpu_stages")


def run(capsys, *arguments):
    return command(capsys, "bench", "--device", "cuda", *arguments)


def test_a_run_stops_and_goes_on(capsys, tmp_path, doors):
    path, part = tmp_path / "day.json", tmp_path / "day.json.part"
    asked = ("--shape", "48,40,56", "--shape", "32,32,32", "--dtype", "float32,bfloat16",
             "--rounds", 1, "--case-seconds", 0, "--scheme", "strassen", "-o", path)  # fmt: skip
    cases = [f"given {x} {y}" for x in ("48x40x56", "32x32x32") for y in ("float32", "bfloat16")]
    machine = gpu.describe_machine()
    for done in range(1, 4):  # a case at a time, each on another host with such a GPU
        host = {**machine, "system": f"Linux {done}", "memory": done, "cpu": "another"}
        doors.peers(machine=host)
        status, out, err = run(capsys, *asked, "--time-budget", 1e-9)
        assert status == INCOMPLETE, err
        assert "the same command resumes it" in err
        assert not path.exists()
        kept = json.loads(part.read_text())["document"]["cases"]
        assert [x["key"] for x in kept] == cases[:done]
        assert out.startswith("device Stand-in, driver 13000, cupy 14.2.0")
    status, out, _ = run(capsys, *asked)
    assert status == 0
    assert not part.exists()
    for x in ("it over cublas", "MiB taken", "48 x 40 x 56"):
        assert x in out
    found = records.read(path)
    assert [x["key"] for x in found["cases"]] == cases
    sides = found["cases"][0]["sides"]
    assert set(sides) == {"falcon", "falcon packed", "falcon classical", "cublas"}
    assert set(found["cases"][2]["sides"]) == {*sides, "falcon gram"}
    assert all(0 < x["error"] < 1e-5 for x in sides.values())
    assert [sides[x]["plan"]["scheme"] for x in ("falcon", "falcon packed")] == ["strassen"] * 2
    assert found["machine"]["gpu"]["device"] == "Stand-in"
    status, out, err = run(capsys, *asked)
    assert "is complete; delete it to measure again" in err
    assert "it over cublas" in out
    pytest.importorskip("jsonschema").validate(found, records.schema())


def test_complex(capsys, cupy, tmp_path, monkeypatch):
    def matmul(a, b, out):
        np.matmul(a._host, b._host, out=out._host)

    monkeypatch.setattr(cupy, "matmul", matmul, raising=False)
    path = tmp_path / "day.json"
    asked = ("32", "32", "32", "--dtype", "complex64", "--rounds", 1, "--case-seconds", 0)
    assert run(capsys, *asked, "-o", path)[0] == 0
    sides = records.read(path)["cases"][0]["sides"]
    assert set(sides) == {"falcon", "falcon packed", "falcon classical", "cublas", "falcon gram"}
    assert all(0 < x["error"] < 1e-5 for x in sides.values())


def test_settings_of_cublas_are_recorded(monkeypatch):
    monkeypatch.setenv("CUBLAS_EMULATE_SINGLE_PRECISION", "1")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    nothing = dict.fromkeys(("shape", "model", "dtype", "workload"))
    options = Namespace(sizes=["8,8,8"], threads=1, rounds=1, case_seconds=0, **nothing)
    found = gpu.OnGpu(options, dict.fromkeys(gpu._OPTIONS)).machine()["gpu"]
    assert found["device"] == "Stand-in"
    assert (found["CUBLAS_EMULATE_SINGLE_PRECISION"], found["NVIDIA_TF32_OVERRIDE"]) == ("1", "0")
    options.sizes, options.workload = [], ["batches"]
    with pytest.raises(ValueError, match=r"--device cuda takes no batches .*; expected matrices"):
        gpu.OnGpu(options, dict.fromkeys(gpu._OPTIONS))


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_case_that_fails_is_the_last(capsys, tmp_path, monkeypatch, is_lost):
    """It stops no other, unless the device is lost."""
    path, operands, seen = tmp_path / "day.json", gpu.operands, []
    asked = ("--shape", "32,32,32", "--dtype", "float32,float64", "--rounds", 1,
             "--case-seconds", 0, "-o", path)  # fmt: skip

    def failing(shape, dtype, seed):
        seen.append(dtype.name)
        if len(seen) == 1:
            raise MemoryError("out of memory")
        return operands(shape, dtype, seed)

    monkeypatch.setattr(gpu, "operands", failing)
    monkeypatch.setattr(gpu.device, "is_lost", lambda: is_lost)
    status, _, err = run(capsys, *asked)
    assert status == 1
    assert "given 32x32x32 float32 failed: out of memory" in err
    status, _, err = run(capsys, "--shape", "9,9,9", "-o", path)
    assert (status, "was begun with other cases" in err) == (2, True)
    assert run(capsys, *asked)[0] == 0
    assert seen == ["float32", "float64", "float32"]
    assert {x["dtype"] for x in records.read(path)["cases"]} == {"float32", "float64"}


# --- the study of stages --------------------------------------------------------------------


def test_the_study_goes_on(gpu_stages, cupy, capsys, tmp_path, monkeypatch):
    path = tmp_path / "stages.json"
    asked = ["48,40,56", "32,32,32", "--dtype", "float32", "-o", str(path)]
    assert gpu_stages.main([*asked, "--time-budget", "-1"]) == INCOMPLETE
    assert len(json.loads(path.read_text())) == 2
    stages, seen, lost = gpu_stages.stages, [], [RuntimeError("lost")]

    def once(case, *rest):
        seen.append(case.shape.M)
        if lost:
            raise lost.pop()
        return stages(case, *rest)

    monkeypatch.setattr(gpu_stages, "stages", once)
    monkeypatch.setattr(gpu_stages.device, "is_lost", lambda: True)
    assert [gpu_stages.main(["16,16,16", *asked]) for _ in range(2)] == [INCOMPLETE, 0]
    assert seen == [16, 32, 16]  # ended at once, then the last
    found = json.loads(path.read_text())
    assert len(found.pop("failed")) == 1
    del found["given 16x16x16 float32 auto"]
    assert [x["scheme"] for x in found.values()] == ["strassen"] * 2  # "auto" takes none there
    assert capsys.readouterr().out.count("combine  ") == 3
    assert gpu_stages.main([*asked, "--uneven"]) == 0
    assert "given 32x32x32 float32 auto uneven" in json.loads(path.read_text())


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("scheme", ["strassen", "3x4x4:38"])
def test_work_is_what_is_read_and_written(dtype, scheme, gpu_stages):
    """The bytes and operations that rates are made of."""
    size = 4096 if scheme == "strassen" else 3072  # a multiple of every format
    plan = falcon.plan((size, size), (size, size), dtype, backend="gpu", scheme=scheme)
    (m, k, n), rank, row = plan.scheme.format, plan.scheme.rank, dtype_of(dtype)
    item, sums = row.itemsize, row.accumulator.itemsize
    assert gpu_stages.work_of(plan) == pytest.approx({
        "norms": 2 * size**2 * item,
        "combine": size**2 * item * (2 + rank / (m * k) + rank / (k * n)),
        "multiply": 2 * size**3 * rank / (m * k * n),
        "combine H": size**2 * (item + products(plan.scheme).planes * sums / (m * n)),
    }, rel=1e-9)  # fmt: skip


def test_stages_are_those_of_the_call(gpu_stages, cupy, state, monkeypatch, capsys):
    """Each is timed by itself; together they are what a call starts."""
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    out = cupy.empty((64, 64), np.float32)
    timed = []

    def once(call):
        before = list(state.launches), len(state.products)
        call()
        timed.append((state.launches[len(before[0]) :], len(state.products) - before[1]))
        return 1e-3

    monkeypatch.setattr(gpu_stages, "seconds_per_call", once)
    case = Case("given", Shape(64, 64, 64), "float32")
    found = gpu_stages.measure(case, a, b, out, {"scheme": "strassen"})
    stages = ["norms", "combine", "multiply", "combine H", "repair"]
    assert list(found["stages"]) == stages
    *stages, classical, total, copy = timed
    assert classical == ([], 1)
    assert copy == ([], 0)
    assert sum(count for _, count in stages) == total[1] == 1
    assert sorted(x for names, _ in stages for x in names) == sorted(total[0])
    np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(a) @ cupy.asnumpy(b))
    gpu_stages.table(found)
    text = capsys.readouterr().out
    assert "1.000 of cuBLAS (1.000 ms" in text
    rate = 8 * 64 * 64 * (1 + 7 / 4) / 1e-3 / 1e9
    (line,) = (x for x in text.splitlines() if x.startswith("combine  "))
    assert f"{rate:.1f} GB/s" in line
    assert "1.00 of copy" in line
    assert "0.88 of cuBLAS" in text  # seven products of eighths in the time of the whole
