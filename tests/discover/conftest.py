"""What tests of the search share by themselves."""

import pytest

from falcon.schemes import additions


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Forget after each test the sums of the schemes that it found: other tests count the known."""
    monkeypatch.setattr(additions, "_remembered", dict(additions._remembered))
