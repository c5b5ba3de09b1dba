"""float8: `scaled_matmul` bit for bit where products are exact, and `quantize`."""

import ml_dtypes
import numpy as np
import pytest

import falcon
from falcon._core.dtypes import FLOAT8
from falcon._front.scaled import widened

E4M3, E5M2, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
TYPES = [(E4M3, E4M3), (E5M2, E5M2), (E4M3, E5M2), (BF16, E4M3)]
f4 = np.float32


def whole(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def scales(shape, seed):
    return np.random.default_rng(seed).uniform(0.5, 2, shape).astype(f4)


def exact(a, b, x=1.0, y=1.0, dtype=BF16):
    """Whole sums, which float32 holds; then the scales in float32, and one rounding."""
    sums = (a.astype(float) @ b.astype(float)).astype(f4)
    return (sums * np.asarray(x, f4) * np.asarray(y, f4)).astype(dtype)


def same(x, y):
    assert x.dtype == y.dtype
    np.testing.assert_array_equal(x.astype(float), y.astype(float))


@pytest.mark.parametrize("name", FLOAT8)
def test_every_number_is_converted_exactly(name):
    x = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    for y in (x, x.reshape(16, 16).T, x[::-3], x[:0], np.broadcast_to(x, (2, 256))):
        wide, shape = widened(y)
        assert shape == wide.shape == y.shape
        np.testing.assert_array_equal(wide.astype(f4), y.astype(f4))


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_types_and_scales(types, dtype):
    a, b = whole((37, 50), types[0]), whole((50, 300), types[1], 1)
    row, column = scales((37, 1), 2), scales((1, 300), 3)
    for x in (0.3, row, np.float64(0.3), row[:1]):
        for y in (1, column, column[0], column[:, :1]):
            got = falcon.scaled_matmul(a, b, x, y, dtype=dtype)
            same(got, exact(a, b, x, y, falcon._core.dtypes.dtype_of(dtype).numpy))
    assert falcon.scaled_matmul(a, b).dtype == BF16


@pytest.mark.parametrize("scheme", ["auto", "strassen", "classical"])
def test_against_more_precision(scheme):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((300, 300)).astype(E4M3) for _ in range(2))
    x, y = scales((300, 1), 1), scales((1, 300), 2)
    got = falcon.scaled_matmul(a, b, x, y, dtype="float32", scheme=scheme)
    wide = x * a.astype(float), b.astype(float) * y
    norms = np.linalg.norm(wide[0], axis=1)[:, None] * np.linalg.norm(wide[1], axis=0)
    assert (abs(got - wide[0] @ wide[1]) <= 1e-5 * norms).all()


def test_strides_batches_and_empty():
    a, b = whole((3, 20, 64), E4M3)[..., ::2], whole((30, 32), E5M2, 1).T
    x, y = scales((3, 20, 1), 2), scales((30,), 3)
    same(falcon.scaled_matmul(a, b, x, y), exact(a, b, x, y))
    same(falcon.scaled_matmul(a[:1], np.stack([b, b]), y[:1], x[0, 0]),
         exact(a[:1], np.stack([b, b]), y[:1], x[0, 0]))  # fmt: skip
    for M, K, N in ((0, 3, 2), (3, 0, 2), (3, 2, 0)):
        a, b = whole((M, K), E4M3), whole((K, N), E4M3)
        same(falcon.scaled_matmul(a, b, scales((M, 1), 1), 2), exact(a, b))


@pytest.mark.parametrize("dtype", [f4, BF16, np.float16])
def test_out(dtype):
    a, b, x, y = whole((40, 24), E4M3), whole((24, 50), E4M3, 1), scales((40, 1), 2), 0.5
    memory = np.full((40, 100), 7, dtype)
    out = memory[:, ::2]
    assert falcon.scaled_matmul(a, b, x, y, out=out) is out
    same(out, exact(a, b, x, y, dtype))
    assert (memory[:, 1::2] == 7).all()
    square = scales((24, 24), 5)  # holds the scales too
    want = exact(a[:24], b[:, :24], square[:, :1].copy(), 1, f4)
    same(falcon.scaled_matmul(a[:24], b[:, :24], square[:, :1], out=square), want)


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_nan_and_inf(scheme):
    a, b = whole((64, 64), E5M2) + E5M2(8), whole((64, 64), E4M3, 1)
    b = np.where(b == 0, E4M3(1), b)
    a[3, 5], a[7, 1], b[9, 4] = np.inf, np.nan, np.nan
    assert np.isnan(b[9, 4]) and np.isinf(a[3, 5])
    got = falcon.scaled_matmul(a, b, 2.0, 3.0, scheme=scheme)
    with np.errstate(all="ignore"):
        want = exact(a, b, 2, 3)
    same(got, want)
    assert np.isinf(got[3].astype(f4)).sum() == 63 and np.isnan(got.astype(f4)).sum() == 64 + 63


