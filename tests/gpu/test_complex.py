"""Complex matrices on a GPU: one real product, of views and of a B that is formed for the call."""

import pickle

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of

from .support import on_device, whole

TYPES = "complex64", "complex128"


def numbers(shape, seed):
    """Whole complex numbers, whose products are exact."""
    return whole(shape, seed, 3) + 1j * whole(shape, seed + 100, 3)


def both(cupy, shape, seed, dtype, order="C", **how):
    values = numbers(shape, seed)
    return values, on_device(cupy, values, dtype, order, **how)


def result(x):
    return np.array(x._host)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen", "3x4x4:38"])
@pytest.mark.parametrize("orders", ["CCC", "FFF", "SCF", "CSS", "FCS"])
def test_bit_for_bit(cupy, dtype, scheme, orders):
    a, x = both(cupy, (37, 41), 1, dtype, orders[0], gap=3)
    b, y = both(cupy, (41, 29), 2, dtype, orders[1], offset=1)
    out = on_device(cupy, np.zeros((37, 29)), dtype, orders[2], gap=1)
    for _ in range(2):  # planned, and recalled
        assert falcon.gemm(x, y, scheme=scheme, out=out) is out
        assert (result(out) == a @ b).all()
        out[...] = on_device(cupy, np.full((37, 29), np.nan), dtype)
    product = falcon.matmul(x, y, scheme=scheme)
    assert product.dtype == dtype and (result(product) == a @ b).all()


@pytest.mark.parametrize("factors", [(2, 3), (2j, 0), (1 - 1j, 2), (3, 1 + 2j), (1j, -1j), (0, 2j)])
@pytest.mark.parametrize("orders", ["CC", "FS"])
def test_factors(cupy, factors, orders):
    alpha, beta = factors
    a, x = both(cupy, (9, 20), 1, "complex64", orders[0])
    b, y = both(cupy, (20, 7), 2, "complex64")
    c, z = both(cupy, (9, 7), 3, "complex64", orders[1])
    expected = alpha * (a @ b) + beta * c
    for _ in range(2):
        assert (result(falcon.gemm(x, y, alpha=alpha, beta=beta, c=z)) == expected).all()
    assert (result(x) == a).all() and (result(z) == c).all()
    falcon.gemm(x, y, alpha=alpha, beta=beta, c=z, out=z)
    assert (result(z) == expected).all()


@pytest.mark.parametrize("scheme", ["auto", "strassen"])
@pytest.mark.parametrize("shapes", [((3, 9, 8), (3, 8, 7)), ((3, 9, 8), (8, 7)),
                                    ((2, 1, 9, 8), (3, 8, 7)), ((8,), (8, 7)),
                                    ((9, 8), (8,))])  # fmt: skip
def test_batches_and_vectors(cupy, scheme, shapes):
    a, b = numbers(shapes[0], 1), numbers(shapes[1], 2)
    x, y = cupy.asarray(a.astype("complex64")), cupy.asarray(b.astype("complex64"))
    for _ in range(2):
        product = falcon.matmul(x, y, scheme=scheme)
        assert product.shape == (a @ b).shape and (result(product) == a @ b).all()


@pytest.mark.parametrize("orders", ["CC", "FF", "CS"])
@pytest.mark.parametrize("types", [("float32", "complex64", "complex64"),
                                   ("complex64", "float16", "complex64"),
                                   ("float64", "complex64", "complex128"),
                                   ("complex64", "complex128", "complex128")])  # fmt: skip
def test_types(cupy, types, orders):
    a, b = numbers((12, 15), 1), numbers((15, 11), 2)
    a, b = (
        x if dtype_of(kind).is_complex else x.real for x, kind in zip((a, b), types, strict=False)
    )
    x, y = (on_device(cupy, v, k, o) for v, k, o in zip((a, b), types, orders, strict=False))
    for how in ({}, {"alpha": 2 - 1j}):
        product = falcon.gemm(x, y, **how)
        assert product.dtype == types[2]
        assert (result(product) == how.get("alpha", 1) * (a @ b)).all()
    wide = on_device(cupy, np.zeros((12, 11)), "complex128")
    falcon.gemm(x, y, out=wide)
    assert (result(wide) == a @ b).all()


