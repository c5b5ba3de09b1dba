"""Gram matrices on a GPU: tiles of the lower triangle, and their mirror."""

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import CUDA, dtype_of
from falcon._gpu.geometry import triangle

from .support import kind, norms_of, on_device, whole

K = 40


@pytest.fixture(autouse=True)
def small_tiles(cupy, doors):
    doors.numbers(tile=16)


@pytest.mark.parametrize("size", [1, 15, 31, 32, 47, 64, 100, 129, 200])
def test_tiles_cover_the_lower_triangle_once(size):
    seen = np.zeros((size, size), int)
    for row, rows, columns, count, apart in triangle(size):
        for i in range(count):
            at = i * apart
            seen[row + at : row + at + rows, at : at + columns] += 1
    assert (seen[np.tri(size, dtype=bool)] == 1).all()
    assert seen.max() == 1
    most = 0.5 + 16 * 2 / size + 16 * 16 / size
    assert seen.sum() <= max(most, 0.75) * size**2 or size < 32


def made(cupy, x, dtype, order, **call):
    return falcon.gram(on_device(cupy, x, dtype, order, 3), **call)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("order", "CFS")
@pytest.mark.parametrize("dtype", [x.name for x in CUDA])
def test_whole_numbers(cupy, state, dtype, order, transpose):
    """Bit for bit; two thirds of the operations or less, no scheme."""
    x = whole((100, K) if transpose else (K, 100), 1)
    state.products.clear()
    found = made(cupy, x, dtype, order, transpose=transpose)
    np.testing.assert_array_equal(
        cupy.asnumpy(found), (x @ x.T if transpose else x.T @ x).astype(kind(dtype))
    )
    assert sum(m * n * k * batch for (m, n, k), batch, *_ in state.products) <= 0.66 * 100**2 * K


@pytest.mark.parametrize("arithmetic", ["fp16x3", "bf16x6"])
@pytest.mark.parametrize("share", [1, 0.7])
def test_by_parts(cupy, state, arithmetic, share):
    """In chunks too; of whole ones, two thirds of the operations of a general product, or less."""
    x, call = whole((K, 128), 1), {"arithmetic": arithmetic, "scheme": "classical"}
    array = on_device(cupy, x, "float32")
    plan = falcon.plan(array.T, array, **call)
    call["workspace_limit"] = int(share * plan.workspace)
    counts = []
    for multiply in (lambda: falcon.gram(array, **call), lambda: plan(array.T, array)):
        state.products.clear()
        np.testing.assert_array_equal(cupy.asnumpy(multiply()), x.T @ x)
        counts.append(sum(m * n * k * batch for (m, n, k), batch, *_ in state.products))
    assert counts[0] <= (0.66 if share == 1 else 1) * counts[1]


@pytest.mark.parametrize(
    ("dtype", "how"),
    [(x.name, "native") for x in CUDA] + [("float32", "fp16x3"), ("float32", "bf16x6")],
)
def test_errors_and_symmetry(cupy, dtype, how):
    """By the higher precision; exactly symmetric; the error of a general product."""
    x = np.random.default_rng(3).standard_normal((K, 100)).astype(kind(dtype))
    found = cupy.asnumpy(made(cupy, x, dtype, "C", arithmetic=how)).astype(float)
    np.testing.assert_array_equal(found, found.T)
    exact = x.T.astype(np.longdouble) @ x.astype(np.longdouble)
    allowed = 3 * dtype_of(dtype).unit_roundoff * np.sqrt(K) * norms_of(x.T, x)
    assert (np.abs(found - exact) <= allowed).all()


