"""``bench --beside``: every condition is measured, and compared with what it should be."""

import json

import pytest

from falcon.__main__ import main

from ..cpu.support import require_cpu

require_cpu()


def test_every_condition_is_measured_and_printed(capsys, monkeypatch):
    from falcon.bench import beside

    monkeypatch.setattr(beside, "RESTS", (1,))
    arguments = ["bench", "--beside", "--shape", "40,50,60", "--dtype", "float32", "--rounds", "2"]
    assert main(arguments) == 0
    words = capsys.readouterr().out
    for name in (beside.TIGHT, beside.ONE, beside.NUMPY, "falcon after 1 ms",
                 "falcon after np.matmul", "NumPy after falcon", "falcon, 4 Python threads",
                 "falcon, one CPU busy"):  # fmt: skip
        assert f"\n{name} " in words
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shape"] == {"M": 40, "N": 50, "K": 60}
    assert all(len(x) == 2 for x in found["seconds"].values())
    assert found["over"]["NumPy after falcon"]["base"] == beside.NUMPY


def test_a_ratio_above_one_is_faster():
    from falcon._core.timing import Record
    from falcon.bench import beside
    from falcon.bench.workloads import Case, parse_shape

    found = {
        beside.TIGHT: Record(beside.TIGHT, (1.0,) * 5),
        beside.ONE: Record(beside.ONE, (2.0,) * 5),
    }
    found["falcon after 60 ms"] = Record("falcon after 60 ms", (1.0, 1.0, 1.0, 1.0, 8.0))
    words = beside.table(Case("given", parse_shape("10,10,10"), "float32"), found)
    row = next(x for x in words.splitlines() if x.startswith("falcon after"))
    assert "1.000" in row and row.rstrip().endswith("0.25")


@pytest.mark.parametrize("arguments", [["--shape", "0,1,1"], ["--dtype", "float32x"]])
def test_bad_arguments_are_refused(arguments, capsys):
    assert main(["bench", "--beside", *arguments]) == 2
