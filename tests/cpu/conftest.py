"""Fixtures of the tests of the CPU backend."""

import os
from pathlib import Path

import pytest

from . import emulated

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@pytest.fixture(scope="session")
def emulated_libraries(tmp_path_factory):
    """Emulated kernels: kind -> shared library; one worker compiles for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "emulated"
    folder = Path(emulated.TRAPPED or folder)
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        return emulated.libraries(folder)


@pytest.fixture
def isa(request):
    """An instruction set; for a kind of emulated kernels, theirs during the test."""
    if request.param not in emulated.KINDS:
        yield request.param
        return
    libraries = request.getfixturevalue("emulated_libraries")
    with emulated.kernels(libraries, request.param) as name:
        yield name
