"""A subject as a fixture; one that cannot run here is skipped with its reason."""

import pytest

from ..gpu.conftest import compiled_once, cupy, state  # noqa: F401  (fixtures)


@pytest.fixture
def subject(request):
    made = request.param
    reason = made.why_absent()
    if reason is not None:
        pytest.skip(f"backend {made.backend}: {reason}")
    if made.library == "cupy":
        request.getfixturevalue("cupy")
    for row in made.rows:
        pytest.importorskip(row.module)
    made.arrays.require()
    return made
