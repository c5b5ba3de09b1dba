"""What the tests of falcon.torch share."""

import pytest

collect_ignore = ["support.py"]  # it has no doctests, and cannot be imported without torch


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    """Products that are left to torch otherwise."""
    ops = pytest.importorskip("falcon.torch.ops")
    monkeypatch.setattr(ops, "LEAST_PRODUCT", 0)
    monkeypatch.setattr(ops, "LEAST_ROWS", 2)
    monkeypatch.setattr(ops, "_is_batch_for_torch", lambda *_: False)
