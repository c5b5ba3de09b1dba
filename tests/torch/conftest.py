"""What the tests of falcon.torch share."""

import pytest

import falcon

from ..doors import Doors

collect_ignore = ["support.py"]  # it has no doctests, and cannot be imported without torch


@pytest.fixture(autouse=True)
def small_ones_too(doors):
    """Products that are left to torch otherwise."""
    pytest.importorskip("falcon.torch.ops")
    doors.numbers(torch_product=0, torch_rows=2)
    doors.no_batch_is_torchs()


@pytest.fixture
def products():
    """The right operands of `falcon.gemm`, on as many threads as torch uses."""
    torch = pytest.importorskip("torch")

    def seen(a, b, *_, **options):
        assert options["threads"] == torch.get_num_threads()
        return b

    with pytest.MonkeyPatch.context() as patch:  # also where a test undoes the fixture above
        yield Doors(patch).watched(falcon, "gemm", seen=seen)
