"""Tensors and layers of torch in GPU memory: torch's own, all of which say that they are there."""

from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

import falcon
from falcon._gpu import cublas, device, workspaces
from falcon._gpu.arrays import _Torch
from falcon._tools.timing import Estimate

from .conftest import forget
from .fake_cupy import State

torch = pytest.importorskip("torch")
convert = pytest.importorskip("falcon.torch.convert")
ops = pytest.importorskip("falcon.torch.ops")
stock = pytest.importorskip("falcon.torch.stock")
support = pytest.importorskip("tests.torch.support")
nn, functional = torch.nn, torch.nn.functional
exact, convert_, FalconLinear = support.exact, falcon.torch.convert_, falcon.torch.FalconLinear


class Gpu:
    """The device of all tensors; what happened on it."""

    def __init__(self):
        self.is_used, self.waits, self.products, self.linears = True, [], [], 0
        self.streams, self.allocated, self.places = [], [], []
        self.index = 0
        self.capturing = False

    @property
    def device(self):
        return torch.device(f"cuda:{self.index}" if self.is_used else "cpu")


@pytest.fixture
def gpu(cupy, state, monkeypatch, doors):
    made, empty = Gpu(), torch.empty

    def on_cpu(*shape, device=None, **options):
        return empty(*shape, **options)

    def storage(nbytes, device):
        made.allocated.append(nbytes)
        made.places.append(device)
        if state.room is not None and nbytes > state.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        room = empty(nbytes + 256, dtype=torch.uint8).fill_(255)
        return room[-room.data_ptr() % 256 :][:nbytes]

    def count(*_, **__):
        made.linears += 1

    stream = SimpleNamespace(cuda_stream=42)
    for owner, name, x in (
        (torch.Tensor, "is_cuda", property(lambda _: made.is_used)),
        (torch.Tensor, "is_cpu", property(lambda _: not made.is_used)),
        (torch.Tensor, "device", property(lambda _: made.device)),
        (torch.Tensor, "__dlpack_device__", lambda _: (2 if made.is_used else 1, made.index)),
        (torch.cuda, "current_stream", lambda index=0: made.streams.append(index) or stream),
        (torch.cuda, "synchronize", made.waits.append),
        (torch.cuda, "is_current_stream_capturing", lambda: made.capturing),
        (_Torch, "__init__", lambda x: setattr(x, "_module", torch)),
        (torch, "empty", on_cpu),
        (torch, "UntypedStorage", storage),
        (State, "owner", lambda state, _: state.device),  # torch's memory too
    ):
        monkeypatch.setattr(owner, name, x)
    made.products = doors.watched(falcon, "gemm", seen=lambda _, b, *__, **___: b)
    doors.watched(functional, "linear", seen=count)
    doors.numbers(torch_product=0, torch_rows=2)
    doors.forget_torchs_products()
    return made


def config(**options):
    known = {"measure": False, "min_m": 8, "rows": 40, "scheme": "strassen"}
    return falcon.torch.LinearConfig(**{**known, **options})


def whole(*shape, dtype=torch.float32):
    return support.integers(*shape, dtype=dtype)


def layer(dtype=torch.float32, bias=True):
    return support.layer(dtype=dtype, bias=bias)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_products_are_those_of_packed_weights(gpu, dtype, bias):
    made = layer(dtype, bias)
    (row,) = convert_(made, config(max_growth=9.0)).rows
    assert (type(made), row["packed"], row["scheme"]) == (FalconLinear, True, "strassen")
    assert row["extra_bytes"] == made._panels.nbytes > 0
    assert row["gain"] > 0
    gpu.linears = 0
    with torch.no_grad():
        for _ in range(2):  # the second one is repeated
            x = whole(3, 7, 48, dtype=dtype)
            assert torch.equal(made(x).double(), exact(x, made))
        assert gpu.linears == 2
        assert [type(b) for b in gpu.products] == [falcon.PackedOperand] * 2
        assert {b.backend for b in gpu.products} == {"gpu"}
        made(whole(2, 48, dtype=dtype))
    assert (gpu.linears, len(gpu.products)) == (3, 2)


