"""Schemes side by side: what is measured, and how it is written down."""

import csv
import io

import numpy as np
import pytest

from falcon import schemes
from falcon.__main__ import main
from falcon.bench.schemes import Speed, best_names, format_speeds, measure, shape_of, to_csv


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


def test_measure():
    ticks = []
    found = list(measure(["strassen", "2x3x3:15"], [24], 2, np.dtype("float32"), "numpy",
                         tick=lambda: ticks.append(1)))  # fmt: skip
    assert [(x.scheme, x.M, x.K, x.N) for x in found] == [
        ("strassen", 24, 24, 24),
        ("2x3x3:15", 24, 24, 24),
    ]
    assert len(ticks) == 8
    for x in found:
        assert x.gflops > 0 and x.classical_gflops > 0 and x.speedup > 0
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [row["scheme"] for row in rows] == ["strassen", "2x3x3:15"]


def test_table_is_sorted():
    slow, fast = (Speed("64", name, 64, 64, 64, 1.0, 1.0, x) for name, x in (("s", 0.5), ("f", 2)))
    text = format_speeds([slow, fast])
    assert text.index("2.000") < text.index("0.500")


def test_command(capsys):
    arguments = ["bench", "--schemes", "--scheme", "strassen", "--shape", "16", "--rounds", "1"]
    assert main([*arguments, "--backend", "numpy", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("size,scheme,M,K,N,gflops")
    assert main([*arguments, "--backend", "numpy"]) == 0
    assert "speed-up" in capsys.readouterr().out
    assert main(["bench", "--schemes", "--scheme", "nonsense"]) == 2
    assert "no scheme 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["x", "0"])
def test_command_refuses(shape, capsys):
    assert main(["bench", "--schemes", "--scheme", "strassen", "--shape", shape]) == 2
    assert "--shape" in capsys.readouterr().err
