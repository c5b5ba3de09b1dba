"""Fixtures of the tests of the CPU backend."""

import pytest

from . import emulated


@pytest.fixture(scope="session")
def emulated_libraries(tmp_path_factory):
    """Emulated kernels: kind -> shared library."""
    return emulated.libraries(tmp_path_factory.mktemp("emulated"))


@pytest.fixture
def isa(request):
    """An instruction set; for a kind of emulated kernels, theirs during the test."""
    if request.param not in emulated.KINDS:
        yield request.param
        return
    libraries = request.getfixturevalue("emulated_libraries")
    with emulated.kernels(libraries, request.param) as name:
        yield name
