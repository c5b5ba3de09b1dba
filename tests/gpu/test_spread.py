"""Badly scaled operands on the stand-in: the classical product replaces that of the scheme."""

from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._core.spread import spread
from falcon._gpu import kernels
from falcon._gpu.arrays import library_of
from falcon._gpu.steps import run

from .support import DTYPES, kind, on_device

M, N, K = 70, 150, 90


def operands(dtype, uneven=None):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((M, K)), random.standard_normal((K, N))
    if uneven == "row":
        a[3] *= 300
    if uneven == "column":
        b[:, 5] *= 1e-3
    if uneven == "zeros":
        a[69] = 0
    if uneven == "not finite":
        b[4, 4] = np.inf
    return a.astype(kind(dtype)), b.astype(kind(dtype))


def guarded(a, b, scheme, check="finite"):
    """The plan that "auto" would make, had it chosen that scheme."""
    with falcon.config(check=check):
        return replace(falcon.plan(a, b, scheme=scheme), guarded=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uneven", ["row", "column", "zeros", "not finite"])
@pytest.mark.parametrize("orders", ["CCC", "FCF", "SSC"])
def test_uneven_operands_are_multiplied_classically(cupy, dtype, uneven, orders):
    a, b = operands(dtype, uneven)
    left, right = (on_device(cupy, x, dtype, o) for x, o in zip((a, b), orders, strict=False))
    out = on_device(cupy, np.zeros((M, N)), dtype, orders[2])
    plan = guarded(left, right, "strassen")
    plan(left, right, out)
    with np.errstate(all="ignore"):
        exact = a.astype(float) @ b.astype(float)
    found = cupy.asnumpy(out).astype(float)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    finite_b = np.where(np.isfinite(b.astype(float)), b.astype(float), 0)
    entrywise = np.abs(a).astype(float) @ np.abs(finite_b)
    unit = {"float64": 1e-15, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    error = np.abs(found[finite] - exact[finite])
    assert (error <= unit * entrywise[finite]).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("check", ["finite", "none"])
def test_even_operands_keep_the_scheme(cupy, state, dtype, check):
    left, right = (on_device(cupy, x, dtype) for x in operands(dtype))
    plan = guarded(left, right, "2x3x2:11", check)
    out, asked = (on_device(cupy, np.zeros((M, N)), dtype) for _ in range(2))
    a, b, c, d = (library_of(x).matrix(x) for x in (left, right, out, asked))
    plan.backend.execute(plan, a, b, None, c)
    replace(plan, guarded=False).backend.execute(plan, a, b, None, d)
    np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(asked))
    assert sum("norms" in name for name in state.launches) == 4
    assert sum("refuse" in name for name in state.launches) == 2


def test_whatever_is_checked(cupy):
    """With check="none" too, where Combine H marks nothing."""
    a, b = operands("float32", "row")
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    plan = guarded(left, right, "strassen@strassen", "none")
    out = on_device(cupy, np.zeros((M, N)), "float32")
    matrices = (library_of(x).matrix(x) for x in (left, right))
    plan.backend.execute(plan, *matrices, None, library_of(out).matrix(out))
    error = np.delete(cupy.asnumpy(out) - a.astype(float) @ b, 3, 0)
    assert np.abs(error).max() < 1e-4


@pytest.mark.parametrize("uneven", [None, "row", "column"])
def test_packed_operands(cupy, uneven):
    """Norms of a packed B are taken once; its source serves the classical product."""
    a, b = operands("float32", uneven)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    packed = falcon.pack(right, scheme="strassen")
    assert packed.scales is None
    plan = guarded(left, right, "strassen")
    packed = replace(packed, scales=plan.backend.scales(library_of(right).matrix(right), plan))
    found = cupy.asnumpy(falcon.gemm(left, packed))
    scheme = cupy.asnumpy(falcon.gemm(left, right, scheme="strassen"))
    assert (found == scheme).all() == (uneven is None)
    error = np.delete(np.abs(found - a.astype(float) @ b), 3, 0)
    assert error.max() < 1e-4


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_the_statistic_is_the_hosts(cupy, order, parts):
    x = np.exp(np.random.default_rng(2).standard_normal((M, 1))) * operands("float64")[0]
    on_gpu = on_device(cupy, x, "float64", order)
    block = -(-M // parts)
    memory, word = cupy.empty((64 * M,), np.float64), cupy.empty((1,), np.uint32)
    matrix, at = library_of(on_gpu).matrix(on_gpu), int(word.data.ptr)
    run(*kernels.spread(matrix, parts, block, int(memory.data.ptr), 64 * M * 8, at))
    found = float(cupy.asnumpy(word).view(np.float32)[0])
    expected = spread((x * x).sum(1), parts, M)
    assert found == (pytest.approx(expected**2, rel=1e-6) if parts > 1 else 0)


def test_without_room_for_a_norm_per_row_nothing_is_known(cupy, state):
    x = on_device(cupy, operands("float32")[0], "float32")
    memory, word = cupy.empty((64 * M,), np.float32), cupy.empty((1,), np.uint32)
    matrix, at = library_of(x).matrix(x), int(word.data.ptr)
    run(*kernels.spread(matrix, 2, M // 2, int(memory.data.ptr), 4 * M, at))
    assert 1 <= cupy.asnumpy(word).view(np.float32)[0] < 2
    launched = len(state.launches)
    run(*kernels.spread(matrix, 2, M // 2, int(memory.data.ptr), 4 * M - 1, at))
    assert cupy.asnumpy(word).view(np.float32)[0] > 1e38
    assert len(state.launches) == launched
