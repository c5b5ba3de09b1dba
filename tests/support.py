"""What tests of several folders share."""

import os
import subprocess
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ROOT = Path(__file__).resolve().parents[1]
# Seconds: a limit of time in a test ends what hangs on any machine, and says nothing about speed.
HANG = 3600
# What differs from the first run, of all tests, that .ci/run has made on this machine.
CHANGED = os.environ.get("FALCON_TESTS_CHANGED")


def is_drawn(name, one_in):
    """Whether a case is in the sample of this run; the sample is always the same."""
    return zlib.crc32(f"{CHANGED} {name}".encode()) % one_in == 0


@contextmanager
def alone(folder):
    """One process of a run after the other: the first one compiles, the others find it done."""
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def python(*arguments, status=0, where=None, **environment):
    """Run Python in a fresh process; returns it with its output. Any status will do if None.

    `where` are more keywords of `subprocess.run`.
    """
    about = {"cwd": ROOT, "timeout": HANG, "capture_output": True, "text": True, **(where or {})}
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, *map(str, arguments)], env=given, **about)
    said = f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    assert status in (None, done.returncode), said
    return done