def test_packed():
    a, b, x, y = whole((20, 64), E4M3), whole((64, 48), E5M2, 1), scales((20, 1), 2), 0.7
    for how in ({}, {"scheme": "strassen"}, {"keep_source": False}):
        packed = falcon.pack(b, **how)
        same(falcon.scaled_matmul(a, packed, x, y), exact(a, b, x, y))
    with pytest.raises(TypeError, match="would be float32, but b was packed for bfloat16"):
        falcon.scaled_matmul(a, falcon.pack(b, dtype=BF16))
    with pytest.raises(TypeError, match="a is a PackedOperand; expected an array"):
        falcon.scaled_matmul(packed, b)


def test_wrong_input():
    a, b = whole((4, 5), E4M3), whole((5, 6), E4M3)
    bad = [
        (
            TypeError,
            "b has dtype float32; expected float8_e4m3fn, float8_e5m2 or",
            (a, b.astype(f4)),
            {},
        ),
        (TypeError, "a is a list; expected float8_e4m3fn", ([[1.0]], b), {}),
        (ValueError, r"a has shape \(5,\); expected a matrix, or a batch", (a[0], b), {}),
        (ValueError, "inner dimensions 5 and 4 differ", (a, b[:4]), {}),
        (
            ValueError,
            r"scale_a has shape \(4,\); expected a number or .* \(4, 1\)",
            (a, b, np.ones(4)),
            {},
        ),
        (ValueError, r"scale_b has shape \(6, 1\); .* \(1, 6\)", (a, b, 1, np.ones((6, 1))), {}),
        (
            TypeError,
            "scale_a has dtype complex128; expected real",
            (a, b, np.ones((4, 1), complex)),
            {},
        ),
        (
            TypeError,
            "dtype is 'float64'; expected float32 or bfloat16 or float16",
            (a, b),
            {"dtype": "float64"},
        ),
        (TypeError, "out has dtype float64; expected float32", (a, b), {"out": np.empty((4, 6))}),
        (
            TypeError,
            "out has dtype float32, but dtype=float16",
            (a, b),
            {"out": np.empty((4, 6), f4), "dtype": "f2"},
        ),
        (
            ValueError,
            r"out has shape \(4, 5\); expected \(4, 6\)",
            (a, b),
            {"out": np.empty((4, 5), f4)},
        ),
        (TypeError, "unexpected keyword argument 'modulus'", (a, b), {"modulus": 7}),
        (
            ValueError,
            "workspace_limit is 99 bytes; a buffer of 100",
            (a, b),
            {"workspace_limit": 99, "dtype": "f4"},
        ),
        (
            ValueError,
            "workspace_limit is 195 bytes; a buffer of 196",
            (a, b),
            {"workspace_limit": 195},
        ),
    ]
    for error, match, arguments, options in bad:
        with pytest.raises(error, match=match):
            falcon.scaled_matmul(*arguments, **options)
    with pytest.raises(TypeError, match=r"a has dtype float8.* \(falcon.scaled_matmul multiplies"):
        falcon.gemm(a, b)


@pytest.mark.parametrize("name, unit, least", [("float8_e4m3fn", 2**-4, 2**-10),
                                               ("float8_e5m2", 2**-3, 2**-17)])  # fmt: skip
@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_quantize_round_trip(name, unit, least, axis):
    x = np.random.default_rng(0).standard_normal((30, 40)) * 10.0 ** np.arange(-20, 20)
    x[4], x[:, 7], x[6] = 0, 0, -abs(x[6])
    values, scales = falcon.quantize(x, dtype=name, axis=axis)
    assert values.dtype.name == name and scales.dtype == f4
    axes = (0, 1) if axis is None else axis
    assert scales.shape == x.sum(axes, keepdims=True).shape
    size = float(ml_dtypes.finfo(name).max)
    largest = abs(x.astype(f4)).max(axes, keepdims=True)
    same(scales, np.maximum(largest / f4(size), np.finfo(f4).tiny))
    back = values.astype(float) * scales
    assert (abs(back - x) <= 1.001 * np.maximum(unit * abs(x), least * scales)).all()
    assert (abs(values.astype(f4)).max(axes) == size * (largest.squeeze() > 0)).all()
    assert (values[4] == 0).all() and (np.sign(values[6].astype(f4)) <= 0).all()


