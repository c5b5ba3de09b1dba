"""What tests of the search share by themselves."""

import pytest

from falcon import schemes
from falcon.schemes import additions


@pytest.fixture(scope="session")
def _catalogue():
    """Load the catalogue before any test: loading remembers the sums in its files."""
    for name in schemes.names():
        schemes.get(name)


@pytest.fixture(autouse=True)
def _forgetful(_catalogue, monkeypatch):
    """Forget after each test the sums that it found: other tests count those of the catalogue."""
    monkeypatch.setattr(additions, "_remembered", dict(additions._remembered))
