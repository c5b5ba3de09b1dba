"""`bench --gram`: shapes of x, and the table."""

import json

import pytest

from falcon.__main__ import main
from falcon.bench.symmetric import SHAPES, shapes


def test_shapes():
    assert shapes([]) == list(SHAPES)
    assert shapes(["64", "30x20", "7,9"]) == [(64, 64), (30, 20), (7, 9)]
    for wrong in ("x", "3x4x5", "0", "4x", "-3"):
        with pytest.raises(ValueError, match="--gram takes sizes of x"):
            shapes([wrong])


def test_the_table_and_the_record(capsys):
    asked = ["bench", "--gram", "64", "90x70", "--rounds", "1", "--threads", "1"]
    assert main([*asked, "--dtype", "float32"]) == 0
    printed = capsys.readouterr().out
    assert "64 x 64" in printed and "90 x 70" in printed
    assert "NumPy's syrk" in printed and "geometric mean" in printed
    assert "auto vs it" in printed and "* not known to 2 %" in printed
    assert main([*asked, "--dtype", "float64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [x["x"] for x in found["cases"]] == [[64, 64], [90, 70]]
    assert all(min(x["sides"]["falcon auto"]) > 0 for x in found["cases"])
