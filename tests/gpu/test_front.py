"""falcon.gemm, matmul, plan and pack on GPU arrays: types, devices, streams, capture, errors."""

import pickle
import re
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import falcon
from falcon._backends import device_backend
from falcon._gpu import available, cublas, workspaces
from falcon._gpu.adapter import of_arrays
from falcon._gpu.runner import Steps

from .conftest import forget
from .support import kind, on_device, whole


@pytest.fixture
def pair(cupy):
    return tuple(on_device(cupy, whole((48, 48), x), "float32") for x in (1, 2))


def test_host_arrays_are_never_moved(cupy, pair):
    host = np.ones((48, 48), np.float32)
    with pytest.raises(TypeError, match=r"move them first \(cupy.asarray\(a\)"):
        falcon.gemm(host, host, backend="gpu")
    with pytest.raises(TypeError, match=r"b is a ndarray in host memory, but another.*cuda:0"):
        falcon.gemm(pair[0], host)
    with pytest.raises(TypeError, match="out is a ndarray in host memory"):
        falcon.gemm(*pair, out=host)
    with pytest.raises(TypeError, match="a is a list in host memory"):
        falcon.gemm([[1.0] * 48], pair[0])
    assert type(falcon.gemm(host, host)) is np.ndarray
    with falcon.config(backend="gpu"), pytest.raises(TypeError, match="move them first"):
        falcon.matmul(np.ones((2, 3, 3)), np.ones((2, 3, 3)))


def test_another_backend_is_an_error(pair):
    for name in ("cpu", "numpy"):
        with pytest.raises(ValueError, match=rf"backend is '{name}', but the operands are in GPU"):
            falcon.gemm(*pair, backend=name)


def test_arguments_are_checked(cupy, pair):
    """Shapes and factors: tests/contract."""
    a, b = pair
    with pytest.raises(TypeError, match="an operand in GPU memory is int32; expected one of"):
        falcon.gemm(cupy.asarray(whole((48, 48), 1).astype(np.int32)), b)
    halves = [on_device(cupy, whole((48, 48), 1), x) for x in ("float16", "bfloat16")]
    with pytest.raises(TypeError, match="no common dtype"):
        falcon.gemm(*halves)
    with pytest.raises(ValueError, match="check='verify' works on the host"):
        falcon.gemm(a, b, check="verify")
    with pytest.raises(ValueError, match="scheme"):
        falcon.gemm(a, b, scheme="nonsense")
    with pytest.raises(ValueError, match="symmetric is 'lower', but on a GPU all of C is written"):
        falcon.gram(a, symmetric="lower")


def test_dtypes_that_are_not_multiplied_on_a_gpu(pair):
    for call in (falcon.gemm, falcon.matmul, falcon.plan):
        with pytest.raises(TypeError, match="dtype is int32; arrays in GPU memory are multiplied"):
            call(*pair, dtype="int32")
        with pytest.raises(TypeError, match=r"dtype is <class 'object'>; expected integers"):
            call(*pair, dtype=object)


def test_unknown_libraries_are_named(cupy):
    class Foreign:
        shape = (2, 2)

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(TypeError, match=r"Foreign is in GPU memory; falcon takes arrays of cupy"):
        falcon.gemm(Foreign(), Foreign())


def test_several_devices(cupy, state):
    with cupy.cuda.Device(1):
        a, b = (on_device(cupy, whole((40, 40), x), "float32") for x in (1, 2))
    assert (a.device.id, state.device) == (1, 0)
    for _ in range(2):
        c = falcon.gemm(a, b, scheme="strassen")  # kernels refuse pointers of another device
        assert (c.device.id, state.device) == (1, 0)
        np.testing.assert_array_equal(cupy.asnumpy(c), cupy.asnumpy(a) @ cupy.asnumpy(b))
    assert falcon.plan(a, b).problem.device == 1
    here = on_device(cupy, whole((40, 40), 1), "float32")
    with pytest.raises(ValueError, match="b is on cuda:0 and a on cuda:1"):
        falcon.gemm(a, here)
    packed = falcon.pack(b, scheme="strassen")
    with pytest.raises(ValueError, match="b is on cuda:1 and a on cuda:0"):
        falcon.gemm(here, packed)