def test_gradients(gpu):
    made = layer()
    convert_(made, config())
    support.check_gradients(made, torch.float32)


def test_panels_follow_the_weight(gpu):
    """To another device, and into new values; a capture would only record that they are made."""
    made, x = layer(), whole(9, 48)
    convert_(made, config())
    before = made._panels.of(made.weight)
    with torch.no_grad():
        made.weight.mul_(-1)
        gpu.capturing = True
        assert torch.equal(made(x).double(), exact(x, made))
        assert not gpu.products
        gpu.capturing = False
        assert torch.equal(made(x).double(), exact(x, made))
        assert gpu.products.pop() is not before
        gpu.is_used = False
        assert torch.equal(made(x).double(), exact(x, made))
    assert gpu.products.pop().backend != "gpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("measure", [True, False])
def test_cublas_is_as_fast(gpu, dtype, measure):
    """Here too small for all else; a layer that was converted on the CPU is torch's as well."""
    made, x = layer(dtype), whole(9, 48, dtype=dtype)
    (row,) = convert_(made, config(scheme="auto", measure=measure)).rows
    assert (type(made), row["reason"]) == (nn.Linear, "cuBLAS is as fast")
    gpu.is_used = False
    assert convert_(made, config(scheme="auto")).rows[0]["scheme"] is not None
    gpu.is_used = True
    gpu.products.clear()
    gpu.linears = 0
    with torch.no_grad():
        assert torch.equal(made(x).double(), exact(x, made))
    assert (gpu.linears, gpu.products) == (2, [])


def test_without_room_for_panels(gpu, state):
    """The scheme runs without them; without a workspace, torch's product."""
    made, x = layer(), whole(9, 48)
    (row,) = convert_(made, config(memory_limit=1)).rows
    assert (row["scheme"], row["packed"], row["extra_bytes"]) == ("strassen", False, 0)
    big = whole(50, 48)
    with torch.no_grad():
        assert torch.equal(made(big).double(), exact(big, made))
        assert [type(b) for b in gpu.products] == [torch.Tensor]
        assert torch.equal(made(x).double(), exact(x, made))
    assert len(gpu.products) == 1


def test_short_memory(gpu, monkeypatch):
    made, x = layer(), whole(9, 48)
    convert_(made, config())

    def refused(*_):
        raise MemoryError("CUDA out of memory")

    monkeypatch.setattr(_Torch, "allocate", refused)
    with torch.no_grad():
        assert torch.equal(made(x).double(), exact(x, made))
    assert convert_(layer(), config()).rows[0]["reason"] == "CUDA out of memory"


def test_short_memory_for_a_handle_of_cublas(gpu, monkeypatch):
    """Each thread needs one: without it, a layer's product is torch's."""
    made, x = layer(), whole(9, 48)
    convert_(made, config())
    products = []
    monkeypatch.setattr(cublas._library(), "cublasCreate_v2", lambda _: 3)

    def product():
        with torch.no_grad():
            products.append(made(x))

    thread = Thread(target=product)
    thread.start()
    thread.join()
    assert torch.equal(products[0].double(), exact(x, made))


def test_short_memory_for_the_first_product(gpu, state):
    """Nothing was tried before: a layer's product is torch's."""
    made, x = layer(), whole(9, 48)
    convert_(made, config())
    forget()
    state.room = 0
    with torch.no_grad():
        assert torch.equal(made(x).double(), exact(x, made))


def test_what_is_left_to_torch(gpu, monkeypatch):
    (row,) = convert_(layer(), config(scheme="auto", batch_invariant=True)).rows
    assert row["reason"] == "on cuda:0, where batch_invariant=True cannot be kept"
    made, x = layer(), whole(9, 48)
    convert_(made, config())
    backend = SimpleNamespace(why_unavailable=lambda: "CuPy is not installed")
    for module in (convert, stock):
        monkeypatch.setattr(module, "device_backend", lambda: backend)
    for part in (made(x), made(x.requires_grad_())):
        assert torch.equal(part.double(), exact(x, made))
    assert not gpu.products
    (row,) = convert_(layer(), config()).rows
    assert row["reason"] == "on cuda:0: CuPy is not installed"