def test_quantize_what_is_not_finite_and_empty():
    x = np.array([[1, np.nan, -2], [np.inf, 3, -np.inf], [np.nan] * 3, [1e-42, 0, 0]])
    for name in FLOAT8:
        values, scales = falcon.quantize(x, dtype=name)
        top, v = float(ml_dtypes.finfo(name).max), values.astype(float)
        np.testing.assert_array_equal(v[0], [top / 2, np.nan, -top])
        beyond = np.inf if name == "float8_e5m2" else np.nan
        np.testing.assert_array_equal(v[1], [beyond, top, -beyond])
        assert np.isnan(v[2]).all() and (v[3] == np.float32(1e-42) * 2.0**126).sum() <= 3
        assert scales[2] == scales[3] == np.finfo(f4).tiny
    for shape, axis in (((3, 0), -1), ((0, 3), -1), ((0, 0), None)):
        values, scales = falcon.quantize(np.ones(shape), axis=axis)
        assert values.shape == shape and scales.size == (3 if shape == (3, 0) else axis is None)
    assert falcon.quantize([[2, 4]], dtype=E5M2)[0].tolist() == [[28672, 57344]]


@pytest.mark.parametrize("name", FLOAT8)
def test_quantize_numbers_that_float32_does_not_hold(name):
    """Their scales may be numbers of float32; if not, it raises."""
    top, x = float(ml_dtypes.finfo(name).max), np.array([[1.0, 1e39], [np.inf, -3e40], [3, 1.5]])
    values, scales = falcon.quantize(x, dtype=name)
    assert scales.dtype == f4
    np.testing.assert_allclose(scales[:, 0], [1e39 / top, 3e40 / top, 3 / top], 1e-6)
    same(values[:, 1].astype(float), np.array([top, -top, top / 2]))
    beyond = np.inf if name == "float8_e5m2" else np.nan
    np.testing.assert_array_equal(values[:2, 0].astype(float), [0, beyond])
    with pytest.raises(ValueError, match=r"x has numbers up to 1e\+50, whose scale float32"):
        falcon.quantize([1.0, 1e50], dtype=name)


def test_quantize_wrong_input():
    bad = [
        (TypeError, "dtype is 'f2'; expected float8_e4m3fn or float8_e5m2", {"dtype": "f2"}),
        (ValueError, r"axis is 2; expected axes of x, of shape \(2, 2\)", {"axis": 2}),
        (ValueError, "axis is 1.5", {"axis": 1.5}),
    ]
    for error, match, options in bad:
        with pytest.raises(error, match=match):
            falcon.quantize(np.ones((2, 2)), **options)
    with pytest.raises(TypeError, match="x has dtype complex128; expected integers or floats"):
        falcon.quantize(np.ones((2, 2), complex))


@pytest.mark.parametrize("name", FLOAT8)
def test_torch(name):
    torch = pytest.importorskip("torch")
    x, w = (torch.randn(n, 64, generator=torch.Generator().manual_seed(n)) for n in (20, 30))
    x[3, 4], x[5, 6] = float("inf"), float("nan")
    a, row = falcon.quantize(x, dtype=getattr(torch, name))
    b, column = falcon.quantize(w.T, dtype=name, axis=-2)
    host, powers = falcon.quantize(x.numpy(), dtype=name)
    np.testing.assert_array_equal(a.float().numpy(), host.astype(f4))  # NaN has several codes
    assert torch.equal(row, torch.from_numpy(powers))
    out = torch.empty(20, 30, dtype=torch.float16)
    assert falcon.scaled_matmul(a, b, row, column, out=out) is out
    got = falcon.scaled_matmul(a, b, row, column, dtype=torch.float32)
    want = (row * a.double()) @ (b.double() * column)
    torch.testing.assert_close(got, want.float(), atol=1e-4, rtol=1e-5, equal_nan=True)
    torch.testing.assert_close(out, got.half(), atol=0, rtol=0, equal_nan=True)
    assert falcon.scaled_matmul(a, b).dtype == torch.bfloat16
