"""The kernel for float32 by two float16 parts, on the stand-in: see shim_fused.h."""

import ctypes

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import BY_ARITHMETIC_ON_GPUS, FLOAT16, FLOAT32
from falcon._gpu import device, sources
from falcon._gpu import fused as kernel
from falcon._gpu.matrix import Operand

from . import fake_driver
from .kinds import KINDS, in_order, operands
from .support import on_device, whole

# How Hopper's tensor cores add up: terms at a time, bits beyond float32.
HOPPER = 16, 2
# Schemes add up what is sparse; "auto" takes them from K = 2048 on.
MORE = {"sparse": 3.5}


def parts(rng, batch, lines, inner, along, first):
    """Whole numbers; the array in memory, and what the parts add up to, largest first."""
    large, small = rng.integers(-4, 5, (2, batch, lines, inner))
    ordered = (large, small) if first else (small, large)
    stacked = np.stack(ordered, 2 if along else 1)
    if not along:
        stacked = stacked.swapaxes(2, 3)
    return stacked.astype(np.float16), large, small


def operand(x, along, lines, inner, by_columns):
    step = 2 * lines * inner
    return Operand(x.data.ptr, 2 * inner if along else lines, by_columns, step, FLOAT16)


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("b_along", [False, True])
@pytest.mark.parametrize("a_along", [False, True])
def test_whole_numbers_are_exact(cupy, fused, a_along, b_along, by_columns):
    """Of every order, with edges, K that is no multiple of a block, batches, and sums."""
    rng = np.random.default_rng(1)
    for batch, rows, columns, inner in ((1, 16, 16, 16), (2, 144, 208, 112), (1, 272, 48, 336)):
        a, *of_a = parts(rng, batch, rows, inner, a_along, True)
        b, *of_b = parts(rng, batch, columns, inner, b_along, False)
        (a0, a1), (b0, b1) = of_a, (x.swapaxes(1, 2) for x in of_b)
        exact = a0 @ b0 + a0 @ b1 + a1 @ b0
        left, right = cupy.asarray(a), cupy.asarray(b)
        for beta in (0.0, 1.0):
            out = cupy.asarray(np.full((batch, rows * columns), 7 if beta else np.nan, np.float32))
            to = Operand(out.data.ptr, rows if by_columns else columns, by_columns,
                         rows * columns, FLOAT32)  # fmt: skip
            made = kernel.product(
                *(rows, columns, inner),
                operand(left, a_along, rows, inner, not a_along),
                operand(right, b_along, columns, inner, b_along),
                *(to,),
                batch=batch,
                beta=beta,
            )
            made.start(0, made.arguments)
            shape = (batch, columns, rows) if by_columns else (batch, rows, columns)
            found = cupy.asnumpy(out).reshape(shape)
            found = found.swapaxes(1, 2) if by_columns else found
            np.testing.assert_array_equal(found, exact + 7 * beta)


def test_every_tile_of_a_triangle(cupy, fused):
    """Those above the diagonal are not written."""
    rng, size, inner = np.random.default_rng(2), 17 * 128 + 16, 16
    a, a0, a1 = parts(rng, 2, size, inner, False, True)
    b, b0, b1 = parts(rng, 2, size, inner, True, False)
    left, right = cupy.asarray(a), cupy.asarray(b)
    out = cupy.asarray(np.full((2, size, size), np.nan, np.float32))
    to = Operand(out.data.ptr, size, False, size * size, FLOAT32)
    from_a, from_b = (operand(x, y, size, inner, True)
                      for x, y in ((left, False), (right, True)))  # fmt: skip
    how = {"batch": 2, "triangle": True}
    made = kernel.product(size, size, inner, from_a, from_b, to, **how)
    made.start(0, made.arguments)
    exact = (a0 @ (b0 + b1).swapaxes(1, 2) + a1 @ b0.swapaxes(1, 2)).astype(np.float32)
    row, column = np.arange(size)[:, None] // 128, np.arange(size) // 128
    np.testing.assert_array_equal(cupy.asnumpy(out), np.where(column <= row, exact, np.nan))


def by(scheme, **options):
    return {"arithmetic": "fp16x3", "scheme": scheme, "max_growth": 100, **options}