def test_what_is_planned(cupy):
    x, y = (on_device(cupy, numbers((64, 64), i), "complex64") for i in (1, 2))
    plan = falcon.plan(x, y, scheme="strassen")
    real = plan.reals.problem
    assert (real.M, real.N, real.K, real.operand.name) == (64, 128, 128, "float32")
    assert str(plan).startswith("64 x 64 @ 64 x 64 complex64 on cuda:0: strassen on backend gpu")
    assert plan.workspace == plan.reals.workspace + 2 * y.nbytes
    again = pickle.loads(pickle.dumps(plan))
    assert (again.scheme, again.workspace) == (plan.scheme, plan.workspace)
    assert (result(again(x, y)) == result(x) @ result(y)).all()
    with pytest.raises(ValueError, match="out overlaps an operand"):
        plan(x, y, x)


def test_real_products_into_complex_arrays(cupy):
    a, b = whole((9, 8), 1), whole((8, 7), 2)
    out = on_device(cupy, np.full((9, 7), np.nan), "complex64", "F")
    falcon.gemm(on_device(cupy, a, "float32"), on_device(cupy, b, "float32"), out=out)
    assert (result(out) == a @ b).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_packed(cupy, dtype, scheme):
    a, x = both(cupy, (37, 41), 1, dtype, "F")
    b, y = both(cupy, (41, 29), 2, dtype, "S")
    packed = falcon.pack(y, scheme=scheme)
    assert (
        packed.shape == (41, 29)
        and packed.dtype == dtype
        and packed.scheme == (None if scheme == "classical" else falcon.schemes.get(scheme))
    )
    for alpha in (1, 2j):
        for _ in range(2):
            assert (result(falcon.gemm(x, packed, alpha=alpha)) == alpha * (a @ b)).all()
    assert (result(falcon.matmul(x.T[:, :37].T, packed)) == a @ b).all()
    real = on_device(cupy, a.real, "float32" if dtype == "complex64" else "float64")
    assert (result(falcon.matmul(real, packed)) == a.real @ b).all()
    assert falcon.plan(x, packed).problem.packed
    assert falcon.plan(x, packed).method.scheme == packed.scheme


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("conjugate", [False, True])
def test_gram(cupy, transpose, conjugate):
    a, x = both(cupy, (30, 20), 1, "complex64")
    other = a.conj() if conjugate else a
    expected = a @ other.T if transpose else other.T @ a
    assert (result(falcon.gram(x, transpose=transpose, conjugate=conjugate)) == expected).all()
    several = cupy.asarray(np.stack([a, 2 * a]).astype("complex64"))
    product = falcon.gram(several, transpose=transpose, conjugate=conjugate, alpha=2)
    assert (result(product) == 2 * np.stack([expected, 4 * expected])).all()


