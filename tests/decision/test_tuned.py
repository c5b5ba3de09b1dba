"""Measured choices: stored, used only on request, and within the limits."""

import json
import logging
import os
import signal
import threading
import time

import numpy as np
import pytest

import falcon
from falcon._core.timing import Record
from falcon._front import tune as tune_module
from falcon._front.tune import compare, rivals
from falcon.decision import machine as machine_module
from falcon.decision import tuned
from falcon.decision.tuned import Choice

SHAPE = (260, 270, 280)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """A cache folder of its own, and nothing known."""
    monkeypatch.setattr(tuned, "_choices", None)
    monkeypatch.setattr(machine_module, "_profiles", {})
    monkeypatch.setattr(machine_module, "_probe", lambda *_: 0.0)
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FALCON_PROFILE", raising=False)
    machine_module.replaced()
    yield tmp_path
    machine_module.replaced()


def plan(**options):
    M, N, K = SHAPE
    return falcon.plan((M, K), (K, N), "float32", **options)


def remember(backend, scheme):
    tuned.remember(plan().problem, Choice(backend, scheme, 1.0), tune_module.available_backends())
    machine_module.replaced()


def test_off_by_default():
    remember("numpy", "strassen")
    assert plan().scheme is None
    with falcon.config(tuned=True):
        found = plan()
        assert (found.backend.name, found.scheme.name) == ("numpy", "strassen")
        assert found.why == "measured as the fastest by falcon.tune"
        assert plan(scheme="classical").scheme is None
        assert plan(scheme="winograd").scheme.name == "winograd"
    assert plan().scheme is None


def test_limits_come_first():
    remember("numpy", "strassen")
    with falcon.config(tuned=True):
        assert plan(max_growth=1.5).scheme is None
        assert plan(workspace_limit=0).scheme is None
        other = "cpu" if falcon.show_config("dict")["backends"]["cpu"] == "available" else "auto"
        if other == "cpu":
            assert plan(backend="cpu").backend.name == "cpu"


def test_results_are_those_of_the_choice():
    remember("numpy", "strassen")
    M, N, K = SHAPE
    a, b = np.random.default_rng(0).standard_normal((2, M, K), np.float32)[:, :, :K], None
    a, b = a[0], np.random.default_rng(1).standard_normal((K, N), np.float32)
    with falcon.config(tuned=True):
        got = falcon.gemm(a, b)
    np.testing.assert_array_equal(got, falcon.gemm(a, b, scheme="strassen", backend="numpy"))
    assert not np.array_equal(got, falcon.gemm(a, b))


def test_a_pinned_profile_overrules(monkeypatch, tmp_path):
    """Deterministic: what is pinned decides alone."""
    remember("numpy", "strassen")
    monkeypatch.setattr(machine_module, "_profiles", {})
    monkeypatch.setenv("FALCON_PROFILE", str(tmp_path / "pinned.json"))
    machine_module.replaced()
    with falcon.config(tuned=True):
        assert plan().scheme is None


def test_the_next_process_remembers(monkeypatch):
    remember("numpy", "hopcroft-kerr[3x3x2]")
    monkeypatch.setattr(tuned, "_choices", None)
    with falcon.config(tuned=True):
        assert plan().scheme.format == (3, 3, 2)


def test_a_scheme_that_is_gone(monkeypatch):
    remember("numpy", "of another process")
    with falcon.config(tuned=True):
        assert plan().scheme is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_remembers_what_is_tuned_while_the_parent_does(monkeypatch):
    """A process that forks while another of its threads holds the lock."""
    backends, problem = tune_module.available_backends(), plan().problem
    parent, held, done = os.getpid(), threading.Event(), threading.Event()

    def read(_):
        if os.getpid() == parent:
            held.set()
            done.wait()
        return {}

    monkeypatch.setattr(tuned, "_read", read)
    keep = threading.Thread(
        target=tuned.remember, args=(problem, Choice("numpy", None, 1.0), backends)
    )
    keep.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(5)  # ends a child that waits for ever for a lock
        tuned.remember(problem, Choice("numpy", "strassen", 1.0), backends)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    done.set()
    keep.join()
    assert status == 0


@pytest.mark.parametrize("how", ["cut", "key", "entry", "list", "seconds", "text"])
def test_a_damaged_file_is_ignored(folder, monkeypatch, caplog, how):
    remember("numpy", "strassen")
    (path,) = folder.glob("choices-*.json")
    content = json.loads(path.read_text())
    name, choice = next(iter(content["choices"].items()))

    def entry(**changes):
        return {**content, "choices": {name: {**choice, **changes}}}

    path.write_text(
        {
            "cut": lambda: path.read_text()[:-30],
            "key": lambda: json.dumps({**content, "key": {}}),
            "entry": lambda: json.dumps({**content, "choices": {name: {"backend": 1}}}),
            "list": lambda: json.dumps({**content, "choices": [1]}),
            "seconds": lambda: json.dumps(entry(seconds=10**400)),
            "text": lambda: json.dumps(entry(seconds="1.0")),
        }[how]()
    )
    monkeypatch.setattr(tuned, "_choices", None)
    with caplog.at_level(logging.WARNING, "falcon"), falcon.config(tuned=True):
        assert plan().scheme is None
    assert len(caplog.records) == 1
    assert "are ignored" in caplog.text


