"""Fixtures of the tests of the CPU backend."""

import pytest

from . import emulated


@pytest.fixture(scope="session")
def tile_libraries(tmp_path_factory):
    """Emulated AMX kernels: kind -> shared library."""
    return emulated.libraries(tmp_path_factory.mktemp("tiles"))


@pytest.fixture
def isa(request):
    """An instruction set; for a kind of emulated tiles, AMX by that emulation during the test."""
    if request.param not in emulated.KINDS:
        yield request.param
        return
    libraries = request.getfixturevalue("tile_libraries")
    with emulated.tiles(libraries, request.param) as name:
        yield name
