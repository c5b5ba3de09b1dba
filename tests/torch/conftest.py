"""What the tests of falcon.torch share."""

import pytest

import falcon

collect_ignore = ["support.py"]  # it has no doctests, and cannot be imported without torch


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    """Products that are left to torch otherwise."""
    ops = pytest.importorskip("falcon.torch.ops")
    monkeypatch.setattr(ops, "LEAST_PRODUCT", 0)
    monkeypatch.setattr(ops, "LEAST_ROWS", 2)
    monkeypatch.setattr(ops, "_is_batch_for_torch", lambda *_: False)


@pytest.fixture
def products():
    """The right operands of `falcon.gemm`, on as many threads as torch uses."""
    torch, operands, gemm = pytest.importorskip("torch"), [], falcon.gemm

    def watched(a, b, *others, **options):
        operands.append(b)
        assert options["threads"] == torch.get_num_threads()
        return gemm(a, b, *others, **options)

    with pytest.MonkeyPatch.context() as patch:  # also where a test undoes the fixture above
        patch.setattr(falcon, "gemm", watched)
        yield operands
