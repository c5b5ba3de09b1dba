"""What every test of the command line undoes."""

import logging

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def quiet(doors):
    """Undo what the command line does to logging; no progress, and no pauses between timings.

    Whether other tests compute beside them does not matter.
    """
    doors.numbers(first_progress=1e6, disturbed=np.inf, least_cpu=0.0)
    doors.no_pauses()
    root, own = logging.getLogger(), logging.getLogger("falcon")
    handlers, level = list(root.handlers), own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)
