"""A machine of which nothing is known, with a cache folder of its own."""

import pytest

from .support import forget


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FALCON_PROFILE", raising=False)
    forget(monkeypatch)
    return tmp_path / "cache"