def test_capture(cupy, state, pair):
    """No waiting, no compiling after the first call; what a replay needs outlives the call."""
    a, b = pair
    out, x = cupy.empty((48, 48), np.float32), cupy.asarray(np.ones((3, 8, 8), np.float32))
    tall = on_device(cupy, whole((60, 48), 3), "float32")
    none = cupy.empty((48, 0), np.float32), cupy.empty((0, 48), np.float32)
    calls = {  # how many allocations a graph needs again, with cuBLAS's workspace
        "workspace": (lambda: falcon.gemm(a, b, out=out, scheme="strassen"), 2),
        "cuBLAS alone": (lambda: falcon.gemm(a, b, out=out, scheme="classical"), 1),
        "duplicate": (lambda: falcon.gemm(*none, tall[12:], beta=2.0, out=tall[:48]), 1),
        "buffer of a batch": (lambda: falcon.matmul(x[:1], x, out=x), 2),
        "packed, dropped": (lambda: bool(falcon.pack(b, scheme="strassen")), 1),
    }
    for name, (call, kept) in calls.items():
        call()
        assert workspaces._kept == [], name
        state.capturing = True
        call()
        state.capturing = False
        assert len(workspaces._kept) == kept, name
        falcon.gemm(a, b)
        assert state.workspace is None, name  # the handle's own again
        falcon.release_workspace()
        assert workspaces._kept == []


def test_measuring_during_capture_is_an_error_that_says_what_to_do(cupy, state):
    a, b = (cupy.empty((2048, 2048), np.float32) for _ in range(2))
    state.capturing = True
    with pytest.raises(RuntimeError, match="multiply once before the capture"):
        falcon.plan(a, b)
    state.capturing = False


@pytest.mark.parametrize("scheme", ["auto", "strassen"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 20, 30), (30, 10)),
        ((3, 20, 30), (3, 30, 10)),
        ((2, 1, 20, 30), (3, 30, 10)),
        ((30,), (30, 10)),
        ((20, 30), (30,)),
        ((30,), (30,)),
        ((4, 20, 30), (30,)),
        ((20, 30), (30, 10)),
    ],
)
def test_matmul(cupy, left, right, scheme):
    a, b = whole(left, 1), whole(right, 2)
    operands = [cupy.asarray(x.astype(np.float32)) for x in (a, b)]
    found = falcon.matmul(*operands, scheme=scheme)
    np.testing.assert_array_equal(cupy.asnumpy(found), a @ b)
    out = cupy.empty((a @ b).shape, np.float32)
    assert falcon.matmul(*operands, out=out, scheme=scheme) is out
    np.testing.assert_array_equal(cupy.asnumpy(out), a @ b)


@pytest.mark.parametrize("scheme", ["auto", "strassen"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(40, 48), (3, 20, 16), (2, 2, 9, 8)])
def test_gram(cupy, state, shape, transpose, scheme):
    """As an ordinary product, a batch by one call."""
    x = whole(shape, 1)
    across = x.swapaxes(-1, -2)
    exact = x @ across if transpose else across @ x
    array = cupy.asarray(x.astype(np.float32))
    call = {"transpose": transpose, "scheme": scheme}
    state.products.clear()
    made = falcon.gram(array, **call)
    np.testing.assert_array_equal(cupy.asnumpy(made), exact)
    if scheme == "auto":
        assert [batch for _, batch, *_ in state.products] == [np.prod(shape[:-2], dtype=int)]
    assert falcon.gram(array, alpha=2.0, beta=1.0, c=made, out=made, **call) is made
    np.testing.assert_array_equal(cupy.asnumpy(made), 3 * exact)
    square = array[..., :8, :8]
    host = x[..., :8, :8].astype(float)
    exact = host @ host.swapaxes(-1, -2) if transpose else host.swapaxes(-1, -2) @ host
    falcon.gram(square, out=square, **call)
    np.testing.assert_array_equal(cupy.asnumpy(square), exact)