@pytest.mark.parametrize(("gains", "packed"), [([2.0, 1.5], True), ([1.5, 1.5], False)])
def test_timing_decides(gains, packed, gpu, doors):
    """A plan of another arithmetic stands for what pays on large layers."""
    found = []

    def timed(*about):
        found.append(about)
        return [Estimate(x, x, x, 5) for x in gains]

    doors.conversion(gains=timed, is_library=lambda _: False)
    (row,) = convert_(layer(), config(scheme="auto", measure=True, min_m=40)).rows
    assert (row["packed"], row["gain"], row["measured"]) == (packed, gains[0], True)
    assert len(found) == 1


def test_torchs_own_product_gains_nothing(gpu, doors):
    plans = iter([False, True])
    found = [Estimate(x, x, x, 5) for x in (1.0, 1.3)]
    doors.conversion(gains=lambda *_: found, is_library=lambda _: next(plans))
    (row,) = convert_(layer(), config(scheme="auto", measure=True)).rows
    assert row["reason"] == "gains too little: 1.00"


def test_tf32_is_compared_by_times(gpu, doors):
    doors.conversion(is_library=lambda _: False, uses_tf32=lambda _: True)
    (row,) = convert_(layer(), config(scheme="auto")).rows
    assert row["scheme"] is None
    assert "TF32" in row["reason"]


def test_timings_wait_for_the_device(gpu):
    made = nn.Sequential(layer())
    gpu.waits.clear()
    found = convert_(made, config(min_m=8), example=whole(40, 48)).forward
    assert set(gpu.waits) == {gpu.device}
    assert len(gpu.waits) >= 4
    assert np.isfinite(found.gain)
    assert 0 < found.share <= 1
    gpu.waits.clear()
    (gain,) = convert.gains(made[0], 9, lambda x: nn.functional.linear(x, made[0].weight))
    assert gain.median > 0
    assert set(gpu.waits) == {gpu.device}


# --- products of tensors --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tensors(gpu, state, dtype):
    a, b = whole(40, 50, dtype=dtype), whole(50, 60, dtype=dtype)
    c = falcon.gemm(a, b, scheme="strassen")
    assert (type(c), c.dtype) == (torch.Tensor, dtype)
    assert (gpu.streams, state.stream, state.current) == ([0, 0], 42, 7)
    assert torch.equal(c.double(), a.double() @ b.double())
    assert torch.equal(falcon.gemm(a, falcon.pack(b, scheme="strassen")), c)
    batch = falcon.matmul(a.reshape(2, 20, 50), b, scheme="strassen")
    assert torch.equal(batch.reshape(40, 60), c)
    assert torch.equal(falcon.einsum("ij,jk->ki", a, b), c.T)


def test_the_workspace_of_tensors_is_torchs(gpu, state, monkeypatch):
    """CuPy's pool does not see torch's and would run out first; torch's graphs keep their own."""
    a, b = whole(50, 50, dtype=torch.bfloat16), whole(50, 100, dtype=torch.bfloat16)[:, ::2]
    falcon.pack(b, scheme="strassen")  # all kernels are compiled
    falcon.gemm(a, b, out=a, scheme="strassen")
    gpu.allocated.clear()
    monkeypatch.setattr(device, "allocate", lambda nbytes: 1 / 0)
    out = torch.empty(50, 50, dtype=a.dtype)
    state.capturing = True
    for _ in range(2):
        falcon.gemm(a, b, out=out, scheme="strassen")
    state.capturing = False
    workspace = falcon.plan(a, b, scheme="strassen").workspace
    assert gpu.allocated == [workspace, workspaces._CUBLAS_BYTES] * 2
    assert workspaces._kept == []
    assert falcon.pack(b, scheme="strassen").nbytes == gpu.allocated[-1]


def test_the_workspace_is_where_the_kernels_are(gpu, state):
    """Whichever device torch has made its current one."""
    gpu.index = 1
    falcon.pack(whole(50, 50), scheme="strassen")
    falcon.gemm(whole(50, 50), whole(50, 50), scheme="strassen")
    assert set(gpu.places) == {"cuda:1"}


