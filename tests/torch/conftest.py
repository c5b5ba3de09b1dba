"""What the tests of falcon.torch share."""

import pytest

collect_ignore = ["support.py"]  # it has no doctests, and cannot be imported without torch


@pytest.fixture(autouse=True)
def small_ones_too(doors):
    """Products that are left to torch otherwise."""
    pytest.importorskip("falcon.torch.ops")
    doors.numbers(torch_product=0, torch_rows=2)
    doors.no_batch_is_torchs()
