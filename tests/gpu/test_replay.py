"""Repeated calls: launch for launch what the driver does, whatever has changed since."""

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon._gpu import backend, cublas, device, driver, kernels, rates, replay
from falcon._gpu.matrix import Memory
from falcon._gpu.rates import DeviceRates

from . import fake_cupy, host_time
from .support import DTYPES, kind, on_device, whole
from .test_torch import Tensor, torch  # noqa: F401

ORDERS = ("CCC", "FFF", "CFC", "FCF", "SCS")


class Log:
    """Notes what is started, with all arguments; nothing is carried out."""

    def __init__(self, cupy, monkeypatch):
        self.started, self.executed, self.workspace = [], 0, 2**40
        log = self

        class Module:
            def __init__(self, code, **_):
                pass

            def get_function(self, name):
                return lambda *call: log.started.append((name, *call))

        class Library:
            def __getattr__(self, name):
                if name == "cublasGetStatusString":
                    return type("F", (), {})()
                return log.function(name)

        self._functions = {}
        cublas.forget()
        kernels.clear()
        monkeypatch.setattr(cupy, "RawModule", Module)
        monkeypatch.setattr(cublas, "load", lambda major: Library())
        monkeypatch.setattr(cupy.cuda.runtime, "memsetAsync", self.function("memset"))
        monkeypatch.setattr(device, "allocate", self.allocate)
        execute = driver.execute

        def counted(*args, **options):
            self.executed += 1
            execute(*args, **options)

        monkeypatch.setattr(driver, "execute", counted)

    def function(self, name):
        def call(*arguments):
            self.started.append((name, *map(_plain, arguments)))
            return 0

        return self._functions.setdefault(name, type("F", (), {"__call__": staticmethod(call)})())

    def allocate(self, nbytes):
        return Memory(self.workspace, nbytes, None)

    def of(self, call):
        """Return what a call starts."""
        self.started.clear()
        call()
        return list(self.started)


def _plain(x):
    """The value of what ctypes passes, of references too."""
    x = getattr(x, "_obj", x)
    return x.value if isinstance(x, ctypes._SimpleCData) else x


@pytest.fixture
def log(cupy, monkeypatch):
    return Log(cupy, monkeypatch)


def repeated_alike(cupy, log, shape, dtype, orders, **options):
    """Call three times, with other arrays and another workspace each time; the third is a replay.

    It must start what the driver starts for the same arrays.
    """
    M, K, N = shape
    added = options.pop("added", None)
    for turn in range(3):
        a, b, out = (
            on_device(cupy, np.zeros(s), dtype, o)
            for s, o in zip(((M, K), (K, N), (M, N)), orders, strict=True)
        )
        c = {"new": on_device(cupy, np.zeros((M, N)), dtype), "out": out, None: None}[added]
        log.workspace += 2**30

        def call(a=a, b=b, c=c, out=out):
            falcon.gemm(a, b, c, out=out, **options)

        before = log.executed
        found = log.of(call)
        assert log.executed - before == (turn < 2)
    replay.clear()
    driven = log.of(call)
    assert log.executed - before == 1
    assert found == driven
    assert any(name.startswith("cublasGemm") for name, *_ in found)