def test_tune_remembers_the_fastest(monkeypatch):
    """On a made-up clock on which NumPy's Strassen is the fastest."""

    def turns(sides, rounds, *, seconds):
        assert rounds == 2
        return [Record(x.name, (10.0 - i, 11.0 - i)) for i, x in enumerate(sides)]

    monkeypatch.setattr(tune_module, "interleave", turns)
    shape, ticks = (1030, 1040, 1050), []
    (found,) = falcon.tune(
        [shape], backend="numpy", rounds=2, candidates=3, tick=lambda: ticks.append(1)
    )
    fastest = found.measured[0]
    assert fastest.seconds == min(x.seconds for x in found.measured)
    assert len(found.measured) >= 3
    assert ticks == [1]
    assert str(found).startswith("1030 x 1050 @ 1050 x 1040 float32: ")
    with falcon.config(tuned=True):
        chosen = falcon.plan((1030, 1050), (1050, 1040), "float32")
    assert chosen.option.label == fastest.candidate.option.label


def test_tune_keeps_the_choice_of_the_model_unless_clearly_slower(monkeypatch):
    def turns(sides, rounds, *, seconds):
        return [Record(x.name, (1.0 - 0.001 * i,)) for i, x in enumerate(sides)]

    monkeypatch.setattr(tune_module, "interleave", turns)
    (found,) = falcon.tune([(1030, 1040, 1050)], backend="numpy", rounds=1)
    model = falcon.plan((1030, 1050), (1050, 1040), "float32", backend="numpy")
    assert found.measured[0].candidate.option.label == model.option.label


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": [(1, 2)]}, "shape"),
        ({"shapes": [(1, 2, 0)]}, "shape"),
        ({"shapes": [(1, 2, 2.5)]}, "shape"),
        ({"shapes": [(True, 2, 2)]}, "shape"),
        ({"shapes": [], "candidates": 0}, "candidates is 0"),
        ({"shapes": [], "rounds": 1.5}, "rounds is 1.5"),
        ({"shapes": [], "backend": "abacus"}, "backend is 'abacus'"),
    ],
)
def test_tune_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        falcon.tune(**options)
    with pytest.raises(TypeError, match="dtype"):
        falcon.tune([], dtype="U3")


def test_what_was_asked_for_is_compared_with_what_auto_would_take():
    made = falcon.plan((1030, 1050), (1050, 1040), "float64", scheme="strassen", backend="numpy")
    first, *others = compare(made, 4, 1, seconds=0.0)
    assert first.candidate.option is made.option
    assert first.candidate.total > 0  # predicted
    assert first.ratio.median == 1.0
    assert {x.candidate.option.label for x in others} >= {"classical"}
    assert "strassen" not in {x.candidate.option.label for x in others}
    assert all(x.seconds > 0 for x in (first, *others))


def test_rivals_of_a_choice_that_was_not_compared():
    made = falcon.plan((300, 128), (128, 300), "float32")
    found = rivals(made, 4)
    assert found[0].option is made.option
    labels = [(x.option.backend, x.option.label) for x in found]
    assert len(set(labels)) == len(labels) >= 2
    assert any(label == "strassen" for _, label in labels)


@pytest.mark.parametrize(
    "name", ["(" * 5000, "strassen@" * 40 + "strassen", "strassen@" * 6 + "9x9"]
)
def test_a_scheme_that_cannot_be(folder, monkeypatch, caplog, name):
    """It is ignored with one log line, and decisions go on."""
    remember("numpy", "strassen")
    (path,) = folder.glob("choices-*.json")
    path.write_text(path.read_text().replace('"strassen"', json.dumps(name)))
    monkeypatch.setattr(tuned, "_choices", None)
    machine_module.replaced()
    start = time.perf_counter()
    with caplog.at_level(logging.WARNING, "falcon"), falcon.config(tuned=True):
        assert plan().scheme is None
        machine_module.replaced()
        assert plan().scheme is None
    assert time.perf_counter() - start < 1
    assert len(caplog.records) == 1
    assert "a tuned choice is ignored: " in caplog.text


def test_tune_keeps_what_was_done_until_ctrl_c(monkeypatch):
    monkeypatch.setattr(
        tune_module,
        "interleave",
        lambda sides, *_, **__: [
            Record(side.name, (10.0 - i,) * 5) for i, side in enumerate(sides)
        ],
    )

    def tick():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        falcon.tune([(1030, 1040, 1050), (1100, 1100, 1100)], backend="numpy", tick=tick)
    assert len(tuned._choices) == 1
    with falcon.config(tuned=True):
        found = falcon.plan((1030, 1050), (1050, 1040), "float32")
    assert found.why == "measured as the fastest by falcon.tune"
