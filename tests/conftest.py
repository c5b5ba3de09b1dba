"""Set-up of the test run: folders of its own, and the long tests of ``-m soak``."""

import atexit
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from .support import CHANGED, is_drawn

MANY = 24  # cases of one test

# Before falcon is imported anywhere, and inherited by workers and subprocesses: the machine is
# measured once per run, and the user's own profile neither read nor written.
if "FALCON_TESTS_CACHE" not in os.environ:
    os.environ["FALCON_TESTS_CACHE"] = tempfile.mkdtemp(prefix="falcon-tests-")
    atexit.register(shutil.rmtree, os.environ["FALCON_TESTS_CACHE"], ignore_errors=True)
os.environ["FALCON_CACHE_DIR"] = os.environ["FALCON_TESTS_CACHE"]
os.environ.pop("FALCON_PROFILE", None)
# Tests of three threads and more are for small machines too.
os.environ["FALCON_OVERSUBSCRIBE"] = "1"
# How long a case takes says nothing on a loaded machine.
settings.register_profile("falcon", deadline=None)
settings.load_profile("falcon")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of what tests compile once, for all processes of a run, or for several runs."""
    base = tmp_path_factory.getbasetemp()
    own = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built"
    folder = Path(os.environ.get("FALCON_TESTS_BUILT", own))
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def doors(monkeypatch):
    """What reaches into falcon's modules: tests/doors.py."""
    from .doors import Doors  # which imports falcon

    return Doors(monkeypatch)


@pytest.fixture
def clean():
    """Forget what a test registers."""
    from falcon.schemes import catalogue

    yield
    if catalogue._registered:
        catalogue._registered.clear()
        catalogue._generation += 1
        catalogue._get.cache_clear()
        catalogue._table.cache_clear()


@pytest.fixture
def engine():
    """For tests of what only falcon's own kernels do: elsewhere they are skipped."""
    return pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")


def pytest_collectstart(collector):
    """Tests hold no examples: whoever looks for some hides that a file cannot be imported."""
    if type(collector).__name__ == "DoctestModule":
        collector.collect = lambda: ()


def pytest_configure(config):
    for mark in ("thread_unsafe", "leaks_references", "valgrind_error"):
        config.addinivalue_line("markers", f"{mark}: used by NumPy's tests")
    if (
        getattr(config.option, "maxworkerrestart", "") is None
    ):  # xdist would end the run after a few
        config.option.maxworkerrestart = "100"  # a crash is one failure


def pytest_collection_modifyitems(config, items):
    """With ``-m soak``, property tests run 10^5 cases each; without, soak tests are left out.

    So are most cases of a test of many, where all of them have run before; tests/contract chooses
    by what has changed.
    """
    soaks = "soak" in config.getoption("markexpr").replace("not soak", "")
    sampled = CHANGED not in (None, "packages")
    cases = Counter(x.nodeid.partition("[")[0] for x in items if "/contract/" not in x.nodeid)
    left = []
    for item in items:
        own = getattr(getattr(item, "obj", None), "hypothesis", None)
        if soaks and own is not None:
            item.add_marker("soak")
            with_more(item.obj)
        if not soaks and item.get_closest_marker("soak") is not None:
            left.append(item)
        elif sampled and cases[item.nodeid.partition("[")[0]] > MANY:
            left += [] if is_drawn(item.nodeid, 4) else [item]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = {*left}
        items[:] = [item for item in items if item not in gone]


def with_more(test):
    """Give a property test the budget of a soak."""
    name = "_hypothesis_internal_use_settings"  # where the decorator puts them
    setattr(test, name, settings(getattr(test, name), max_examples=10**5))