@pytest.mark.parametrize("order", ["C", "F", "S"])
@pytest.mark.parametrize("scheme", ["classical", "strassen", "2x4x2:14"])
def test_products_are_exact(cupy, fused, scheme, order):
    """By all doors, and nothing else multiplies: no means, no product by cuBLAS."""
    a, b, c = whole((70, 150), 1, 250), whole((150, 40), 2, 250), whole((70, 40), 3, 250)
    left, right, added = (on_device(cupy, x, "float32", order, 3, 1) for x in (a, b, c))
    how = by(scheme)
    plan = falcon.plan(left, right, **how)
    layout = plan.method.layout
    assert (layout.fused, layout.centred, layout.buffers.means) == (True, False, 0)
    packed = falcon.pack(right, **how)
    for factor, options in ((right, how), (packed, {})):
        found = falcon.gemm(left, factor, added, alpha=2, beta=3, **options)
        np.testing.assert_array_equal(cupy.asnumpy(found), 2 * (a @ b) + 3 * c)
        again = falcon.matmul(left, factor, **options)  # other addresses
        np.testing.assert_array_equal(cupy.asnumpy(again), a @ b)
    out = on_device(cupy, c, "float32", "F")
    falcon.gemm(left, right, out, out=out, beta=-1, **how)
    np.testing.assert_array_equal(cupy.asnumpy(out), a @ b - c)
    limited = falcon.plan(left, right, **how, workspace_limit=plan.workspace // 2)
    assert any(len(x) > 1 for x in limited.method.layout.chunks)
    np.testing.assert_array_equal(cupy.asnumpy(limited(left, right)), a @ b)
    assert any("fused" in x for x in fused.launches)
    assert not any("means" in x for x in fused.launches)
    assert fused.products == []


def test_gram_and_complex_products_are_exact(cupy, fused, monkeypatch):
    x = whole((150, 70), 1, 250)
    found = falcon.gram(on_device(cupy, x, "float32"), arithmetic="fp16x3")
    np.testing.assert_array_equal(cupy.asnumpy(found), x.T @ x)
    z = whole((40, 60), 2, 9) + 1j * whole((40, 60), 3, 9)
    w = whole((60, 30), 4, 9) + 1j * whole((60, 30), 5, 9)
    left, right = (on_device(cupy, y, "complex64") for y in (z, w))
    for scheme in ("classical", "strassen"):
        found = falcon.matmul(left, right, **by(scheme))
        np.testing.assert_array_equal(cupy.asnumpy(found), z @ w)
    assert fused.products == []


@pytest.mark.parametrize("K", [300, 2000])
@pytest.mark.parametrize("kind", KINDS)
def test_data_of_all_kinds_err_less_than_in_float32(cupy, fused, kind, K):
    """Nothing is centred, nor cut: sums begin anew after 64 elements along K."""
    fused.truncates = HOPPER
    a, b = operands(kind, 24, K, 24, np.random.default_rng(7))
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    exact = a.astype(float) @ b
    scale = np.sqrt(np.mean(exact**2))
    usual = np.sqrt(np.mean((in_order(a, b) - exact) ** 2))
    for scheme in ("classical", "strassen"):
        c = cupy.asnumpy(falcon.gemm(left, right, **by(scheme)))
        most = 2.0 if scheme == "classical" or K > 1000 else MORE.get(kind, 2.0)
        assert np.sqrt(np.mean((c - exact) ** 2)) <= most * usual
        assert abs(np.mean((c - exact) * np.sign(exact))) < 1e-6 * scale


def test_inf_and_nan_are_repaired(cupy, fused):
    a, b = whole((200, 150), 1, 9).astype(float), whole((150, 200), 2, 9).astype(float)
    a[3, 5], b[140, 190] = np.inf, np.nan
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    with np.errstate(invalid="ignore"):
        exact = a @ b
    found = cupy.asnumpy(falcon.gemm(left, right, **by("strassen")))
    np.testing.assert_array_equal(found, exact)


def test_a_wait_that_does_not_end_is_repaired(cupy, fused, monkeypatch):
    """No load ends: the kernel gives up, its product is NaN, and formed again in float32."""
    template = sources._template
    few = template("fused").replace("TRIES = 1 << 20", "TRIES = 2000")
    monkeypatch.setattr(sources, "_template", lambda *x: few if x[0] == "fused" else template(*x))
    a, b = whole((40, 100), 1, 9), whole((100, 30), 2, 9)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    plan = falcon.plan(left, right, **by("classical"))
    assert plan.method.layout.fused
    monkeypatch.setattr(fake_driver, "LOSES", 1)
    np.testing.assert_array_equal(cupy.asnumpy(plan(left, right)), a @ b)


@pytest.mark.parametrize("why", ["Ampere", "Blackwell", "no driver", "wrong", "captured"])
def test_where_the_kernel_does_not_run(cupy, fused, monkeypatch, caplog, why):
    """cuBLAS multiplies parts, as before; what was found holds for the process."""
    kernel.trial.found.clear()
    if why in ("Ampere", "Blackwell"):
        fused.capability = {"Ampere": (8, 0), "Blackwell": (10, 0)}[why]
        device.properties.cache_clear()
    elif why == "no driver":
        monkeypatch.setattr(kernel, "load", lambda: ctypes.CDLL("libcuda_is_not_here.so"))
    elif why == "wrong":
        monkeypatch.setattr(fake_driver, "LOSES", 1)
        template = sources._template
        few = template("fused").replace("TRIES = 1 << 20", "TRIES = 2000")
        monkeypatch.setattr(
            sources, "_template", lambda *x: few if x[0] == "fused" else template(*x)
        )
    fused.capturing = why == "captured"
    row = BY_ARITHMETIC_ON_GPUS["fp16x3"]
    assert not kernel.multiplies(row, 0)
    fused.capturing = False
    monkeypatch.setattr(fake_driver, "LOSES", 0)
    a, b = whole((40, 100), 1, 9), whole((100, 30), 2, 9)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    plan = falcon.plan(left, right, **by("strassen"))
    assert plan.method.layout.fused == (why == "captured")
    np.testing.assert_array_equal(cupy.asnumpy(plan(left, right)), a @ b)
    assert ("does not run" in caplog.text) == (why in ("no driver", "wrong"))


def test_only_two_parts_of_float16(cupy, fused):
    """On a device that forms a product of whole numbers exactly."""
    kernel.trial.found.clear()
    for name, row in BY_ARITHMETIC_ON_GPUS.items():
        assert kernel.multiplies(row, 0) == (name == "fp16x3")
