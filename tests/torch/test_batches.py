"""Batches of tensors: which falcon's engine multiplies, and calls without torch's dispatcher."""

import pytest

import falcon
from falcon._cpu import extension

from .support import integers

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

COUNT, M, K, N = 3000, 20, 24, 18


@pytest.fixture
def used(monkeypatch, doors):
    """Shapes of what falcon multiplied; 2 threads, and the sizes that users have."""
    monkeypatch.undo()
    if extension.why_unavailable() is not None or extension.isa() == "generic":
        pytest.skip("no kernels that beat a BLAS")
    threads = torch.get_num_threads()
    found = doors.watched(falcon, "matmul", seen=lambda a, *_, **__: a.shape)
    torch.set_num_threads(2)
    yield found
    torch.set_num_threads(threads)


def operands(dtype):
    """Pairs of operands, all of them long batches: by rows, transposed, views, broadcast."""
    a, b = integers(COUNT, M, K, dtype=dtype), integers(COUNT, K, N, dtype=dtype)
    yield a, b
    yield a.mT.contiguous().mT, b
    yield a.view(60, 50, M, K).transpose(0, 1), b.view(60, 50, K, N).transpose(0, 1)
    yield a.view(60, 50, M, K), b[:50]
    yield torch.cat([a, a], 2)[..., ::2], b.mT.contiguous().mT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_long_batches_are_exact_on_integers_with_gradients(dtype, used):
    for a, b in operands(dtype):
        expected = torch.matmul(a.double(), b.double())
        made = falcon.torch.matmul(a, b)
        assert made.dtype is dtype
        assert made.is_contiguous()
        assert torch.equal(made.double(), expected)
        assert torch.equal(torch.ops.falcon.matmul(a, b), made)
        x, y = a.detach().requires_grad_(), b.detach().requires_grad_()
        weights = integers(*expected.shape, dtype=dtype)
        found = torch.autograd.grad(falcon.torch.matmul(x, y), (x, y), weights)
        right = torch.autograd.grad(torch.matmul(x, y), (x, y), weights)
        assert all(map(torch.equal, found, right))
        assert len(used) >= 4
        used.clear()


def test_others_stay_torchs(used):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        a, b = integers(COUNT, M, K, dtype=dtype), integers(COUNT, K, N, dtype=dtype)
        if dtype in (torch.float32, torch.float64):
            a, b = a[:50], b[:50]
        assert torch.equal(falcon.torch.matmul(a, b), torch.matmul(a, b))
    a, b = integers(COUNT, M, K).float(), integers(COUNT, N, K).float().mT  # few rows, B by columns
    assert torch.equal(falcon.torch.matmul(a, b), torch.matmul(a, b))
    torch.set_num_threads(1)
    assert torch.equal(falcon.torch.matmul(a, b.contiguous()), torch.matmul(a, b))
    assert used == []


def test_bits_are_those_of_numpys_arrays_and_of_any_threads(used):
    a, b = torch.randn(COUNT, M, K), torch.randn(COUNT, K, N)
    made = falcon.torch.matmul(a, b)
    assert torch.equal(made, torch.from_numpy(falcon.matmul(a.numpy(), b.numpy(), threads=2)))
    torch.set_num_threads(5)
    assert torch.equal(falcon.torch.matmul(a, b), made)
    assert len(used) == 3


class Calls(TorchDispatchMode):
    """The operators that torch dispatches."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names = [*getattr(self, "names", []), func.name()]
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    """A tensor with torch's own rules, which is still one afterwards."""


def test_modes_and_the_profiler_see_the_operator():
    a, b = integers(5, 4, 6), integers(5, 6, 3)
    x, w = integers(9, 6), integers(8, 6)
    with Calls() as calls:
        falcon.torch.matmul(a, b)
        falcon.torch.linear(x, w)
    assert {"falcon::matmul", "falcon::linear"} <= {*calls.names}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        falcon.torch.matmul(a.requires_grad_(), b)
    assert "falcon::matmul" in {x.key for x in profile.key_averages()}
    assert type(falcon.torch.matmul(a.detach().as_subclass(Subclass), b)) is Subclass
    negative = torch.complex(a.detach(), a.detach()).conj().imag
    assert torch.equal(falcon.torch.matmul(negative, b), torch.matmul(negative, b))
    with torch.inference_mode():
        assert torch.equal(falcon.torch.matmul(a, b), torch.matmul(a, b))
