"""Steps that the driver starts, on the stand-in: what CuPy's launches do, with other addresses."""

import threading

import numpy as np
import pytest

import falcon
from falcon._gpu import direct
from falcon._gpu import fused as fused_kernel

from . import fake_driver
from .support import on_device, whole


def by(scheme, arithmetic, **options):
    return {"scheme": scheme, "arithmetic": arithmetic, "max_growth": 100, **options}


@pytest.mark.parametrize("order", ["C", "F", "S"])
@pytest.mark.parametrize("scheme", ["classical", "strassen", "2x4x2:14"])
@pytest.mark.parametrize("arithmetic", ["native", "fp16x3", "one kernel"])
def test_all_products(cupy, launches, scheme, arithmetic, order):
    """By arguments, workspaces and packed operands at several addresses."""
    fused_kernel.trial.found[0] = arithmetic == "one kernel"
    how = by(scheme, "native" if arithmetic == "native" else "fp16x3")
    a, b, c = whole((70, 150), 1, 60), whole((150, 40), 2, 60), whole((70, 40), 3, 60)
    for _ in range(3):
        left, right, added = (on_device(cupy, x, "float32", order, 3, 1) for x in (a, b, c))
        for factor, options in ((right, how), (falcon.pack(right, **how), {})):
            out = on_device(cupy, c, "float32", "F")
            falcon.gemm(left, factor, added, out=out, alpha=2, beta=3, **options)
            np.testing.assert_array_equal(cupy.asnumpy(out), 2 * (a @ b) + 3 * c)
        falcon.gemm(left, right, out, out=out, beta=-1, **how)
        np.testing.assert_array_equal(cupy.asnumpy(out), -(a @ b) - 3 * c)
    assert direct.trial.found == {0: True}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "complex64", "complex128"])
def test_all_types(cupy, launches, dtype):
    a, b = whole((70, 150), 1), whole((150, 40), 2)
    for _ in range(2):
        left, right = (on_device(cupy, x, dtype, "S") for x in (a, b))
        found = cupy.asnumpy(falcon.gemm(left, right, scheme="strassen", alpha=2))
        np.testing.assert_array_equal(found.astype(complex), 2 * (a @ b))
        gram = cupy.asnumpy(falcon.gram(left))
        np.testing.assert_array_equal(gram.astype(complex), a.T @ a)
    assert direct.trial.found == {0: True}


def test_threads_take_turns(cupy, launches):
    """One plan, and one array of arguments."""
    given = [(whole((50, 60), x), whole((60, 40), x + 9)) for x in range(6)]
    plan = falcon.plan((50, 60), (60, 40), "float32", backend="gpu", scheme="strassen")
    arrays = [[on_device(cupy, x, "float32") for x in pair] for pair in given]
    wrong = []

    def multiply(at):
        (a, b), pair = given[at], arrays[at]
        for _ in range(3):
            if not np.array_equal(cupy.asnumpy(plan(*pair)), a @ b):
                wrong.append(at)

    threads = [threading.Thread(target=multiply, args=(x,)) for x in range(6)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert not wrong


def test_a_thread_in_which_nothing_of_cuda_ran(cupy, launches):
    a, b = whole((50, 60), 1), whole((60, 40), 2)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    falcon.gemm(left, right, scheme="strassen")
    fake_driver.STATUS.append(201)
    found = falcon.gemm(left, right, scheme="strassen")
    np.testing.assert_array_equal(cupy.asnumpy(found), a @ b)


def test_errors_are_told(cupy, launches):
    a = on_device(cupy, whole((50, 50), 1), "float32")
    falcon.gemm(a, a, scheme="strassen")
    fake_driver.STATUS.append(719)
    with pytest.raises(RuntimeError, match="cuLaunchKernel failed: error 719"):
        falcon.gemm(a, a, scheme="strassen")


@pytest.mark.parametrize(
    "why", ["no driver", "another CuPy", "wrong", "captured", "another stream is", "no memory"]
)
def test_where_cupy_launches(cupy, launches, monkeypatch, caplog, why):
    if why == "no driver":
        monkeypatch.setattr(fused_kernel, "load", lambda: (_ for _ in ()).throw(OSError("none")))
    elif why == "another CuPy":
        monkeypatch.setattr(direct.device, "address_of", lambda kernel: kernel.no_such_name)
    elif why == "wrong":
        monkeypatch.setattr(fake_driver, "cuLaunchKernel", lambda *_: 0)
    elif why == "another stream is":
        error = RuntimeError("cudaErrorStreamCaptureUnsupported")
        monkeypatch.setattr(direct.device, "upload", lambda x: (_ for _ in ()).throw(error))
    elif why == "no memory":
        launches.room = 100
    launches.capturing = why == "captured"
    assert not direct.trial.works(0)
    launches.capturing, launches.room = False, None
    unknown = why in ("captured", "another stream is", "no memory")
    assert direct.trial.found == ({} if unknown else {0: False})
    assert ("launched by CuPy" in caplog.text) == (not unknown)
