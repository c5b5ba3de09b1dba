"""Fixtures of the tests of the CPU backend."""

from pathlib import Path

import pytest

from falcon._backends import BACKENDS

from ..support import alone
from . import emulated

# Tests of C, which they compile themselves.
OF_C = ("test_c_driver.py", "test_c_floors.py", "test_neon.py")


def pytest_collectstart(collector):
    """Without the backend others are skipped, with its own reason, before they import anything."""
    if isinstance(collector, pytest.Module) and collector.path.name not in OF_C:
        reason = BACKENDS["cpu"].why_unavailable()
        if reason is not None:
            collector.collect = lambda: pytest.skip(f"backend cpu: {reason}")


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
