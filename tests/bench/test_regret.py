"""The regret benchmark: its shapes, its bookkeeping, and a run of two tiny shapes."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from falcon._core.timing import Side
from falcon.bench import regret, regret_shapes
from falcon.bench.regret import _after_numpy, _parser, main, read, write
from falcon.bench.regret_page import intervals, page
from falcon.bench.regret_shapes import shapes
from falcon.bench.regret_summary import summary


def record(**changes):
    values = {
        "dtype": "float32", "threads": 1, "kind": "odd", "M": 1025, "N": 1027, "K": 1029,
        "choice": "cpu strassen", "rival": "numpy classical", "regret": 0.0,
        "candidates": [["cpu strassen", 1.0, 1.1], ["numpy classical", 2.0, 2.0]],
        "over_numpy": 1.2, "over_library": 1.1, "library": "onednn",
        "planned": 2e-4, "date": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {**values, **changes}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_shapes(dtype, threads):
    found = shapes(dtype, threads, 52)
    assert found == shapes(dtype, threads, 52)
    assert len({(x.M, x.N, x.K) for _, x in found}) == 52
    kinds = [kind for kind, _ in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "layer": 13,
        "odd": 10,
        "square": 5,
        "thin": 5,
        "log-uniform": 19,
    }
    for kind, x in found:
        most = 12e10 if kind == "layer" else 3e10
        assert 2e7 <= 2 * x.M * x.N * x.K <= most * threads * 4 / np.dtype(dtype).itemsize
        assert kind != "odd" or x.M % 2 == x.N % 2 == x.K % 2 == 1
        assert kind == "layer" or max(x.M, x.N, x.K) <= 8192
        assert kind != "square" or x.M == x.N == x.K
        assert kind != "thin" or min(x.M, x.N, x.K) < 128
    assert shapes("float64", 1, 52) != shapes("float32", 2, 52)
    assert shapes(dtype, threads, 52, 1) != found


def test_summary():
    assert summary([]) == {}
    found = summary([record(), record(M=10, regret=0.1, over_numpy=0.9, over_library=0.8)])
    assert found["shapes"] == 2
    assert found["regret mean"] == pytest.approx(0.05)
    assert found["regret worst"] == 0.1
    assert found["over NumPy, worst"] == 0.9
    assert found["prediction error, median"] == pytest.approx((0 + 0.1 / 1.1) / 2)
    logs = np.log([[1.0, 1.1], [2.0, 2.0]])
    rest = ((logs[:, 0] - logs[:, 1]) ** 2).sum()
    estimate = ((logs[:, 1] - logs[:, 1].mean()) ** 2).sum()
    assert found["R^2 of log time"] == pytest.approx(1 - rest / estimate)
    small = record(planned=1e-5, candidates=[["numpy classical", 0.0, 1.0]])
    planned = "fresh plan where candidates are compared, median seconds"
    assert summary([record(), small, small])[planned] == 2e-4
    assert planned not in summary([small])
    assert found["these over NumPy, worst"] == 0.9
    few = summary([record(), record(choice="numpy classical", over_numpy=0.5)])
    assert few["shapes in which NumPy's own product is not the choice"] == 1
    assert few["these over NumPy, worst"] == 1.2
    assert few["over NumPy, worst"] == 0.5
    # Small shapes do not count here.
    assert found["over the best library, float32, M, N, K >= 1024, worst"] == 1.1


def test_records_survive(tmp_path):
    path = tmp_path / "regret.json"
    assert read(path) == []
    write(path, [record(), record(M=7)], _parser().parse_args([]))
    assert [x["M"] for x in read(path)] == [1025, 7]
    assert json.loads(path.read_text())["summary"]["shapes"] == 2
    assert list(tmp_path.iterdir()) == [path]


def test_records_of_another_version_are_refused(tmp_path):
    path = tmp_path / "regret.json"
    for content in ({}, {"records": [{"dtype": "float32"}]}):
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"regret\.json holds no records, or those of another"):
            read(path)


@pytest.mark.skipif(not find_spec("matplotlib"), reason="needs matplotlib (the bench extra)")
def test_a_run_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    """Two shapes, in a process of their own; then again, with nothing left to do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(regret.__file__).split("/falcon/bench/")[0])
    monkeypatch.setattr(regret_shapes, "_MOST_FLOPS", 3e7)
    arguments = ["--shapes", "1", "--dtype", "float32", "--threads", "1", "--no-peers"]
    arguments += ["--seconds", "20", "--between"]
    assert main(arguments) == 0
    found = read(tmp_path / "regret.json")
    assert len(found) == 1
    assert found[0]["regret"] >= 0
    assert found[0]["over_numpy"] > 0
    assert found[0]["library"] == "numpy"
    assert found[0]["known"]["over_numpy"]["count"] >= 5
    assert json.loads((tmp_path / "regret.json").read_text())["between"] is True
    assert main(arguments) == 0
    assert read(tmp_path / "regret.json") == found
    assert (tmp_path / "regret.png").stat().st_size > 1000
    assert "regret mean" in capsys.readouterr().out


def test_intervals():
    assert intervals([record()]) == {}
    some = [record(regret=x) for x in np.random.default_rng(1).exponential(0.02, 200)]
    found, ends = summary(some), intervals(some)
    for name in ("regret mean", "regret 95th percentile"):
        low, high = ends[name]
        assert low < found[name] < high
    mean, (low, high) = found["regret mean"], ends["regret mean"]
    spread = np.std([x["regret"] for x in some]) / np.sqrt(200)
    assert high - mean == pytest.approx(1.96 * spread, rel=0.25)
    assert mean - low == pytest.approx(1.96 * spread, rel=0.25)


def test_between():
    calls = []
    side = _after_numpy(Side("x", lambda n: calls.append(n) or 2.0 - len(calls) / 10, 0.5), "f4")
    assert side.time(3) == pytest.approx(1.7)
    assert calls == [1, 1, 1]
    assert side.rest == 0.5


def test_the_page_of_machines_is_up_to_date():
    folder = Path(__file__).parents[2] / "docs" / "regret"
    assert (folder / "README.md").read_text(encoding="utf-8") == page(folder), (
        "run: python -m falcon.bench.regret --page docs/regret"
    )
    assert "zen3" in page(folder)
