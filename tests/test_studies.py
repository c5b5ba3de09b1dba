"""Every study starts and ends, with its smallest settings; the page of records is up to date.

The one for GPUs is in tests/gpu/test_bench.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Measurements and the words that they print.
SMALL = {
    "beside": (("40,50,60", "--dtype", "float32", "--rounds", "1"),
               ("falcon after 1 ms", "NumPy after falcon", "falcon, one CPU busy")),
    "compare": ((str(ROOT / "docs/benchmarks/xeon_amx/results.json"),) * 2, ("0 of", "changed")),
    "crossover": (("x.json", "--sizes", "64", "--inner", "32", "--dtype", "float32",
                   "--case-seconds", "0"),
                  ("64 32 float32",)),
    "dask_scale": (("--lines", "64", "--chunk", "16", "--workers", "1,4"),
                   ("16 tasks, strassen", "dask's places s", "COSMA GiB")),
    "element_types": (("64", "--rounds", "1"), ("uint8 x int8", "over X: median")),
    "first_call": (("300", "1"), ("fresh plan, ms", "np.matmul, repeated call, ms")),
    "packed_memory": (("--shape", "64,64,64", "--rounds", "1"), ("64x64x64", "gain predicted")),
    "predictions": (("1100x1100x1100", "--threads", "1", "--case-seconds", "0"),
                    ("error of multiply, median",)),
    "regret": (("--shapes", "1", "--dtype", "float32", "--threads", "1", "--no-peers", "--between",
                "--most-flops", "3e7", "--case-seconds", "0"),
               ("regret mean", "over NumPy, worst")),
}  # fmt: skip
NAMES = sorted(x.stem for x in (ROOT / "studies").glob("*.py"))


# No pauses, and the machine is measured in a second, not in ten.
HASTE = """
import time
from falcon._cpu.backend import CpuBackend
from falcon._numpy.backend import NumpyBackend
time.sleep = lambda seconds: None
for x in CpuBackend, NumpyBackend:
    x.measure = lambda self, problem, thorough=False, quick=x.measure: quick(self, problem)
"""


def run(name, *arguments, folder):
    """Run a study in haste; returns what it prints."""
    (folder / "sitecustomize.py").write_text(HASTE)
    command = [sys.executable, ROOT / "studies" / f"{name}.py", *arguments]
    path = os.pathsep.join(map(str, (ROOT, folder)))
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_small_run(name, tmp_path):
    pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
    if name == "dask_scale":
        pytest.importorskip("dask.array")
    arguments, words = SMALL[name]
    out = run(name, *arguments, folder=tmp_path)
    assert [x for x in words if x not in out] == []
    if name == "regret":
        pytest.importorskip("matplotlib")
        (record,) = json.loads((tmp_path / "regret.json").read_text())["records"]
        assert record["regret"] >= 0 and record["library"] == "numpy"
        run(name, *arguments, folder=tmp_path)  # goes on where it was: there is nothing left
        assert json.loads((tmp_path / "regret.json").read_text())["records"] == [record]
        assert (tmp_path / "regret.png").stat().st_size > 1000
    elif name == "crossover":
        pytest.importorskip("matplotlib")
        run(name, "x.json", "--draw", "x.png", folder=tmp_path)
        assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.parametrize("name", sorted({*NAMES} - {*SMALL, "common", "regret_page"}))
def test_it_says_what_it_measures(name):
    """Studies that take minutes at their smallest."""
    command = [sys.executable, "-W", "error", ROOT / "studies" / f"{name}.py", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert f"studies/{name}.py" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_of_machines_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    from regret_page import page

    folder = ROOT / "docs" / "regret"
    assert (folder / "README.md").read_text(encoding="utf-8") == page(folder), (
        "run: python studies/regret.py --page docs/regret"
    )
    assert "zen5" in page(folder)
