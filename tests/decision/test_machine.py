"""The machine profile: kept on disk, ignored if damaged.

A GPU is measured when it is first needed; the host by `measure_all` only.
"""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.rates import DisturbedError, Rates
from falcon.decision.machine import profile, revision
from falcon.decision.rates import measure_all, rates
from falcon.decision.store import read

from ..doors import Problem

SOME = Rates(2e9, 3e9, 4e9, overlap=0.0, tile=(12, 16))
F4, F8 = dtype_of("float32"), dtype_of("float64")
pytestmark = pytest.mark.usefixtures("folder")


class Made:
    """A backend whose speed is made up."""

    def __init__(self, name="made up", kernels="fast", found=SOME):
        self.name, self.kernels_, self.found, self.calls = name, kernels, found, []

    rates_type, is_library = Rates, False

    def identity(self, device=None):
        return {"kernels": self.kernels_}

    def why_classical_only(self, problem, *_):
        return None if not problem.operand.is_exact else "made so"

    why_not = why_classical_only

    def kernels(self):
        return self.kernels_

    def measure(self, operand, threads, budget=1.0, device=None):
        self.calls.append((operand.name, threads))
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def ask(backend, dtype=F4, threads=1, device=0):
    """Return the rates on a GPU."""
    return rates(backend, Problem(1, 1, 1, dtype, threads=threads, device=device), [backend])


def stored(folder):
    (path,) = folder.glob("profile-*.json")
    return path


# --- measuring ------------------------------------------------------------------------------


def test_nothing_is_known_at_first():
    assert falcon.machine().rates == {}
    assert "nothing measured" in str(falcon.machine())
    assert falcon.machine().key["falcon"] == falcon.__version__
    assert any(x.startswith("numpy.") for x in falcon.machine().key)


def test_measured_once_per_dtype_and_threads():
    backend = Made()
    for _ in range(3):
        assert ask(backend) == SOME
        ask(backend, F8)
        ask(backend, F8, 2)
        ask(backend, dtype_of(np.dtype(">f4")))
    assert backend.calls == [
        ("float32", 1),
        ("float64", 1),
        ("float64", 2),
    ]
    assert len(profile([backend], 0).rates) == 3


def test_failures_are_not_remembered(folder):
    broken = Made(found=RuntimeError("no clock"))
    with pytest.raises(RuntimeError, match="no clock"):
        ask(broken)
    assert not folder.exists()
    broken.found = SOME
    assert ask(broken) == SOME


def test_threads_that_measure_at_once_agree():
    """No thread waits for another: both may measure, and the first one counts."""
    backend, gate = Made(), threading.Barrier(8)

    def measure(*_, **__):
        backend.calls.append(0)
        return Rates(1e9 * len(backend.calls), 1e9, 1e9)

    def once():
        gate.wait()
        return ask(backend)

    backend.measure = measure
    with ThreadPoolExecutor(8) as pool:
        answers = [x.result() for x in [pool.submit(once) for _ in range(8)]]
    assert len(set(answers)) == 1


# --- kept on disk ---------------------------------------------------------------------------


def test_the_next_process_reads_what_this_one_measured(folder, doors):
    backend = Made()
    ask(backend)
    doors.new_process()
    again = Made()
    assert ask(again) == SOME
    assert again.calls == []
    assert profile([again], 0).path == stored(folder)
    assert [x.suffix for x in folder.iterdir()] == [".json"]


TEXTS = {
    "cut": lambda path: path.write_text(path.read_text()[:-40]),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "deep": lambda path: path.write_text("[" * 100000),
}
# What becomes of the document and of its first rates.
CONTENTS = {
    "list": lambda x, first: [1, 2],
    "format": lambda x, first: {**x, "format": 1},
    "no key": lambda x, first: {k: v for k, v in x.items() if k != "key"},
    "text": lambda x, first: {**x, "rates": [{**first, "multiply": "fast"}]},
    "negative": lambda x, first: {**x, "rates": [{**first, "multiply": -1.0}]},
    "nan": lambda x, first: {**x, "rates": [{**first, "add": float("nan")}]},
    "zero": lambda x, first: {**x, "rates": [{**first, "bandwidth": 0}]},
    "short": lambda x, first: {**x, "rates": [{**first, "tile": [16]}]},
    "overlap": lambda x, first: {**x, "rates": [{**first, "overlap": 1.5}]},
    "400 digits": lambda x, first: {**x, "rates": [{**first, "multiply": 10**400}]},
    "lacks": lambda x, first: {**x, "rates": [{k: first[k] for k in first if k != "add"}]},
    "endless threads": lambda x, first: {**x, "rates": [{**first, "threads": float("inf")}]},
    "no rates": lambda x, first: {**x, "rates": 5},
    "no choice": lambda x, first: {**x, "choices": {"0": {"choice": [1]}}},
}


def damage(path, how):
    if how in TEXTS:
        TEXTS[how](path)
        return
    content = json.loads(path.read_text())
    path.write_text(json.dumps(CONTENTS[how](content, content["rates"][0])))