def test_plans(cupy, pair):
    plan = falcon.plan(*pair, scheme="strassen")
    assert "on cuda:0: strassen on backend gpu" in str(plan)
    c = plan(*pair)
    np.testing.assert_array_equal(cupy.asnumpy(c), cupy.asnumpy(pair[0]) @ cupy.asnumpy(pair[1]))
    with pytest.raises(ValueError, match=r"a is \(48, 48\) float64 on cuda:0; this plan is for"):
        plan(on_device(cupy, whole((48, 48), 1), "float64"), pair[1])
    by_shape = falcon.plan((48, 48), (48, 48), "bfloat16", backend="gpu", scheme="strassen")
    with falcon.config(backend="gpu"):
        same = falcon.plan((48, 48), (48, 48), "bfloat16", scheme="strassen")
    assert same.problem == by_shape.problem
    assert by_shape.growth == pytest.approx(7**0.5)
    assert (by_shape.error_bound(np.ones(48), np.ones(48)) > 0).all()
    with falcon.config(arithmetic="tf32"):
        assert "float32 on cuda:0: tf32 classical" in str(falcon.plan(*pair))


@pytest.fixture
def problems(doors):
    """Those that were multiplied."""
    return doors.multiplied(lambda plan, _: plan.problem)


def test_plans_are_of_the_problem_that_runs(cupy, problems):
    """Over layouts, dtypes, and whether TF32 is allowed."""
    for dtype in ("float32", "bfloat16", "float64"):
        for orders in ("CC", "FC", "SF", "CS"):
            a, b = (on_device(cupy, whole((40, 40), 1), dtype, x) for x in orders)
            for tf32 in (False, True):
                with falcon.config(arithmetic="tf32" if tf32 else "native"):
                    falcon.gemm(a, b, scheme="strassen")
                    falcon.gemm(a, b, out=cupy.empty((40, 40), kind(dtype)), scheme="strassen")
                    assert problems[-2:] == [falcon.plan(a, b, scheme="strassen").problem] * 2


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_batches_are_one_product_that_obeys_tf32(cupy, state, dtype, tf32):
    a, b = whole((3, 20, 30), 1), whole((30, 10), 2)
    left, right = (cupy.asarray(x.astype(kind(dtype))) for x in (a, b))
    with falcon.config(arithmetic="tf32" if tf32 else "native"):
        found = falcon.matmul(left, right)
    np.testing.assert_array_equal(cupy.asnumpy(found), (a @ b).astype(kind(dtype)))
    (product,) = state.products
    fast = tf32 and dtype == "float32"
    assert (product[1], product[3]) == (3, "32F_FAST_TF32" if fast else "32F")


@pytest.mark.parametrize(
    "view", [lambda x: x[:, ::2], lambda x: x.reshape(2, 2, 20, 30), lambda x: x[::2]]
)
def test_batches_of_any_strides(cupy, view):
    """Never by cupy.matmul, which batches of bfloat16 crash; the stand-in has none."""
    assert not hasattr(cupy, "matmul")
    a, b = view(whole((4, 20, 30), 1)), whole((30, 10), 2)
    for first, dtype in (("float32", "float32"), ("float32", "float64"), ("bfloat16", "bfloat16")):
        left = view(cupy.asarray(whole((4, 20, 30), 1).astype(kind(first))))
        right = cupy.asarray(b.astype(kind(dtype)))
        found = falcon.matmul(left, right)
        assert found.dtype == kind(dtype)
        np.testing.assert_array_equal(cupy.asnumpy(found), (a @ b).astype(kind(dtype)))


def test_a_batch_may_be_written_over_an_operand(cupy):
    a = whole((3, 8, 8), 1)
    x = cupy.asarray(a.astype(np.float32))
    assert falcon.matmul(x[:1], x, out=x) is x
    np.testing.assert_array_equal(cupy.asnumpy(x), a[:1] @ a)


def test_overlap_is_seen_whatever_the_strides(cupy):
    """An out between the elements of an operand, which no reshaping shows."""
    whole_of_both = cupy.asarray(whole((3, 8, 16), 1).astype(np.float32))
    a, out = whole_of_both[:, :, ::2], whole_of_both[:, :, 1::2]
    b = cupy.asarray(whole((8, 8), 2).astype(np.float32))
    exact = cupy.asnumpy(a) @ cupy.asnumpy(b)
    adapter = of_arrays({"a": a, "out": out})
    assert adapter.matrix(a).overlaps(adapter.matrix(out))
    assert not adapter.matrix(a).overlaps(adapter.matrix(b))
    assert falcon.matmul(a, b, out=out) is out
    np.testing.assert_array_equal(cupy.asnumpy(out), exact)


