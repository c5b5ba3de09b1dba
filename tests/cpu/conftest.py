"""Fixtures of the tests of the CPU backend."""

from pathlib import Path

import pytest

from . import emulated

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@pytest.fixture(scope="session")
def emulated_libraries(built):
    """Emulated kernels: kind -> shared library; one worker compiles for all."""
    folder = Path(emulated.TRAPPED or built)
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
