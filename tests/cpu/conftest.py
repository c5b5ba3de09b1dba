"""Fixtures of the tests of the CPU backend."""

import pytest

from . import emulated


@pytest.fixture(scope="session")
def tile_libraries(tmp_path_factory):
    """Kernels for AMX that need no AMX: kind -> shared library."""
    return emulated.libraries(tmp_path_factory.mktemp("tiles"))


@pytest.fixture
def isa(request):
    """An instruction set; a kind of emulated tiles: AMX by them, for as long as the test runs."""
    if request.param not in emulated.KINDS:
        yield request.param
        return
    libraries = request.getfixturevalue("tile_libraries")
    with emulated.tiles(libraries, request.param) as name:
        yield name
