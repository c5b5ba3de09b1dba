"""float64 by cuBLAS's emulation in fixed point: `arithmetic="fixed"`."""

import numpy as np
import pytest

import falcon
from falcon._gpu import cublas

from .support import on_device, whole

FIXED, NATIVE = "64F_EMULATED_FIXEDPOINT", "64F"


@pytest.fixture
def pair(cupy):
    return tuple(on_device(cupy, whole((48, 48), x, 9), "float64") for x in (1, 2))


@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen"])
def test_products(pair, state, scheme):
    x, y = pair
    exact = x._host @ y._host
    for call in (falcon.gemm, falcon.matmul):
        assert (call(x, y, arithmetic="fixed", scheme=scheme)._host == exact).all()
    packed = falcon.pack(y, arithmetic="fixed", scheme=scheme)
    assert (falcon.gemm(x, packed)._host == exact).all()
    assert {how for *_, how in state.products} == {FIXED}
    falcon.gemm(x, y, scheme=scheme)
    assert state.products[-1][-1] == NATIVE
    plan = falcon.plan(x, y, arithmetic="fixed", scheme=scheme)
    name = "strassen" if scheme == "strassen" else "classical"
    assert plan.label == f"fixed {name}" and plan.growth == (2 if scheme == "strassen" else 1)
    bounds = (
        x.error_bound(np.ones(48), np.ones(48)) for x in (falcon.plan(x, y, scheme=scheme), plan)
    )
    native, fixed = (x.max() for x in bounds)
    assert native <= fixed < 4 * native


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_the_workspace_of_cublas_is_counted(cupy, pair, scheme):
    """It is 5 GB for 8192^3, by the formula of cuBLAS's documentation."""
    shape, by_name = (8192, 8192), {"scheme": "classical", "backend": "gpu"}
    plan = falcon.plan(shape, shape, "float64", arithmetic="fixed", **by_name)
    assert plan.workspace == cublas.fixed_point_bytes(8192, 8192, 8192) > 4.5e9
    how = {"arithmetic": "fixed", "scheme": scheme}
    assert falcon.plan(*pair, **how).workspace >= cublas.fixed_point_bytes(24, 24, 24)
    with pytest.raises(ValueError, match="workspace_limit is 100000000 bytes"):
        falcon.gemm(*pair, **how, workspace_limit=10**8)
    falcon.gemm(*pair, **how, reproducible=True)


def test_batches_gram_and_complex_numbers(cupy, state):
    a = whole((3, 8, 8), 1).astype(float)
    x = cupy.asarray(a)
    assert (falcon.matmul(x, x, arithmetic="fixed")._host == a @ a).all()
    assert (falcon.gram(x, arithmetic="fixed")._host == a.swapaxes(1, 2) @ a).all()
    z = cupy.asarray(a + 1j)
    assert (falcon.matmul(z, z, arithmetic="fixed")._host == (a + 1j) @ (a + 1j)).all()
    assert {how for *_, how in state.products} == {FIXED}


def test_a_setting_is_for_float64(cupy, pair, state):
    single = on_device(cupy, whole((48, 48), 1), "float32")
    with falcon.config(arithmetic="fixed"):
        falcon.gemm(*pair)
        falcon.gemm(single, single)
    assert [how for *_, how in state.products] == [FIXED, "32F"]
    message = r"'fixed' multiplies float64 to float64, not float32 to float32"
    with pytest.raises(TypeError, match=message):
        falcon.gemm(single, single, arithmetic="fixed")
    host = np.eye(3)
    with pytest.raises(TypeError, match="'fixed' is for matrices in GPU memory"):
        falcon.gemm(host, host, arithmetic="fixed")


def test_what_cublas_must_have(pair, monkeypatch):
    monkeypatch.setattr(cublas, "version", lambda: "13.0.2")
    with pytest.raises(TypeError, match=r"fixed point need cuBLAS 13\.1; this is 13\.0\.2"):
        falcon.gemm(*pair, arithmetic="fixed")
    with falcon.config(arithmetic="fixed"):  # a setting is for what it fits
        falcon.gemm(*pair)
