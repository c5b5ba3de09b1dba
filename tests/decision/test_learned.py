"""The one store: comparisons change a choice, processes add to one file, damage is ignored."""

import json
import logging
import multiprocessing
import os
import threading
import time

import pytest

from falcon._backends import available_backends
from falcon._core.dtypes import of
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon.decision import learned
from falcon.decision.learned import Choice, Entry, Learned
from falcon.decision.store import exclusive, write_json

from .support import forget

NUMPY, OURS = Choice("numpy"), Choice("cpu")
LCMA = Choice("cpu", "2x2x2:7", 1, "strassen")
ENTRY = Entry("4 x 4", NUMPY, "predicted", "why", "rates", (LCMA, OURS))
PROBLEM = Problem(700, 800, 900, of("float32"), a_strided=True, b_strided=True)
pytestmark = pytest.mark.usefixtures("folder")


def keep(key, entry=ENTRY, **how):
    learned.change(lambda x: x.keep(key, entry), available_backends(), **how)


def stored(folder):
    (path,) = folder.glob("learned-*.json")
    return path


def known():
    return learned.known(available_backends())


# --- comparisons ----------------------------------------------------------------------------


def after(entry, *pairs, fastest=1.0):
    for rival, ratio in pairs:
        entry = entry.compared(rival, ratio, fastest)
    return entry


def test_three_wins_by_two_percent_change_the_choice():
    entry = after(ENTRY, (LCMA, 0.97), (LCMA, 1.0), (LCMA, 0.95))
    assert (entry.choice, entry.known) == (NUMPY, "predicted")
    entry = after(entry, (LCMA, 0.96))
    assert (entry.choice, entry.known, entry.contests) == (LCMA, "contested", 4)
    assert entry.rival() == OURS, "the next is compared with the new choice"
    assert "1.036 x as fast as classical on numpy (4 pairs)" in entry.why


def test_one_win_is_enough_over_the_fastest_of_all_calls():
    entry = after(ENTRY, (LCMA, 0.85), fastest=0.89)
    assert (entry.choice, entry.known) == (LCMA, "contested")


def test_a_rival_that_lost_twice_is_followed_by_the_next():
    entry = after(ENTRY, (LCMA, 1.2), (LCMA, 1.1))
    assert entry.rival() == OURS
    entry = after(entry, (OURS, 1.2), (OURS, 1.2))
    assert entry.rival() is None
    assert (entry.choice, entry.known) == (NUMPY, "contested")


def test_six_comparisons_settle_it():
    entry = after(ENTRY, *[(LCMA, 0.985)] * 2)
    assert entry.rival() == OURS, "a win below two percent does not count"
    entry = after(ENTRY, *[(LCMA, 0.97), (LCMA, 0.97), (LCMA, 1.3)], *[(OURS, 0.97)] * 2)
    entry = after(entry, (LCMA, 1.3))
    assert entry.contests == learned.MOST_CONTESTS
    assert entry.rival() is None and entry.known == "contested"
    assert Entry("p", NUMPY, "tuned", "", rivals=ENTRY.rivals).rival() is None


# --- the file -------------------------------------------------------------------------------


def test_the_next_process_reads_it(monkeypatch, folder):
    whole = after(ENTRY, (LCMA, 0.97))
    keep("a", whole)
    learned.change(lambda x: x.add_speeds("float32", {"cpu": 1.5, "numpy": 1.1}),
                   available_backends())  # fmt: skip
    forget(monkeypatch)
    assert known().choices == {"a": whole}
    assert known().speeds == {"float32": (1, {"cpu": 1.5, "numpy": 1.1})}


def test_a_process_keeps_to_what_it_has_read():
    assert known().choices == {}
    keep("a")
    assert known().choices == {}
    keep("b", in_this_process=True)
    assert known().choices == {"b": ENTRY}


