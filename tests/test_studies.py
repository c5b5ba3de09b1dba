"""Every study starts and ends, with its smallest settings.

The one for GPUs is in tests/gpu/test_bench.py.
"""

import importlib
import json
import os
import re
from pathlib import Path

import pytest

from falcon._cpu.sources import CODED

from .bench.support import whole_run
from .support import ROOT, python

# Measurements and the words that they print.
SMALL = {
    "beside": (("40,50,60", "--dtype", "float32", "--rounds", "1"),
               ("falcon after 1 ms", "NumPy after falcon", "falcon, one CPU busy")),
    "combines": (("24x100x100", "--rounds", "2", "--schemes", "strassen"),
                 ("interpreted ms", "strassen")),
    "compare": ((str(ROOT / "docs/benchmarks/xeon_amx/results.json"),) * 2, ("0 of", "changed")),
    "costs": (("40x40x40", "--rounds", "2", "--dtype", "float32", "int8"),
              ("check=verify", "overflow=raise")),
    "crossover": (("x.json", "--sizes", "64", "--inner", "32", "--dtype", "float32",
                   "--case-seconds", "0"),
                  ("64 32 float32",)),
    "dask_scale": (("--lines", "64", "--chunk", "16", "--workers", "1,4"),
                   ("16 tasks", "dask's places s", "COSMA GiB")),
    "element_types": (("64", "--rounds", "1"), ("uint8 x int8", "over X: median")),
    "error_budget": (("--products", "4", "--most", "300", "--seed", "1"),
                     ("products, 0 over the error",)),
    "first_call": (("300", "1"), ("fresh plan, ms", "np.matmul, repeated call, ms")),
    "noise": (("40,50,60", "--seconds", "0.1"), ("many short pairs", "of 5")),
    "on_dask": (("512", "256", "384", "--chunk", "128", "--rounds", "1", "--case-seconds", "0"),
                ("  falcon, placed  ", "  dask.array.matmul  ", "moved GiB", "passed")),
    "packed_memory": (("--shape", "64,64,64", "--rounds", "1"), ("64x64x64", "gain predicted")),
    "plans": (("--count", "16"), ("plan 0000 ", "batch 0000 ", "gemm 0000 ", " | again ",
                                  "complex_by_real 0000 ")),
    "predictions": (("1100x1100x1100", "--threads", "1", "--case-seconds", "0"),
                    ("error of multiply, median",)),
    "regret": ((), ("shipped rates", "without this machine's", "FalconGEMM's three rates")),
    "suites": (("numpy-matmul", "--only", "TestMatmul and matrix_matrix_values", "--way", "plain",
                "lowered"), ("| suite | version | passed | lowered |", "| numpy-matmul | ")),
    "units": (("--shape", "60,70,50", "--dtypes", "float32,complex64"),
              ("no units", "a few columns of B")),
    "under_threads": (("--calls", "240", "--seconds", "60"), ("falcon.matmul", "0 / 240")),
    "walk": (("300",), ("_front/gemm.py", "_cpu/backend.py", "a repeated call")),
    "scaling": ((), ("threads", "16384", "float64")),
    "rows": (("--sizes", "64", "--rows", "1", "8", "--rounds", "1"), ("B by rows ms", "float32")),
    "weighted": (("300x40", "--rounds", "1"), ("300 x 40", "over NumPy")),
}  # fmt: skip
SHARED = "common", "drawn", "drawn_others", "figures", "report"
NAMES = sorted(x.stem for x in (ROOT / "studies").glob("*.py"))


def test_the_list_names_every_study():
    listed = re.findall(r"^\| `(\w+)\.py", (ROOT / "studies/README.md").read_text("utf-8"), re.M)
    assert sorted(listed) == NAMES
    assert all(x.stat().st_size < 60_000 for x in (ROOT / "studies/records").iterdir())


# No pauses, and the machine is measured in a second, not in ten.
HASTE = """
import time
from falcon._backends import BACKENDS
time.sleep = lambda seconds: None
for x in type(BACKENDS["cpu"]), type(BACKENDS["numpy"]):
    x.measure = lambda self, problem, budget=1.0, quick=x.measure: quick(self, problem)
"""


def run(name, *arguments, folder):
    """Run a study in haste; returns what it prints."""
    (folder / "sitecustomize.py").write_text(HASTE)
    path = os.pathsep.join(map(str, (ROOT, folder)))
    words = ROOT / "studies" / f"{name}.py", *arguments
    return python(*words, where={"cwd": folder}, PYTHONPATH=path).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_small_run(name, tmp_path):
    pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
    if "dask" in name:
        pytest.importorskip("distributed")
    arguments, words = SMALL[name]
    out = run(name, *arguments, folder=tmp_path)
    assert [x for x in words if x not in out] == []
    if name == "suites":  # two tests, and falcon's kernels are in them
        assert re.search(r"\| 2 \| [1-9][0-9]+ \|", out)
    if name == "crossover":
        pytest.importorskip("matplotlib")
        run(name, "x.json", "--draw", "x.png", folder=tmp_path)
        assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.parametrize("name", sorted({*NAMES} - {*SMALL, *SHARED}))
