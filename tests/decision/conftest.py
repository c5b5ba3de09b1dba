"""A machine of which nothing is known, with a cache folder of its own."""

import pytest

from falcon._core import options

from .support import forget


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FALCON_PROFILE", raising=False)
    forget(monkeypatch)
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def native(monkeypatch):
    """float32 arithmetic on every machine: rates and candidates are those that a test gives."""
    monkeypatch.setenv("FALCON_ARITHMETIC", "native")
    monkeypatch.setattr(options, "_base", None)