def test_other_code_has_another_file(monkeypatch, folder):
    keep("a")
    monkeypatch.setattr(learned, "_code", lambda: "changed")
    forget(monkeypatch)
    assert known().choices == {}
    keep("b")
    assert len(list(folder.glob("learned-*.json"))) == 2


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"verbose": True}, True),
        ({"check": "none"}, True),
        ({"learn": "off"}, True),
        ({"max_growth": 3.0}, False),
        ({"workspace_limit": 10}, False),
        ({"backend": "numpy"}, False),
    ],
)
def test_options_that_decide_are_part_of_the_key(change, same):
    other = learned.digest(PROBLEM, Options(**change))
    assert (other == learned.digest(PROBLEM, Options())) == same


def add_one(number):
    for i in range(20):
        keep(f"{number}-{i}")


def test_processes_add_to_one_file_without_loss(folder):
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=add_one, args=(n,)) for n in range(3)]
    for x in running:
        x.start()
    for x in running:
        x.join()
    add_one(9)
    assert len(json.loads(stored(folder).read_text())["choices"]) == 80


def test_a_process_that_holds_the_file_delays_nobody_for_long(folder):
    path, release, held = folder / "x.json", threading.Event(), threading.Event()

    def hold():
        with exclusive(path):
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    start = time.perf_counter()
    with exclusive(path):
        waited = time.perf_counter() - start
    release.set()
    holder.join()
    assert waited < 1


def test_the_file_stays_small_and_loses_predictions_first(monkeypatch):
    monkeypatch.setattr(learned, "_MOST", 3)
    found, contested = Learned(), after(ENTRY, (LCMA, 0.5), fastest=0.5)
    found.keep("first", contested)
    for i in range(5):
        found.keep(str(i), ENTRY)
    assert list(found.choices) == ["first", "3", "4"]


DAMAGES = {
    "cut": lambda text: text[:-40],
    "binary": lambda _: "\0\1\2",
    "deep": lambda _: "[" * 10**5,
    "key": lambda text: text.replace('"format": 9', '"format": 7'),
    "changed": lambda text: text.replace('"contests": 0', '"contests": 5'),
    "digits": lambda text: text.replace('"contests": 0', '"contests": ' + "9" * 5000),
    "list": lambda text: json.dumps({**json.loads(text), "choices": [1]}),
    "missing": lambda text: text.replace('"crc32"', '"crc"'),
    "huge": lambda text: text + " " * 2**23,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_ignored_and_replaced(monkeypatch, folder, caplog, how):
    keep("a")
    path = stored(folder)
    text = path.read_text()
    path.write_text(DAMAGES[how](text))
    assert path.read_text() != text
    forget(monkeypatch)
    with caplog.at_level(logging.INFO, "falcon"):
        assert known().choices == {}
    assert len(caplog.records) == 1 and "is ignored" in caplog.text
    keep("b")
    forget(monkeypatch)
    assert list(known().choices) == ["b"]


def test_a_folder_that_cannot_be_written_to(folder, monkeypatch, caplog):
    monkeypatch.setenv("FALCON_CACHE_DIR", "/proc/none")
    forget(monkeypatch)
    with caplog.at_level(logging.INFO, "falcon"):
        keep("a", in_this_process=True)
    assert known().choices == {"a": ENTRY}
    assert "is not stored" in caplog.text


def test_a_pinned_profile_decides_alone(monkeypatch, tmp_path):
    keep("a")
    monkeypatch.setenv("FALCON_PROFILE", str(tmp_path / "none.json"))
    forget(monkeypatch)
    assert known().choices == {}
    assert not learned.has_file(available_backends())


@pytest.mark.skipif(not hasattr(os, "umask"), reason="no umask on this system")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_the_mode_of_files_follows_the_umask(folder, mask, mode):
    before = os.umask(mask)
    try:
        write_json(folder / "x.json", {})
    finally:
        os.umask(before)
    assert (folder / "x.json").stat().st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_can_change_the_store_while_a_thread_of_the_parent_does():
    with learned._lock.lock:
        child = os.fork()
        if child == 0:
            import signal

            signal.alarm(5)  # ends a child that waits for ever for a lock
            keep("a", in_this_process=True)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
