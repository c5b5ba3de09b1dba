"""Fixtures of the tests of the CPU backend."""

from pathlib import Path

import pytest

from ..support import alone
from . import emulated


@pytest.fixture(scope="session")
def emulated_libraries(built):
    """Emulated kernels: kind -> shared library."""
    folder = Path(emulated.TRAPPED or built)
    with alone(folder):
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
