"""Options of the test run: marks of NumPy's own test modules, a cache folder of its own."""

import atexit
import os
import shutil
import tempfile

# Before falcon is imported anywhere, and inherited by workers and subprocesses: the machine is
# measured once per run, and the user's own profile neither read nor written.
if "FALCON_TESTS_CACHE" not in os.environ:
    os.environ["FALCON_TESTS_CACHE"] = tempfile.mkdtemp(prefix="falcon-tests-")
    atexit.register(shutil.rmtree, os.environ["FALCON_TESTS_CACHE"], ignore_errors=True)
os.environ["FALCON_CACHE_DIR"] = os.environ["FALCON_TESTS_CACHE"]
os.environ.pop("FALCON_PROFILE", None)
# Tests of three threads and more are for small machines too.
os.environ["FALCON_OVERSUBSCRIBE"] = "1"


def pytest_configure(config):
    for mark in ("thread_unsafe", "leaks_references", "valgrind_error"):
        config.addinivalue_line("markers", f"{mark}: used by NumPy's tests")
