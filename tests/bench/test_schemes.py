"""Schemes side by side: what is measured, and how it is written down."""

import csv
import io

import pytest

from falcon import schemes
from falcon.__main__ import main
from falcon.bench import schemes as bench
from falcon.bench.here import Effort
from falcon.bench.schemes import best_names, fastest_first, format_speeds, shape_of, to_csv


def test_best_names():
    chosen = [schemes.get(name) for name in best_names()]
    formats = [tuple(sorted(x.format)) for x in chosen]
    assert formats == sorted(set(formats))
    assert (2, 2, 2) in formats and (5, 5, 5) in formats
    for scheme in chosen:
        assert not scheme.is_classical
        assert scheme.rank == schemes.best(*scheme.format).rank


def test_sizes_are_multiples_of_the_format():
    shape = shape_of(schemes.get("3x4x5:48"), 100)
    assert (shape.M, shape.K, shape.N) == (99, 100, 100)
    assert shape_of(schemes.get("3x4x5:48"), 1).M == 3


def measured(name, size):
    options = {"backend": "numpy"}
    return bench.measure(bench.case(name, size, "float32"), options, Effort(2, 0.0))


def test_measure():
    found = [measured(name, 24) for name in ("strassen", "2x3x3:15")]
    assert [(x["label"], x["M"], x["K"], x["N"]) for x in found] == [
        ("strassen", 24, 24, 24),
        ("2x3x3:15", 24, 24, 24),
    ]
    for x in found:
        assert x["sides"]["falcon"]["plan"]["scheme"] == x["label"]
        assert x["sides"]["falcon classical"]["gflops"] > 0
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [row["scheme"] for row in rows] == ["strassen", "2x3x3:15"]
    assert all(float(row["uncertainty"]) >= 0 and float(row["speedup"]) > 0 for row in rows)


def test_table_is_sorted():
    found = [measured(name, size) for size in (16, 24) for name in ("strassen", "winograd")]
    for x, ratio in zip(found, (0.5, 2.0, 3.0, 1.0), strict=True):
        x["speedups"]["falcon classical"]["median"] = ratio
    order = [(x["workload"], x["label"]) for x in fastest_first(found)]
    assert order == [("16", "winograd"), ("16", "strassen"), ("24", "strassen"), ("24", "winograd")]
    text = format_speeds(found)
    assert text.index("about 16") < text.index("about 24")


def test_command(capsys):
    arguments = ["bench", "--schemes", "--scheme", "strassen", "--shape", "16", "--rounds", "1"]
    assert main([*arguments, "--backend", "numpy", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("size,scheme,M,K,N,gflops")
    assert main([*arguments, "--backend", "numpy"]) == 0
    assert "vs falcon classical" in capsys.readouterr().out
    assert main([*arguments[:4], "16", "--rounds", "1", "--backend", "numpy"]) == 0
    assert "about 16" in capsys.readouterr().out
    assert main(["bench", "--schemes", "--scheme", "nonsense"]) == 2
    assert "no scheme 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["x", "0"])
def test_command_refuses(shape, capsys):
    assert main(["bench", "--schemes", "--scheme", "strassen", "--shape", shape]) == 2
    assert "--shape" in capsys.readouterr().err