@pytest.mark.parametrize("call", [falcon.gemm, falcon.matmul])
def test_what_is_overwritten_is_not_taken_for_what_was_saved(gpu, call):
    """By the first call, one that is recalled, and a plan: the gradient would be wrong."""
    a = whole(50, 50)
    plan = falcon.plan(a, a)
    for write in (*[lambda out: call(a, a, out=out)] * 2, lambda out: plan(a, a, out)):
        saved, weight = whole(50, 50), whole(50, 50).requires_grad_()
        made = weight * saved
        write(saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            made.sum().backward()
    with torch.inference_mode():
        call(a, a, out=whole(50, 50))


class Wrapper(torch.Tensor):
    """Holds another tensor, as DTensor does, and has no memory of its own."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

    @classmethod
    def __torch_dispatch__(cls, *_, **__):
        raise NotImplementedError


def test_wrappers_are_refused(gpu):
    a = whole(50, 50)
    for _ in range(2):
        for x, y in ((a, Wrapper(a)), (Wrapper(a), a)):
            with pytest.raises(TypeError, match="Wrapper without memory of its own"):
                falcon.gemm(x, y)
        falcon.gemm(a, a)


def test_short_memory_of_torch_makes_auto_classical(gpu, state):
    """A scheme by name raises."""
    a, b = whole(64, 64), whole(64, 64)
    plan = replace(falcon.plan(a, b, scheme="strassen"), guarded=True, optional=True)
    state.room = 16384  # the product, and no workspace, which is not asked for again at once
    assert all(torch.equal(plan(a, b), a @ b) for _ in range(2))
    assert (gpu.allocated, state.launches) == ([plan.workspace], [])
    with pytest.raises(MemoryError, match="CUDA out of memory"):
        falcon.gemm(a, b, scheme="strassen")
    falcon.release_workspace()
    state.room = None
    plan(a, b)
    assert state.launches


def test_tensors_that_are_refused(gpu, cupy):
    x = whole(48, 48).requires_grad_()
    with pytest.raises(TypeError, match=r"no backward pass; pass tensor.detach\(\)"):
        falcon.gemm(x, x)
    with torch.no_grad():
        assert torch.equal(falcon.gemm(x, x), x @ x)
        with pytest.raises(TypeError, match=r"pass tensor.resolve_neg\(\)"):
            falcon.gemm(x, torch._neg_view(x))
        with pytest.raises(TypeError, match="b is of cupy and a of torch"):
            falcon.gemm(x, cupy.asarray(np.ones((48, 48), np.float32)))


def test_tensors_of_the_host_are_not_looked_up_among_those_of_a_gpu(gpu, state, doors):
    """They have the same type: their repeated calls are recalled as NumPy's views."""
    x = whole(48, 48)
    falcon.gemm(x, x)
    entered = doors.entered("gemm")
    for gpu.is_used, products in ((True, 2), (False, 2)):
        assert torch.equal(falcon.gemm(x, x), x @ x)
        assert (entered, len(state.products)) == ([], products)


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_complex_tensors(gpu, scheme):
    """Lazy conjugates are resolved; a view that conjugates cannot be written."""
    a, b = (torch.complex(whole(24, 24), whole(24, 24)) for _ in range(2))
    for x, y in ((a, b), (a.conj(), b), (a, b.mH), (a.mT, b.conj())):
        for _ in range(2):
            assert torch.equal(
                falcon.gemm(x, y, scheme=scheme), x.resolve_conj() @ y.resolve_conj()
            )
    assert torch.equal(falcon.gram(a, scheme=scheme), a.mH.resolve_conj() @ a)
    packed = falcon.pack(b.conj(), scheme=scheme)
    assert torch.equal(falcon.matmul(a, packed), a @ b.conj().resolve_conj())
    with pytest.raises(TypeError, match=r"view that conjugates; pass tensor.resolve_conj\(\)"):
        falcon.gemm(a, b, out=torch.zeros_like(a).conj())
