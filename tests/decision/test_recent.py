"""Choices on disk: the same plan as a comparison finds, and never that of another state."""

from importlib import import_module

import pytest

import falcon
from falcon._core.rates import Rates
from falcon.decision import candidates, machine, recent

select = import_module("falcon.decision.select")  # the package's name for it is the function

SIZES = (2100, 1900), (1900, 2000)
RATES = Rates(multiply=1e10, add=1e10, bandwidth=2e9)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(select, "WORTH_KEEPING", 0.0)
    monkeypatch.setattr(recent, "generation", lambda: 0)  # whatever other tests register
    monkeypatch.setattr("falcon._front.planner._rates", lambda *_: RATES)
    forget(monkeypatch)
    yield tmp_path
    forget(monkeypatch)


def forget(monkeypatch):
    """As a new process."""
    monkeypatch.setattr(recent, "_known", None)
    candidates._candidates_of.cache_clear()
    machine.replaced()


def plan(backend="auto", **options):
    return falcon.plan(*SIZES, "float32", backend=backend, **options)


def compared(monkeypatch):
    """Whether a choice that follows compares candidates."""
    found = []
    original = select._compared
    monkeypatch.setattr(select, "_compared", lambda *x: found.append(x) or original(*x))
    return found


@pytest.mark.parametrize("options", [{}, {"max_growth": 2.5}, {"max_growth": 1.0}])
def test_the_next_process_makes_the_same_plan_without_comparing(monkeypatch, options):
    first = plan(**options)
    table = first.explain()
    forget(monkeypatch)
    found = compared(monkeypatch)
    second = plan(**options)
    assert not found
    assert second is not first
    assert (second.option, second.why, second.seconds) == (first.option, first.why, first.seconds)
    assert second.scheme == first.scheme
    assert second.explain() == table


def test_nested_schemes_too(monkeypatch):
    first = falcon.plan((8192, 8192), (8192, 8192), "float32", backend="numpy")
    assert first.option.levels == 2
    forget(monkeypatch)
    found = compared(monkeypatch)
    second = falcon.plan((8192, 8192), (8192, 8192), "float32", backend="numpy")
    assert second.scheme == first.scheme and not found


@pytest.mark.parametrize("what", ["rates", "settings", "code", "memory"])
def test_another_state_is_compared_again(monkeypatch, what):
    plan()
    forget(monkeypatch)
    options = {}
    if what == "rates":
        other = Rates(multiply=2e10, add=1e10, bandwidth=2e9)
        monkeypatch.setattr("falcon._front.planner._rates", lambda *_: other)
    elif what == "settings":
        options = {"max_growth": 3.0}
    elif what == "code":
        monkeypatch.setattr(recent, "_code", lambda: 7)
    else:
        monkeypatch.setattr(recent, "memory_bytes", lambda: 2**30)
    found = compared(monkeypatch)
    plan(**options)
    assert len(found) == 1


@pytest.mark.parametrize(
    "text", ["", "[", "{}", '{"format": 8, "key": {}, "choices": {"x": [1]}}', "damage"]
)
def test_a_damaged_file_is_ignored(monkeypatch, folder, text):
    first, path = plan(), folder / "recent.json"
    if text == "damage":  # an entry that names what there is not
        text = path.read_text().replace(":", ":1", 3)
    path.write_text(text)
    forget(monkeypatch)
    assert plan().option == first.option


def test_what_a_user_registered_is_not_stored(monkeypatch, folder):
    monkeypatch.setattr(recent, "generation", lambda: 1)
    plan()
    assert not (folder / "recent.json").exists()


def test_the_file_stays_small(monkeypatch):
    monkeypatch.setattr(recent, "_MOST", 3)
    for size in range(5):
        falcon.plan((2000 + size, 2000), (2000, 2000), "float32")
    assert len(recent._read()) == 3