@pytest.mark.parametrize("how", [*TEXTS, *CONTENTS])
def test_a_damaged_file_is_ignored_with_one_line(folder, doors, caplog, how):
    ask(Made())
    damage(stored(folder), how)
    doors.new_process()
    backend = Made()
    with caplog.at_level(logging.WARNING, "falcon"):
        ask(backend)
        ask(backend, F8)
    assert len(backend.calls) == 2, "measured again"
    assert len(caplog.records) == 1
    assert "is ignored" in caplog.text
    assert str(stored(folder)) in caplog.text
    doors.new_process()  # and replaced by a sound one
    caplog.clear()
    ask(backend)
    assert len(backend.calls) == 2
    assert not caplog.records


def test_a_folder_that_cannot_be_made(folder, caplog):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file where the folder should be")
    backend = Made()
    with caplog.at_level(logging.WARNING, "falcon"):
        for _ in range(3):
            assert ask(backend) == SOME
    assert len(backend.calls) == 1
    assert len(caplog.records) <= 1


def test_no_home(doors):
    doors.no_home()
    backend = Made()
    assert ask(backend) == SOME
    assert profile([backend], 0).path is None


# --- pinned ---------------------------------------------------------------------------------


def pin(doors, path):
    doors.new_process()
    doors.environment(FALCON_PROFILE=str(path))


def ask_host(backend, dtype=F4):
    return ask(backend, dtype, device=None)


@pytest.fixture
def measured(folder):
    """The file of a host that was measured."""
    measure_all([Made()], [F4], [1], lambda _: None)
    return stored(folder)


def test_a_pinned_profile_is_used_as_it_is(measured, doors, caplog, tmp_path):
    mine = tmp_path / "mine.json"
    measured.rename(mine)
    text = mine.read_text()
    pin(doors, mine)
    doors.ships(Rates(7.0, 7.0, 7.0))
    backend = Made(found=Rates(1.0, 1.0, 1.0))
    with caplog.at_level(logging.WARNING, "falcon"):
        assert ask_host(backend) == SOME
        assert ask_host(backend, F8).multiply == 7.0  # which it lacks: as shipped
    assert not caplog.records and not backend.calls
    assert mine.read_text() == text
    assert profile([backend]).pinned
    assert "(FALCON_PROFILE)" in str(profile([backend]))


def test_a_pinned_profile_of_another_machine_is_used_and_named(measured, doors, caplog):
    pin(doors, measured)
    moved = Made(kernels="slow")
    with caplog.at_level(logging.WARNING, "falcon"):
        assert ask_host(moved) == SOME
    assert len(caplog.records) == 1
    for part in ("another machine's", "made up.kernels is 'slow', there 'fast'", str(measured)):
        assert part in caplog.text


def test_a_pinned_profile_that_is_missing(doors, caplog, tmp_path):
    pin(doors, tmp_path / "none.json")
    doors.ships(SOME)
    with caplog.at_level(logging.WARNING, "falcon"):
        assert ask_host(Made()) == SOME
    assert len(caplog.records) == 1
    assert "does not exist" in caplog.text
    assert not (tmp_path / "none.json").exists()


def test_what_is_measured_at_first_use_is_not_written_to_it(doors, tmp_path):
    pin(doors, tmp_path / "none.json")
    backend = Made()  # of which no rates are shipped
    assert [ask_host(backend), ask_host(backend)] == [SOME, SOME]
    assert backend.calls == [("float32", 1)]
    assert not (tmp_path / "none.json").exists()


# --- measuring everything -------------------------------------------------------------------


def test_measure_all(folder, doors):
    backend, steps = Made(), []
    before = revision()
    made, disturbed = measure_all([backend], [F4, F8, dtype_of("int32")], [1, 2], steps.append)
    assert not disturbed
    assert set(made.rates) == {("made up", x, t) for x in ("float32", "float64") for t in (1, 2)}
    assert len(steps) == 4
    assert revision() > before
    doors.new_process()
    assert profile([backend]).rates == made.rates


def test_measure_all_writes_to_a_pinned_file(doors, tmp_path):
    mine = tmp_path / "deep" / "mine.json"
    pin(doors, mine)
    measure_all([Made()], [F4], [1], lambda _: None)
    assert len(read(mine, {}).rates) == 1


def test_what_was_disturbed_is_measured_again_or_keeps_what_it_had(folder):
    """One that is quiet the second time, and one that never is."""
    calm, never = Made("calm"), Made("never")
    outcomes = iter([DisturbedError("differ by 30%"), SOME])

    def measure(*_, **__):
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    calm.measure, never.found = measure, DisturbedError("differ by 40%")
    steps = []
    made, disturbed = measure_all([calm, never], [F4], [1], steps.append)
    assert set(made.rates) == {("calm", "float32", 1)}
    assert disturbed == {"never float32, 1 threads": "differ by 40%"}
    assert len(steps) == 4


def test_measure_all_keeps_what_was_measured_until_ctrl_c(folder, doors):
    def tick(step):
        if "float64" in step:
            raise KeyboardInterrupt

    before = revision()
    with pytest.raises(KeyboardInterrupt):
        measure_all([Made()], [F4, F8], [1], tick)
    assert revision() > before
    doors.new_process()
    again = profile([Made()])
    assert set(again.rates) == {("made up", "float32", 1)}
