"""A subject as a fixture; one that cannot run here is skipped with its reason."""

import pytest

import falcon
from falcon._backends import BACKENDS

from ..gpu.conftest import compiled_once, cupy, state  # noqa: F401  (fixtures)
from .support import THIRD


@pytest.fixture
def third(doors, monkeypatch):
    """A backend that falcon does not know, in its table before the first product."""
    reason = THIRD.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setitem(BACKENDS, THIRD.name, THIRD)
    doors.new_process()
    return THIRD


@pytest.fixture
def subject(request):
    made = request.param
    reason = made.why_absent()
    if reason is not None:
        pytest.skip(f"backend {made.backend}: {reason}")
    if made.library == "cupy":
        request.getfixturevalue("cupy")
    if made.backend == THIRD.name:
        request.getfixturevalue("third")
    for row in made.rows:
        pytest.importorskip(row.module)
    made.arrays.require()
    with falcon.config(reproducible=made.reproducible):
        yield made