def test_errors_are_those_of_real_products(cupy):
    """By parts, as "auto" multiplies where that is faster, and natively; of data with a mean."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((96, 96)) + 1j * rng.standard_normal((96, 96)) + m for m in (0, 9))
    x, y = (on_device(cupy, v, "complex64") for v in (a, b))
    a, b = (result(v).astype("clongdouble") for v in (x, y))
    scale = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
    for how in ({"arithmetic": "fp16x3"}, {"arithmetic": "native"}, {"scheme": "strassen"}):
        packed = falcon.pack(y, **how)
        for factor in (y, packed, pickle.loads(pickle.dumps(packed))):
            error = abs(result(falcon.gemm(x, factor, **how)) - a @ b) / scale
            assert error.max() < 4 * 2.0**-24 * np.sqrt(192), how


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
@pytest.mark.parametrize("value", [np.nan, np.inf, complex(0, -np.inf)])
def test_not_finite(cupy, scheme, value):
    """As four real products give it: Inf stays Inf where one part of a factor is zero."""
    a, b = numbers((40, 40), 1).astype("complex64"), whole((40, 40), 2, 3).astype("complex64")
    a.imag[5] = 0
    a.real[5] = 1
    b[7, 9] = value
    x, y = on_device(cupy, a, "complex64"), on_device(cupy, b, "complex64")
    with np.errstate(all="ignore"):
        parts = np.stack([b.real, b.imag], -1).reshape(40, 80)
        turned = np.stack([-b.imag, b.real], -1).reshape(40, 80)
        rows = np.stack([parts, turned], 1).reshape(80, 80)
        expected = (a.view("float32") @ rows).view("complex64")
    product = result(falcon.gemm(x, y, scheme=scheme))
    np.testing.assert_array_equal(product.view("float32"), expected.view("float32"))
    assert np.isfinite(np.delete(product, 9, axis=1)).all()


@pytest.mark.parametrize("order", "CF")
def test_out_overlaps(cupy, order):
    a, x = both(cupy, (24, 24), 1, "complex64", order)
    b, y = both(cupy, (24, 24), 2, "complex64", order)
    assert (result(falcon.gemm(x, y, out=y)) == a @ b).all()
    y[...] = on_device(cupy, b, "complex64")
    assert (result(falcon.gemm(x, y, out=x)) == a @ b).all()


def test_packed_calls_that_come_to_overlap(cupy):
    a, x = both(cupy, (24, 24), 1, "complex64")
    b, y = both(cupy, (24, 24), 2, "complex64")
    for scheme in ("classical", "strassen"):
        packed, out = falcon.pack(y, scheme=scheme), cupy.empty((24, 24), "complex64")
        for _ in range(2):
            assert (result(falcon.gemm(x, packed, out=out)) == a @ b).all()
        again = on_device(cupy, a, "complex64")
        assert (result(falcon.gemm(again, packed, out=again)) == a @ b).all()


@pytest.mark.parametrize("arithmetic", ["native", "fp16x3"])
def test_what_was_repaired_before_is_classical(cupy, arithmetic):
    a, x = both(cupy, (40, 40), 1, "complex64")
    b, y = both(cupy, (40, 40), 2, "complex64")
    out = cupy.empty((40, 40), "complex64")
    for scheme in ("classical", "strassen"):
        plan = falcon.plan(x, y, scheme=scheme, arithmetic=arithmetic)
        plan.runner.bind(x, y, None, out, 1j)._classical("a test", x, y, None, out)
        assert (result(out) == 1j * (a @ b)).all()


def test_einsum(cupy):
    a, x = both(cupy, (12, 8), 1, "complex64")
    b, y = both(cupy, (12, 9), 2, "complex64")
    assert (result(falcon.einsum("ki,kj->ji", x, y)) == np.einsum("ki,kj->ji", a, b)).all()
    assert (result(falcon.multi_dot([x.T, y])) == a.T @ b).all()


def test_empty(cupy):
    x, y = cupy.empty((5, 0), "complex64"), cupy.empty((0, 4), "complex64")
    assert (result(falcon.gemm(x, y)) == 0).all()
    assert falcon.gemm(x.T, cupy.empty((5, 3), "complex64")).shape == (0, 3)
    c, z = both(cupy, (5, 4), 1, "complex64", "F")
    assert (result(falcon.gemm(x, y, beta=2j, c=z)) == 2j * c).all()


def test_captured_and_recalled(cupy, state):
    x, y = (on_device(cupy, numbers((48, 48), i), "complex64") for i in (1, 2))
    out = cupy.empty((48, 48), "complex64")
    falcon.gemm(x, y, out=out)
    expected = result(out)
    state.capturing = True
    falcon.gemm(x, y, out=out)
    state.capturing = False
    assert (result(out) == expected).all()


def test_wrong_input(cupy):
    x, y = (on_device(cupy, numbers((8, 8), i), "complex64") for i in (1, 2))
    real = cupy.empty((8, 8), "float64")
    with pytest.raises(TypeError, match="out has dtype float64, to which the result's complex64"):
        falcon.gemm(x, y, out=real)
    with pytest.raises(TypeError, match=r"int64; expected one of .*complex64, complex128"):
        falcon.gemm(x, cupy.asarray(np.ones((8, 8), np.int64)))
    with pytest.raises(TypeError, match="a has dtype complex64, which does not cast"):
        falcon.gemm(x, y, dtype="float32")
    with pytest.raises(
        ValueError, match="workspace_limit is 100 bytes, and copies of complex operands take 1024"
    ):
        falcon.gemm(x, y, workspace_limit=100, arithmetic="tf32")
    with pytest.raises(ValueError, match="but b is <PackedOperand 8 x 8 complex64 for"):
        falcon.gemm(x, falcon.pack(y, scheme="strassen"), scheme="3x4x4:38")
    how = {"workspace_limit": 1024, "arithmetic": "tf32"}
    assert (result(falcon.gemm(x, y, **how)) == result(x) @ result(y)).all()
    with pytest.raises(
        ValueError, match="workspace_limit is 1024 bytes; complex factors take 1536"
    ):
        falcon.gemm(x, y, **how, beta=1j, c=y)


def test_what_a_batch_allocates(cupy, state):
    x = cupy.asarray(numbers((5, 16, 16), 1).astype("complex64"))
    out = cupy.empty((5, 16, 16), "complex64")
    for how, nbytes in (({}, 0), ({"arithmetic": "tf32"}, 2 * x.nbytes)):
        plan, before = falcon.plan(x, x, **how), state.allocated
        falcon.matmul(x, x, out=out, **how)
        assert state.allocated - before == plan.workspace == nbytes


@pytest.mark.parametrize("dtype", TYPES)
def test_native_products_are_the_librarys(cupy, state, dtype):
    """Of complex matrices, without B', packed ones too."""
    (a, x), (b, y) = both(cupy, (24, 20), 1, dtype), both(cupy, (20, 28), 2, dtype, "F")
    out = cupy.empty((24, 28), dtype)
    for factor in (y, falcon.pack(y)):
        before = state.allocated
        for _ in range(2):
            state.products.clear()
            falcon.gemm(x, factor, alpha=1 - 2j, out=out)
            assert (result(out) == (1 - 2j) * (a @ b)).all()
            assert [sizes for sizes, *_ in state.products] == [(28, 24, 20)]
        assert state.allocated == before


