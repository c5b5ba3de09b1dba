"""What every test of the command line undoes."""

import logging

import pytest


@pytest.fixture(autouse=True)
def quiet():
    """Undo what the command line does to logging."""
    root, own = logging.getLogger(), logging.getLogger("falcon")
    handlers, level = list(root.handlers), own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)
