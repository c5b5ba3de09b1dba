"""First calls: of processes of their own, with a cache folder of their own."""

import json

import pytest

from falcon.bench import first_call


def test_a_run(monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(first_call.__file__).split("/falcon/bench/")[0])
    monkeypatch.setenv("FALCON_PROFILE", "/nonexistent/profile.json")
    assert first_call.main(["--size", "640", "--processes", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= set(first_call._TARGETS)
    assert found["repeated call, ms"] > 0
    assert found["fresh plan, ms"] > 0


def test_figures_are_medians_over_processes(monkeypatch):
    seen = []

    def run(size, dtype, library, folder):
        seen.append((library, folder))
        number = len(seen)
        return {"first": 2.0 + number, "next": 1.0, "plan": 1e-4 * number, "recall": 1e-6 * number}

    monkeypatch.setattr(first_call, "_run", run)
    found = first_call.measure(100, "float32", 3)
    assert found["fresh machine: first call minus the next, ms"] == pytest.approx(1e3 * (1 + 4))
    assert found["later process: first call minus the next, ms"] == pytest.approx(1e3 * (1 + 5))
    assert found["fresh plan, ms"] == pytest.approx(0.5)
    folders = [folder for _, folder in seen]
    assert len(set(folders)) == 3 and folders[0] == folders[1], "a later process of each machine"
