"""Predicted beside measured: which candidates are compared, and what the figures mean."""

import json

import pytest

import falcon
from falcon._core.timing import Estimate

pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")
from falcon.bench import predictions
from falcon.bench.predictions import Compared, summary


def compared(name, growth, predicted, total, over=1.0):
    times = dict.fromkeys(predictions._STAGES, predicted / 4)
    measured = dict.fromkeys(predictions._STAGES, total / 4)
    return Compared("x", name, growth, times, measured, total, Estimate(over, over, over, 5))


def test_the_cost_of_the_rule_of_least_growth():
    rule = [compared("a", 2.0, 1.0, 1.1), compared("b", 4.0, 0.98, 1.0, over=1 / 1.1)]
    plain = [compared("a", 2.0, 0.9, 0.9), compared("classical", 1.0, 1.0, 1.0, over=0.9)]
    found = summary([rule, plain])
    assert found["shapes in which less growth was taken"] == 1
    assert found["time of the choice over the fastest's, mean"] == pytest.approx(1.1, rel=1e-3)
    assert found["growth of the choice over the fastest's, mean"] == pytest.approx(0.5)
    assert found["error of all, median"] == pytest.approx((0 + 0.02) / 2)


def test_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(predictions, "_SECONDS", 0.1)
    path = tmp_path / "found.json"
    assert predictions.main(["1100x1100x1100", "--threads", "1", "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "classical" in shown and "error of multiply, median" in shown
    records = json.loads(path.read_text())["records"]
    assert len({x["name"] for x in records}) == len(records) >= 2
    for x in records:
        assert set(x["predicted"]) >= set(predictions._STAGES)
        assert set(x["measured"]) >= set(predictions._STAGES)
        assert x["total"] > 0 and x["growth"] >= 1
    plan = falcon.plan((1100, 1100), (1100, 1100), "float32", backend="cpu", threads=1)
    assert records[0]["name"] == plan.option.label, "the choice comes first"
