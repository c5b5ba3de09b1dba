"""A plugin for pytest: results are written as they come, and a later run does what is left.

``python -m pytest -p tests.gpu.pieces -m gpu --record FILE --budget 300`` stops after 300 seconds;
the same command goes on. FILE has a line of JSON per test; those that passed are not run again, and
those that failed are the last. An error that loses the device ends the process. The run is complete
if nothing failed and a test has passed.
"""

import json
import sys
import time
from pathlib import Path

import pytest

from falcon._gpu import device


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
        self._seconds, self._worst, self._lost = {}, {}, False

    def outcomes(self):
        """Return the outcomes of the tests, the last time that they ran."""
        lines = self._path.read_text().splitlines() if self._path.exists() else ()
        return {x["test"]: x["outcome"] for x in map(json.loads, lines)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        known = self.outcomes()
        done = [item for item in items if known.get(item.nodeid) == "passed"]
        if done:
            config.hook.pytest_deselected(items=done)
        left = [item for item in items if known.get(item.nodeid) != "passed"]
        items[:] = sorted(left, key=lambda item: known.get(item.nodeid) == "failed")

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
            self._lost = worst.outcome == "failed" and "cupy" in sys.modules and device.is_lost()
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        over = self._end is not None and time.monotonic() > self._end and self._seconds
        if over or self._lost:
            why = "the device is lost" if self._lost else "the time is up"
            item.session.shouldstop = f"{why}; the same command goes on"
            return True
        return None

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = int("passed" not in self.outcomes().values())