def test_packed_operands_are_b_alone(cupy, pair):
    packed = falcon.pack(pair[1], scheme="strassen")
    for call in (
        lambda: falcon.gemm(packed, pair[1]),
        lambda: falcon.gemm(*pair, packed, beta=1.0),
        lambda: falcon.matmul(packed, pair[1]),
        lambda: falcon.plan(packed, packed),
        lambda: falcon.pack(packed),
    ):
        with pytest.raises(TypeError, match="a PackedOperand, which gemm, matmul and plan take"):
            call()
    plan = falcon.plan(pair[0], packed)
    assert plan.problem.device == 0
    with pytest.raises(ValueError, match="this plan is for a packed operand"):
        plan(*pair)
    assert (plan.method.label, plan.backend.name) == ("strassen", "gpu")


def test_a_new_result_takes_no_copy_of_c(cupy, problems):
    """As one that is given; nor do threads of the host matter to a device."""
    a, b, c = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2, 3))
    for threads in (None, 1, 7):
        falcon.gemm(a, b, c, beta=1.0, scheme="strassen", threads=threads)
    falcon.gemm(a, b, c, beta=1.0, scheme="strassen", out=cupy.empty((64, 64), np.float32))
    assert problems == problems[:1] * 4
    assert not problems[0].buffered
    by_columns = on_device(cupy, whole((64, 64), 3), "float32", "F")
    falcon.gemm(a, b, by_columns, beta=1.0, scheme="strassen")
    assert problems[-1].buffered


def test_a_pickle_holds_b_which_is_packed_again(cupy, pair):
    packed = falcon.pack(pair[1], scheme="strassen")
    again = pickle.loads(pickle.dumps(packed))
    assert repr(again) == repr(packed)
    for x in (packed, again):
        np.testing.assert_array_equal(
            cupy.asnumpy(falcon.gemm(pair[0], x)), cupy.asnumpy(falcon.gemm(*pair))
        )


def test_packed_errors(cupy, pair):
    packed = falcon.pack(pair[1], scheme="strassen")
    with pytest.raises(ValueError, match="keep_source is False, but b is in GPU memory"):
        falcon.pack(pair[1], scheme="strassen", keep_source=False)
    for keep in (True, False):
        host = falcon.pack(np.ones((48, 48), np.float32), keep_source=keep)
        with pytest.raises(ValueError, match="but a is in GPU memory"):
            falcon.gemm(pair[0], host)
        with pytest.raises(ValueError, match="but a is in GPU memory"):
            falcon.matmul(pair[0], host)
    with pytest.raises(TypeError, match="the arithmetic would be float64"):
        falcon.gemm(on_device(cupy, whole((48, 48), 1), "float64"), packed)
    with pytest.raises(ValueError, match="scheme is 'winograd', but b is"):
        falcon.gemm(pair[0], packed, scheme="winograd")
    with pytest.raises(TypeError, match="a is a ndarray in host memory"):
        falcon.gemm(np.ones((48, 48), np.float32), packed)
    with pytest.raises(ValueError, match="but a is in GPU memory"):
        host = falcon.pack(np.ones((48, 48), np.float32))
        falcon.gemm(pair[0], replace(host, source=pair[1]))


def test_without_cupy_the_reason_is_told(monkeypatch):
    available._works = False
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ValueError, match="'gpu' is not available: CuPy is not installed: pip"):
        falcon.gemm(np.ones((2, 2)), np.ones((2, 2)), backend="gpu")
    assert falcon.show_config("dict")["backends"]["gpu"].startswith("CuPy is not installed")