def test_it_says_what_it_measures(name):
    """Studies that take minutes at their smallest."""
    done = python("-W", "error", ROOT / "studies" / f"{name}.py", "--help", status=None)
    if missing := re.search("No module named '(torch|cupy)'", done.stderr):
        pytest.skip(f"{missing[1]} is not installed")
    assert f"studies/{name}.py" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_pages_of_record_files(tmp_path):
    """Words of others are escaped, all sides are in the legends, no data is no picture."""
    pytest.importorskip("matplotlib")
    nothing, found = whole_run(), whole_run()
    nothing.update(cases=[], peak=None)
    first, *_, last = found["cases"]
    first["label"], found["machine"]["cpu"] = "<b>harm", "A & B"
    first["speedups"]["numpy"].update(known=False, low=0.9, high=1.6)
    first["sides"]["numpy"]["correct"] = False
    for of in "sides", "speedups":
        last[of]["one<dnn>"] = last[of]["numpy"]
    for name, document in {"a": found, "b": found, "none": nothing}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document), "utf-8")
    out = run("report", "a.json", "b.json", folder=tmp_path)
    out += run("report", "none.json", "-o", "new/none", folder=tmp_path)
    assert out.split() == [str(Path(x, "index.html")) for x in ("a", "b", "new/none")]
    page, same, empty = ((tmp_path / x).read_text("utf-8") for x in out.split())
    assert page == same
    assert "A &amp; B" in page and "&lt;b&gt;harm" in page
    assert not re.search("<b>harm|<dnn>|<script|@import|url", page)
    assert '<p class="severe">WRONG RESULT: numpy' in page
    assert '<p class="warning">1 of 9 ratios are undecided' in page
    assert re.findall(r'(?:src|href)="(.{19})', page) == ["data:image/svg+xml;"] * 2
    assert "<img" not in empty and len([*(tmp_path / "new/none").iterdir()]) == 1
    for name in "rates", "speedups":
        assert (tmp_path / "a" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "a" / f"{name}-narrow.png").read_bytes().startswith(b"\x89PNG")
        assert "one&lt;dnn&gt; -->" in (tmp_path / "a" / f"{name}.svg").read_text("utf-8")


def test_pictures_say_where_when_and_what(monkeypatch):
    """Machine, threads, date, intervals, choices; no line joins two points."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    figures = importlib.import_module("figures")
    found = json.loads((ROOT / "docs/benchmarks/zen4/results.json").read_text("utf-8"))
    with figures.style():
        for draw, place in (figures.rates, "x"), (figures.speedups, "y"):
            figure = draw(found)
            said = figure.get_suptitle().replace("\xa0", " ")
            assert "AMD EPYC (AuthenticAMD 25), 2 threads; 2026-11-25. Bars: 75 to 94 %" in said
            assert "hollow: not known to 2 %" in said
            labels = [x.get_text() for x in getattr(figure.axes[0], f"get_{place}ticklabels")()]
            assert any(x.endswith("3x6x4:54") for x in labels)
            over = "over " * (place == "y")
            assert f"{over}NumPy" in [x.get_text() for x in figure.legends[0].get_texts()]
        for kept, lines in ((1024, 2048), 0), ((1024, 2048, 4096), 3):
            few = {**found, "cases": [x for x in found["cases"]
                                      if x["M"] == x["N"] and x["M"] in kept]}  # fmt: skip
            axis = figures.rates(few).axes[0]
            assert sum(len(x.get_xdata()) > 1 and x.get_linestyle() == "-"
                       for x in axis.lines) == lines  # fmt: skip


def test_readmes_picture_is_current(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    report = importlib.import_module("report")
    folder = ROOT / "docs/benchmarks"
    read = report.records.read
    said = report.drawn_over_numpy(
        {title: read(folder / name / "results.json") for title, name in report.OVER.items()}
    )
    for theme in "light", "dark":
        picture = (folder / f"over_numpy-{theme}.svg").read_text("utf-8")
        assert said in picture, "run: python studies/report.py --overview"


def test_libraries_have_falcons_threads():
    """Those of FALCON_NUM_THREADS, which NumPy's BLAS does not read."""
    code = """
from common import same_threads
from falcon._numpy.threads import numpy_blas
print(same_threads(), numpy_blas().get())
"""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "studies")))
    done = python("-c", code, PYTHONPATH=paths, FALCON_NUM_THREADS="1")
    assert done.stdout.split() == ["1", "1"]


def test_schemes_that_are_chosen_most_have_code(monkeypatch):
    """Of what records of machines with vectors of 64 bytes choose, three in four."""
    monkeypatch.syspath_prepend(ROOT / "studies")
    regret = importlib.import_module("regret")
    chosen = []
    for case in (x for path in sorted(regret.RECORDS.glob("*.json")) for x in regret.load(path)):
        is_wide = case.kernels.startswith("avx512")
        if is_wide and case.problem.operand.name in ("float32", "float64"):
            rates = (regret.rates_of(case, backend=x) for x in ("cpu", "numpy"))
            method = case.options[regret.choice(case, *rates)]
            chosen += [method.label] if method.backend == "cpu" and method.scheme else []
    coded = [x for x in chosen if x in CODED]
    assert len(coded) > 0.75 * len(chosen) > 50, set(chosen) - set(CODED)
