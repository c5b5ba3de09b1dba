"""falcon on torch's tensors in GPU memory: a stand-in that has what falcon uses of them."""

import sys
import types
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._gpu import device, workspaces

from .support import kind, on_device, whole


class Tensor:
    """The part of a torch.Tensor on "cuda" that falcon uses."""

    def __init__(self, array, dtype, requires_grad=False):
        self.array, self.dtype, self.requires_grad = array, dtype, requires_grad

    shape = property(lambda self: self.array.shape)
    device = property(lambda self: self.array.device.id)
    ndim = property(lambda self: len(self.array.shape))
    _host = property(lambda self: self.array._host)

    is_cuda = True

    def data_ptr(self):
        return self.array.data.ptr

    def stride(self):
        return tuple(x // self.array.dtype.itemsize for x in self.array.strides)

    def is_neg(self):
        return False

    def permute(self, axes):
        return Tensor(self.array.transpose(axes), self.dtype)

    def reshape(self, *shape):
        return Tensor(self.array.reshape(*shape), self.dtype)

    def __getitem__(self, key):
        return Tensor(self.array[key], self.dtype)

    def __dlpack_device__(self):
        return 2, self.array.device.id

    def __dlpack__(self, **_):  # as NumPy asks for it
        raise BufferError("Unsupported device in DLTensor.")


Tensor.__module__ = "torch"


@pytest.fixture
def torch(cupy, state, monkeypatch):
    streams, allocated = [], []
    module = types.ModuleType("torch")
    module.uint8, module.float32 = "torch.uint8", "torch.float32"
    module.bfloat16 = "torch.bfloat16"
    module.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})

    def empty(shape, dtype, device):
        assert device in ("cuda:0", "cuda")
        if dtype == module.uint8:
            allocated.append(shape[0])
            if state.room is not None and shape[0] > state.room:
                raise module.OutOfMemoryError("CUDA out of memory")
        return Tensor(cupy.empty(shape, kind(dtype.removeprefix("torch."))), dtype)

    def current_stream(device=0):
        streams.append(device)
        return types.SimpleNamespace(cuda_stream=42)

    module.empty, module.is_grad_enabled = empty, lambda: True
    module.broadcast_to = lambda x, shape: Tensor(cupy.broadcast_to(x.array, shape), x.dtype)
    module.cuda = types.SimpleNamespace(current_stream=current_stream)
    module.streams, module.allocated = streams, allocated
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_tensors(cupy, torch, state, dtype):
    a, b = whole((40, 50), 1), whole((50, 60), 2)
    tensors = [Tensor(on_device(cupy, x, dtype), f"torch.{dtype}") for x in (a, b)]
    c = falcon.gemm(*tensors, scheme="strassen")
    assert type(c) is Tensor
    assert c.dtype == f"torch.{dtype}"
    np.testing.assert_array_equal(c._host.astype(float), (a @ b).astype(kind(dtype)))
    assert (torch.streams, state.stream, state.current) == ([0, 0], 42, 7)
    packed = falcon.pack(tensors[1], scheme="strassen")
    np.testing.assert_array_equal(falcon.gemm(tensors[0], packed)._host, c._host)
    batch = falcon.matmul(tensors[0].reshape(2, 20, 50), tensors[1], scheme="strassen")
    assert type(batch) is Tensor
    np.testing.assert_array_equal(batch._host.reshape(40, 60), c._host)
    swapped = falcon.einsum("ij,jk->ki", *tensors)
    assert type(swapped) is Tensor
    np.testing.assert_array_equal(swapped._host, c._host.T)


def test_the_workspace_of_tensors_is_torchs(cupy, torch, state, monkeypatch):
    """CuPy's pool does not see torch's and would run out first; torch's graphs keep their own."""
    a, b = (
        Tensor(on_device(cupy, whole((50, 50), x), "bfloat16", order), "torch.bfloat16")
        for x, order in ((1, "C"), (2, "S"))
    )
    falcon.pack(b, scheme="strassen")  # all kernels are compiled
    falcon.gemm(a, b, out=a, scheme="strassen")
    torch.allocated.clear()
    monkeypatch.setattr(device, "allocate", lambda nbytes: 1 / 0)
    out = torch.empty((50, 50), a.dtype, "cuda:0")
    state.capturing = True
    for _ in range(2):
        falcon.gemm(a, b, out=out, scheme="strassen")
    state.capturing = False
    workspace = falcon.plan(a, b, scheme="strassen").workspace
    assert torch.allocated == [workspace, workspaces._CUBLAS_BYTES] * 2
    assert workspaces._kept == []
    packed = falcon.pack(b, scheme="strassen")
    assert packed.nbytes == torch.allocated[-1]


def test_short_memory_of_torch_makes_auto_classical(cupy, torch, state):
    """A scheme by name raises."""
    a, b = (Tensor(on_device(cupy, whole((64, 64), x), "float32"), "torch.float32") for x in (1, 2))
    plan = replace(falcon.plan(a, b, scheme="strassen"), guarded=True, optional=True)
    state.room = 16384  # the product, and no workspace, which is not asked for again at once
    assert all((plan(a, b)._host == a._host @ b._host).all() for _ in range(2))
    assert (torch.allocated, len(state.launches)) == ([plan.workspace], 0)
    with pytest.raises(MemoryError, match="CUDA out of memory"):
        falcon.gemm(a, b, scheme="strassen")
    falcon.release_workspace()
    state.room = None
    plan(a, b)
    assert state.launches


def test_torch_errors(cupy, torch):
    x = Tensor(on_device(cupy, whole((48, 48), 1), "float32"), "torch.float32", requires_grad=True)
    with pytest.raises(TypeError, match=r"no backward pass; pass tensor.detach\(\)"):
        falcon.gemm(x, x)
    torch.is_grad_enabled = lambda: False  # parameters under no_grad
    c = falcon.gemm(x, x)
    np.testing.assert_array_equal(c._host, x._host @ x._host)
    x.requires_grad = False
    x.is_neg = lambda: True
    with pytest.raises(TypeError, match=r"pass tensor.resolve_neg\(\)"):
        falcon.gemm(x, x)
    x.is_neg = lambda: False
    with pytest.raises(TypeError, match="b is of cupy and a of torch"):
        falcon.gemm(x, x.array)


def test_tensors_of_the_host_are_not_looked_up_among_those_of_a_gpu(cupy, torch, doors):
    """They have the same type: their repeated calls are recalled as NumPy's views."""
    x = Tensor(on_device(cupy, whole((48, 48), 1), "float32"), "torch.float32")
    falcon.gemm(x, x)
    entered = doors.entered("gemm")
    falcon.gemm(x, x)
    assert not entered
    x.is_cuda = False
    falcon.gemm(x, x)
    assert entered