def test_an_incomplete_installation_is_told(cupy, state, monkeypatch):
    """CuPy imports and sees a GPU without NVRTC and cuBLAS, and where it is too old."""
    install = r".*pip install -e '\.\[cuda13x\]' \(or \[cuda12x\]\) in a clone"

    def raising(error):
        def call(*_, **__):
            raise error

        return call

    for change, reason in (
        ((cupy, "__version__", "13.4.1"), "CuPy 13.4.1 is too old; falcon needs 14"),
        (
            (cupy, "RawModule", raising(RuntimeError("libnvrtc.so\n is not there"))),
            r"NVRTC.* does not work with CuPy \(RuntimeError: libnvrtc.so\)",
        ),
        (
            (cublas, "load", raising(OSError("libcublas.so.13: cannot open"))),
            r"cuBLAS does not work with CuPy \(OSError: libcublas.so.13: cannot open\)",
        ),
    ):
        forget()
        with monkeypatch.context() as m:
            m.setattr(*change)
            assert re.match(reason + install, device_backend().why_unavailable())
        assert device_backend().why_unavailable() is None  # a failure may pass
    for state.room in (0, 64, None):  # for CuPy's pool, for cuBLAS's handle
        forget()
        assert (device_backend().why_unavailable() is None) == (state.room is None)
    forget()
    with monkeypatch.context() as m:  # another stream's capture forbids what the probe does
        m.setattr(cupy, "RawModule", raising(RuntimeError("not permitted when capturing")))
        with pytest.raises(RuntimeError, match="multiply once before the capture"):
            device_backend().why_unavailable()
    state.capturing = True
    with pytest.raises(RuntimeError, match="multiply once before the capture"):
        device_backend().why_unavailable()
    state.capturing = False
    assert device_backend().why_unavailable() is None


@pytest.mark.parametrize("scheme", ["classical", "strassen", "2x4x2:14"])
def test_calls_like_earlier_ones_are_not_planned(cupy, state, doors, scheme):
    """Only addresses are filled in, of other arrays too; what differs is planned."""
    planned = doors.watched(Steps, "__init__", seen=lambda *x: x)
    b = on_device(cupy, whole((40, 60), 9), "float32", "F")
    host, x = cupy.asnumpy(b), whole((50, 40), 1)
    for right, options in ((b, {"scheme": scheme}), (falcon.pack(b, scheme=scheme), {})):
        planned.clear()
        for at in range(3):
            a, out = on_device(cupy, x + at, "float32", offset=4 * at), cupy.empty((50, 60), "f4")
            assert falcon.gemm(a, right, out=out, **options) is out
            for c in (out, falcon.gemm(a, right, **options)):
                np.testing.assert_array_equal(cupy.asnumpy(c), (x + at) @ host)
        assert len(planned) == 2  # with and without out
        for how in ({"offset": 1}, {"order": "F"}, {"gap": 3}):
            falcon.gemm(on_device(cupy, x, "float32", **how), right, **options)
        with falcon.config(check="none"):
            falcon.gemm(a, right, **options)
        assert len(planned) == 6
    square = on_device(cupy, whole((40, 40), 1), "float32")
    exact = cupy.asnumpy(square) @ cupy.asnumpy(square)
    for out in (cupy.empty((40, 40), np.float32), square):  # overlap is seen
        falcon.gemm(square, square, out=out, scheme=scheme)
        np.testing.assert_array_equal(cupy.asnumpy(out), exact)
    state.capturing = True  # a graph keeps what it needs again
    falcon.gemm(a, b, scheme=scheme)
    state.capturing = False
    assert workspaces._kept


def test_info_names_cupy_and_its_libraries(cupy, monkeypatch, tmp_path):
    """Whatever the distribution of CuPy is called."""
    made = tmp_path / "cupy_cuda12x-14.2.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Name: cupy-cuda12x\nVersion: 14.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = falcon.show_config("dict")
    assert found["libraries"]["cupy"] == "14.2.0"
    assert found["GPU"].items() >= {"driver": "13000", "cuda": "13000", "cublas": "13.2.1"}.items()


@pytest.mark.parametrize(
    "text", ["ij,jk->ki", "bij,jk->bik", "ij,jk,kl->il", "ii,ij->j", "i,j->ij"]
)
def test_einsum(cupy, text):
    terms = text.split("->")[0].split(",")
    host = [whole([{"b": 3}.get(x, 24) for x in term], i) for i, term in enumerate(terms)]
    arrays = [cupy.asarray(x.astype("float32")) for x in host]
    expected = np.einsum(text, *host)
    found = falcon.einsum(text, *arrays)
    assert type(found) is cupy.ndarray
    assert found.dtype == np.float32
    np.testing.assert_array_equal(cupy.asnumpy(found), expected)
    out = cupy.empty(expected.shape, "float64")
    assert falcon.einsum(text, *arrays, out=out, dtype="float64") is out
    np.testing.assert_array_equal(cupy.asnumpy(out), expected)
    with pytest.raises(ValueError, match="arrays in GPU memory take 'K' only"):
        falcon.einsum(text, *arrays, order="F")