@pytest.mark.parametrize(
    ("size", "by"), [(1500, "complex128"), (2048, "complex128"), (16384, "float64")]
)
def test_the_copy_of_b_is_part_of_a_schemes_time(cupy, size, by):
    plan = falcon.plan((size,) * 2, (size,) * 2, "complex128", backend="gpu", reproducible=True)
    assert plan.method.layout.operand is dtype_of(by)


@pytest.mark.parametrize("scheme", ["classical", "strassen", "4x4x4:49"])
def test_real_data_by_parts_stay_real(cupy, state, scheme):
    """No mean is taken of both parts of a number; errors are those of float32."""
    state.truncates = 16, 2
    rng = np.random.default_rng(1)
    a, b = (rng.random(x).astype("float32") for x in ((24, 2000), (2000, 20)))
    x, y = (on_device(cupy, v, "complex64") for v in (a, b))
    found = result(falcon.gemm(x, y, scheme=scheme, arithmetic="fp16x3", max_growth=16))
    assert (found.imag == 0).all()
    exact, usual = a.astype(float) @ b, np.zeros((24, 20), "float32")
    for k in range(2000):
        usual += np.outer(a[:, k], b[k])
    errors, usual = found.real - exact, usual - exact
    assert np.sqrt((errors**2).mean()) <= 2.0 * np.sqrt((usual**2).mean())
    assert abs((errors / exact).mean()) < 1e-6
