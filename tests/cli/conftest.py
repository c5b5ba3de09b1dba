"""What every test of the command line undoes."""

import logging

import pytest


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Undo what the command line does to logging, and do without progress on a busy machine."""
    monkeypatch.setattr("falcon._core.progress._FIRST", 1e6)
    root, own = logging.getLogger(), logging.getLogger("falcon")
    handlers, level = list(root.handlers), own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)