def test_dot_tensordot_and_chains(cupy):
    shapes = (5, 6, 4), (6, 3), (3, 8)
    (a, b, c), host = zip(
        *((cupy.asarray(whole(x, 1).astype("f4")), whole(x, 1)) for x in shapes), strict=True
    )
    for found, expected in [
        (falcon.tensordot(a, b, ([1], [0])), np.tensordot(host[0], host[1], ([1], [0]))),
        (falcon.dot(b, a.reshape(10, 3, 4)), np.dot(host[1], host[0].reshape(10, 3, 4))),
        (falcon.multi_dot([b, c]), host[1] @ host[2]),
    ]:
        assert type(found) is cupy.ndarray
        np.testing.assert_array_equal(cupy.asnumpy(found), expected)


@pytest.mark.parametrize(
    "options",
    [{"scheme": "classical"}, {"scheme": "strassen"}, {"arithmetic": "fp16x3", "max_growth": 40}],
    ids=str,
)
def test_a_line_that_is_added_is_not_copied(cupy, state, doors, options):
    """Not to a matrix of its own; nor is a call like an earlier one planned."""
    options = {"scheme": "classical", **options}
    planned = doors.watched(Steps, "__init__", seen=lambda *x: x)
    b, x = whole((40, 60), 9), whole((50, 40), 1)
    for order in "CF":
        right, shape = on_device(cupy, b, "float32"), (1, 60) if order == "C" else (50, 1)
        for factor in (right, falcon.pack(right, **options)):
            planned.clear()
            how = options if factor is right else {}
            for at in range(3):
                a, line = on_device(cupy, x + at, "float32"), whole(shape, at)
                c = cupy.broadcast_to(on_device(cupy, line, "float32"), (50, 60))
                out = on_device(cupy, np.zeros((50, 60)), "float32", order)
                falcon.gemm(a, factor, c, beta=1.0, out=out, **how)
                np.testing.assert_array_equal(cupy.asnumpy(out), (x + at) @ b + line)
                copies = [name for name in state.launches if "copy" in name]
                # To the result, to which cuBLAS adds: the product, or that of means.
                assert len(copies) == (options["scheme"] == "classical")
                state.launches.clear()
            (found,) = planned
            assert not found[1].problem.buffered
            for _ in range(2):  # a result that is added, too
                before = cupy.asnumpy(out)
                falcon.gemm(a, factor, out, beta=1.0, out=out, **how)
                np.testing.assert_array_equal(cupy.asnumpy(out), (x + at) @ b + before)
            assert len(planned) == 2  # the second call is recalled
            state.launches.clear()


def test_float8_with_scales(cupy):
    """CuPy's own arrays hold no float8; the stand-in's do, as torch's tensors."""
    names = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    a, b = (whole((48, 48), x, 4).astype(name) for x, name in enumerate(names))
    row, column = (np.random.default_rng(x).uniform(0.5, 2, 48).astype("f4") for x in (1, 2))
    want = (a.astype("f4") @ b.astype("f4")) * row[:, None] * column
    on_gpu = [cupy.asarray(x) for x in (a, b, row[:, None], column)]
    for name in ("float32", "bfloat16", "float16"):
        got = falcon.scaled_matmul(*on_gpu, dtype=name)
        assert got.dtype == kind(name) and (cupy.asnumpy(got) == want.astype(kind(name))).all()
        out = cupy.empty((48, 48), kind(name))
        assert falcon.scaled_matmul(*on_gpu[:2], 0.5, out=out) is out
    with pytest.raises(TypeError, match="scale_a is a ndarray in host memory, but another"):
        falcon.scaled_matmul(*on_gpu[:2], row[:, None])
    with pytest.raises(TypeError, match="x is a ndarray in GPU memory; expected a torch tensor"):
        falcon.quantize(on_gpu[2])
