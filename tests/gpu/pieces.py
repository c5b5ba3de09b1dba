"""A plugin for pytest: results are written as they come, and a later run does what is left.

``python -m pytest -p tests.gpu.pieces -m gpu --record FILE --budget 300`` stops after 300 seconds;
the same command goes on. FILE has a line of JSON per test; those that passed are not run again.
"""

import json
import time
from pathlib import Path

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("pieces")
    group.addoption("--record", type=Path, metavar="FILE", help="written to, gone on from")
    group.addoption("--budget", type=float, metavar="S", help="start no test after S seconds")


def pytest_configure(config):
    if config.getoption("record"):
        config.pluginmanager.register(Pieces(config), "pieces of a run")


class Pieces:
    """The record of a run, and the time that is left for it."""

    def __init__(self, config):
        self._path = config.getoption("record")
        budget = config.getoption("budget")
        self._end = None if budget is None else time.monotonic() + budget
        self._seconds, self._worst = {}, {}

    def passed(self):
        """Return the tests that passed, the last time that they ran."""
        if not self._path.exists():
            return set()
        lines = [json.loads(x) for x in self._path.read_text().splitlines()]
        last = {x["test"]: x["outcome"] for x in lines}
        return {test for test, outcome in last.items() if outcome == "passed"}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        passed = self.passed()
        done = [item for item in items if item.nodeid in passed]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if item.nodeid not in passed]

    def pytest_runtest_logreport(self, report):
        test = report.nodeid
        self._seconds[test] = self._seconds.get(test, 0.0) + report.duration
        if report.outcome != "passed":
            self._worst[test] = report
        if report.when != "teardown":
            return
        worst = self._worst.get(test, report)
        line = {"test": test, "outcome": worst.outcome, "seconds": round(self._seconds[test], 3)}
        if worst.outcome != "passed":
            line["why"] = worst.longreprtext
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if self._end is not None and time.monotonic() > self._end and self._seconds:
            item.session.shouldstop = "the time is up; the same command goes on"
            return True
        return None