@pytest.mark.parametrize("name", [*falcon.schemes.names(), "strassen@strassen", "classical"])
def test_every_scheme_is_repeated_launch_for_launch(cupy, log, name):
    m, k, n = (1, 1, 1) if name == "classical" else falcon.schemes.get(name).format
    shape = (16 * m + 3, 16 * k + 5, 16 * n + 7)
    for at, dtype in enumerate(DTYPES):
        repeated_alike(cupy, log, shape, dtype, ORDERS[at], scheme=name)
    repeated_alike(
        cupy, log, shape, "float32", "CFC", scheme=name, added="out", alpha=2.0, beta=-1.0
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("scheme", ["strassen", "2x4x2:14", "classical"])
def test_every_kind_of_call_is_repeated(cupy, log, dtype, orders, limited, scheme):
    for added, check in (("new", "finite"), ("out", "none"), (None, "none")):
        beta = 0.0 if added is None else 0.5
        options = {"added": added, "check": check, "alpha": 3.0, "beta": beta, "scheme": scheme}
        if limited and scheme != "classical":  # two chunks at least
            options["workspace_limit"] = 30000 + 20000 * kind(dtype).itemsize
        repeated_alike(cupy, log, (70, 90, 50), dtype, orders, **options)


@pytest.mark.parametrize("packed", [False, True])
def test_guarded_plans_are_repeated(cupy, log, monkeypatch, packed):
    """The comparison of norms, and the marks, of what "auto" has chosen."""
    monkeypatch.setattr(rates, "measure", lambda *_: DeviceRates(1e12, 1e15, 1e-9, 1e15, 8, 1, 1))
    monkeypatch.setattr(backend, "measure", rates.measure)
    M, K, N = 1024, 1040, 1056
    a, b, out = (cupy.empty(x, np.float32) for x in ((M, K), (K, N), (M, N)))
    factor = falcon.pack(b, rows=M) if packed else b
    found = log.of(lambda: three(lambda: falcon.gemm(a, factor, out=out)))
    names, third = [name for name, *_ in found], len(found) // 3
    assert log.executed == 2
    assert found[:third] == found[third : 2 * third] == found[2 * third :]
    assert any("spread" in name for name in names)
    assert any("refuse" in name for name in names)
    assert falcon.plan(a, b).guarded


def three(call):
    """Results of three calls, the last of which is a replay."""
    return [call() for _ in range(3)]


def test_results_follow_what_is_asked(cupy, state):
    """Alpha, beta, c, strides, alignment, types, settings: each change is seen, and seen again."""
    a, b, c = whole((40, 50), 1), whole((50, 60), 2), whole((40, 60), 3)
    for _ in range(3):
        for dtype in ("float32", "bfloat16"):
            for order, offset in (("C", 0), ("F", 0), ("C", 3), ("S", 1)):
                left, right, added = (
                    on_device(cupy, x, dtype, order, offset=offset) for x in (a, b, c)
                )
                for alpha, beta in ((1.0, 0.0), (2.0, 0.0), (2.0, 1.0), (1, 1), (1.0, 0.0)):
                    out = on_device(cupy, np.zeros(c.shape), dtype, order, gap=offset)
                    for scheme in ("strassen", "classical"):
                        falcon.gemm(left, right, added if beta else None, alpha=alpha, beta=beta,
                                    out=out, scheme=scheme)  # fmt: skip
                        exact = (alpha * (a @ b) + beta * c).astype(kind(dtype))
                        np.testing.assert_array_equal(cupy.asnumpy(out), exact)
    assert any(x is not None for x in replay._replays.values())


def test_settings_are_seen(cupy, state):
    x = on_device(cupy, whole((48, 48), 1), "float32")
    for tf32 in (False, True, False):
        with falcon.config(tf32=tf32):
            for _ in range(3):
                state.products.clear()
                falcon.gemm(x, x, scheme="strassen")
                assert state.products[0][3] == ("32F_FAST_TF32" if tf32 else "32F")
    for scheme, launches in (("strassen", 4), ("classical", 0), ("strassen", 4)):
        with falcon.config(scheme=scheme):
            for _ in range(3):
                state.launches.clear()
                falcon.gemm(x, x)
                assert len(state.launches) == launches


def test_the_type_of_the_result_is_seen(cupy):
    """As an argument, and by an out of another type."""
    a, b = whole((40, 50), 1), whole((50, 60), 2)
    left, right = (on_device(cupy, x, "bfloat16") for x in (a, b))
    for name in (None, "float32", None, "float32"):
        made = kind(name or "bfloat16")
        for _ in range(3):
            for call in (falcon.gemm, falcon.matmul):
                found = call(left, right, dtype=name, scheme="strassen")
                assert found.dtype == made
                np.testing.assert_array_equal(cupy.asnumpy(found), (a @ b).astype(made))
            out = cupy.empty((40, 60), made)
            falcon.gemm(left, right, out=out, scheme="strassen")
            np.testing.assert_array_equal(cupy.asnumpy(out), (a @ b).astype(made))


def test_an_out_that_overlaps_is_seen(cupy):
    """The same layout once apart from the operands, once within one."""
    for scheme in ("strassen", "classical"):
        memory = on_device(cupy, whole((120, 60), 1, 3), "float64")
        other = on_device(cupy, whole((60, 60), 2, 3), "float64")
        for start in (60, 60, 60, 20, 60, 0):
            host = cupy.asnumpy(memory).copy()
            out = memory[start : start + 60]
            falcon.gemm(memory[:60], other, out=out, scheme=scheme)
            exact = host[:60] @ cupy.asnumpy(other)
            np.testing.assert_array_equal(cupy.asnumpy(out), exact)
            memory[...] = cupy.asarray(whole((120, 60), start, 3).astype(float))
        for _ in range(3):  # c is out, then it is not
            out = on_device(cupy, whole((60, 60), 3), "float64")
            host = cupy.asnumpy(out)
            falcon.gemm(memory[:60], other, out, beta=1.0, out=out, scheme=scheme)
            exact = cupy.asnumpy(memory)[:60] @ cupy.asnumpy(other) + host
            np.testing.assert_array_equal(cupy.asnumpy(out), exact)
            apart = cupy.empty((60, 60), float)
            falcon.gemm(memory[:60], other, out, beta=1.0, out=apart, scheme=scheme)
            np.testing.assert_array_equal(cupy.asnumpy(apart), 2 * exact - host)
            moved = memory[10:70]
            falcon.gemm(memory[:60], other, moved, beta=1.0, out=memory[:60], scheme=scheme)
            memory[...] = cupy.asarray(whole((120, 60), 5, 3).astype(float))


def test_values_that_are_not_finite_are_repaired_again(cupy):
    a, b = whole((60, 60), 1).astype(float), whole((60, 60), 2).astype(float)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    three(lambda: falcon.gemm(left, right, scheme="strassen"))
    left[7:8, 7:8] = on_device(cupy, np.full((1, 1), np.inf), "float32")
    a[7, 7] = np.inf
    with np.errstate(all="ignore"):
        exact = a @ b
    found = falcon.gemm(left, right, scheme="strassen")
    np.testing.assert_array_equal(cupy.asnumpy(found), exact)


def test_devices(cupy, state):
    """Replays of each device; from another current device too."""
    for _ in range(3):
        for index in (0, 1):
            with cupy.cuda.Device(index):
                a = on_device(cupy, whole((40, 40), 1), "float32")
            for current in (0, 1):
                with cupy.cuda.Device(current):
                    c = falcon.gemm(a, a, scheme="strassen")
                    assert (c.device.id, state.device) == (index, current)
                np.testing.assert_array_equal(cupy.asnumpy(c), cupy.asnumpy(a) @ cupy.asnumpy(a))


def test_streams(cupy, state, torch):  # noqa: F811
    """Kernels and products run in the stream that is current at the replay."""
    streams = []
    function = device.function

    def noted(*arguments):
        kernel = function(*arguments)
        return lambda *call: (streams.append(state.current), kernel(*call))

    device.function = noted
    try:
        a = Tensor(on_device(cupy, whole((40, 40), 1), "float32"), "torch.float32")
        for stream in (42, 42, 42, 43, 44):
            torch.cuda.current_stream = lambda index, s=stream: type("S", (), {"cuda_stream": s})
            streams.clear()
            c = falcon.gemm(a, a, scheme="strassen")
            assert set(streams) == {stream}
            np.testing.assert_array_equal(c._host, whole((40, 40), 1) @ whole((40, 40), 1))
    finally:
        device.function = function
    assert sum(x is not None for x in replay._replays.values()) == 1


def test_what_a_tensor_forbids_is_seen(cupy, torch):  # noqa: F811
    """After replays of a tensor that looks the same otherwise."""
    array = on_device(cupy, whole((40, 40), 1), "float32")
    plain, grad = (Tensor(array, "torch.float32", requires_grad=x) for x in (False, True))
    three(lambda: falcon.gemm(plain, plain, scheme="strassen"))
    with pytest.raises(TypeError, match="requires grad"):
        falcon.gemm(grad, plain, scheme="strassen")
    with pytest.raises(TypeError, match="alpha is 1j"):
        falcon.gemm(plain, plain, alpha=1j, scheme="strassen")
    with pytest.raises(TypeError, match="unexpected keyword"):
        falcon.gemm(plain, plain, schema="strassen")
    with pytest.raises(TypeError):
        falcon.gemm(plain, plain, scheme=["strassen"])


def test_capture_keeps_the_workspace(cupy, state):
    x = on_device(cupy, whole((48, 48), 1), "float32")
    out = cupy.empty((48, 48), np.float32)
    three(lambda: falcon.gemm(x, x, out=out, scheme="strassen"))
    state.capturing = True
    falcon.gemm(x, x, out=out, scheme="strassen")
    state.capturing = False
    assert len(driver._kept) == 1


def test_packed_operands_are_not_kept_alive(cupy, state):
    b = on_device(cupy, whole((48, 48), 2), "float32")
    packed = falcon.pack(b, scheme="strassen")
    for rows in (30, 40):
        a = whole((rows, 48), 1)
        for _ in range(3):
            found = falcon.gemm(on_device(cupy, a, "float32"), packed)
            np.testing.assert_array_equal(cupy.asnumpy(found), a @ cupy.asnumpy(b))
    assert sum(x is not None for x in packed.payload.replays.values()) == 2
    assert not replay._replays
    gone = weakref.ref(packed)
    del packed
    gc.collect()
    assert gone() is None


def test_matrices_in_batches_of_two_axes(cupy, state):
    """By matmul and by a plan, with a new result and a given one."""
    a, b = whole((40, 50), 1), whole((50, 60), 2)
    left, right = (on_device(cupy, x, "float16") for x in (a, b))
    plan = falcon.plan(left, right, scheme="strassen")
    out = cupy.empty((40, 60), np.float16)
    for call in (
        lambda **given: falcon.matmul(left, right, scheme="strassen", **given),
        lambda **given: plan(left, right, **given),
    ):
        for given in ({}, {"out": out}):
            for found in three(lambda call=call, given=given: call(**given)):
                np.testing.assert_array_equal(cupy.asnumpy(found), (a @ b).astype(np.float16))
    with pytest.raises(ValueError, match="out overlaps an operand"):
        square = on_device(cupy, whole((40, 40), 1), "float32")
        again = falcon.plan(square, square, scheme="strassen")
        three(lambda: again(square, square))
        again(square, square, out=square)


def test_the_table_does_not_grow_without_end(cupy, log, monkeypatch):
    monkeypatch.setattr(replay, "_MOST", 4)
    for size in range(20, 40):
        x = on_device(cupy, np.zeros((size, size)), "float32")
        three(lambda x=x: falcon.gemm(x, x, scheme="classical"))
        assert len(replay._replays) <= 4


def test_the_benchmark_of_the_hosts_time():
    """In a process of its own: it replaces CuPy for good."""
    if fake_cupy.COMPILER is None:
        pytest.skip("no C++ compiler")
    pytest.importorskip("ml_dtypes")
    command = [sys.executable, "-m", "tests.gpu.host_time", "--calls", "3"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [x.split("  ")[0] for x in lines[:2]] == list(host_time.TARGETS)[::-1]
    assert all(" us" in x for x in lines)