@pytest.mark.parametrize("how", ["native", "fp16x3"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_out_added_and_overlaps(cupy, how, order):
    x, c = whole((K, 100), 1), whole((100, 100), 2)
    c = c + c.T
    exact = 2.0 * (x.T @ x) - c
    array, added = (on_device(cupy, y, "float32", order, 1) for y in (x, c))
    call = {"alpha": 2.0, "beta": -1.0, "arithmetic": how}
    out = on_device(cupy, np.full((100, 100), 7), "float32", order, 2)
    assert falcon.gram(array, c=added, out=out, **call) is out
    np.testing.assert_array_equal(cupy.asnumpy(out), exact)
    assert falcon.gram(array, c=added, out=added, **call) is added
    np.testing.assert_array_equal(cupy.asnumpy(added), exact)
    square = on_device(cupy, x[:, :K], "float32", order)
    falcon.gram(square, out=square, arithmetic=how)
    np.testing.assert_array_equal(cupy.asnumpy(square), x[:, :K].T @ x[:, :K])


@pytest.mark.parametrize("how", ["native", "fp16x3"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(cupy, how, value):
    """NaN and Inf spread as in NumPy's product."""
    x = whole((K, 100), 1).astype(np.float32)
    x[3, 70] = value
    with np.errstate(all="ignore"):
        exact = x.T @ x
    found = falcon.gram(on_device(cupy, x, "float32"), arithmetic=how)
    np.testing.assert_array_equal(cupy.asnumpy(found), exact)


@pytest.mark.parametrize("size", [12, 100])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_batches(cupy, state, size, dtype):
    """Of small matrices in one call."""
    x = whole((2, 3, K, size), 1)
    array = cupy.asarray(x.astype(kind(dtype)))
    exact = (x.swapaxes(-1, -2) @ x).astype(kind(dtype))
    state.products.clear()
    np.testing.assert_array_equal(cupy.asnumpy(falcon.gram(array)), exact)
    assert (len(state.products) == 1) is (size == 12)


def test_capture_and_a_scheme_by_name(cupy, state):
    """Nothing is measured; a scheme multiplies as any other product."""
    x = whole((K, 100), 1)
    array = on_device(cupy, x, "float32")
    falcon.gram(array)
    state.capturing = True
    found = falcon.gram(array)
    state.capturing = False
    np.testing.assert_array_equal(cupy.asnumpy(found), x.T @ x)
    state.launches.clear()
    np.testing.assert_array_equal(cupy.asnumpy(falcon.gram(array, scheme="strassen")), x.T @ x)
    assert not any("mirror" in x for x in state.launches)


@pytest.mark.parametrize(
    ("call", "batch"), [(falcon.matmul, ()), (falcon.matmul, (3,)), (falcon.gemm, ())]
)
def test_a_product_with_its_own_transpose_is_one(cupy, state, doors, call, batch):
    """Recalled too; of another array that lies alike, it is a product as any other."""
    doors.numbers(least_triangle=64)
    first, second = whole((*batch, K, 100), 1), whole((*batch, K, 100), 2)
    x, y = (cupy.asarray(z.astype(np.float32)) for z in (first, second))
    for a, z in ((x, first), (x, first), (y, second), (y, second), (x, first)):
        for b, other in ((x, first), (y, second)):
            state.products.clear()
            found = call(a.swapaxes(-1, -2), b)
            np.testing.assert_array_equal(cupy.asnumpy(found), z.swapaxes(-1, -2) @ other)
            done = sum(m * n * k * count for (m, n, k), count, *_ in state.products)
            whole_product = 100**2 * K * max(len(batch) * 3, 1)
            assert done <= 0.66 * whole_product if a is b else done == whole_product
    state.products.clear()
    call(x.swapaxes(-1, -2), x, scheme="classical")
    assert len(state.products) > 1
    state.products.clear()
    call(x[..., :60].swapaxes(-1, -2), x[..., :60])
    assert len(state.products) == 1  # too small for tiles
    if not batch:
        call(x.T, x, scheme="strassen")
        assert falcon.plan(x.T, x).problem.symmetric == "full"
        added = falcon.gemm(x.T, x, beta=1, c=cupy.asarray(np.ones((100, 100), np.float32)))
        np.testing.assert_array_equal(cupy.asnumpy(added), first.T @ first + 1)
