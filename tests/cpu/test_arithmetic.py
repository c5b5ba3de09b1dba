"""float32 from parts of bfloat16: by emulated tiles on every machine, and by real ones."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon._core import sampled
from falcon._core.dtypes import BY_ARITHMETIC, FLOAT32, FLOAT64, RUNGS, dtype_of
from falcon._core.ladder import promise
from falcon._cpu import extension
from falcon._cpu.extension import has_kernel
from falcon._cpu.programs import engine_scheme
from falcon.bench.records import plan_entry
from falcon.decision.ways import ways
from falcon.schemes import get
from reference.split import leading_bits, parts, split_product

from . import emulated
from .support import gemm, pack

KINDS = ["f32x6", "f32x3"]
HAS_TILES = has_kernel(BY_ARITHMETIC["bf16x6"])
# RMS errors relative to the product, with a margin of two.
MOST = {"f32x6": 3e-7, "f32x3": 1e-5}
DATA = {
    "normal": lambda x: x,
    "one sign": lambda x: abs(x),
    "lognormal": lambda x: np.exp(x),
    "outlier features": lambda x: x * np.where(np.arange(x.shape[1]) % 99, 1, 100),
    "constant": lambda x: np.full(x.shape, 0.1),
    "sparse": lambda x: x * (abs(x) > 2.7),
    "tiny": lambda x: x,
    "large": lambda x: x,
    "counts": lambda x: np.floor(abs(x) * 4),
}
SHAPES = [(1, 1, 1), (2, 3, 2), (16, 32, 16), (17, 33, 31), (33, 65, 70), (97, 200, 130)]


@pytest.fixture(params=emulated.USED[:1])
def tiles(emulated_libraries, request):
    with emulated.kernels(emulated_libraries, request.param) as isa:
        yield isa


@pytest.fixture
def backend(request, doors):
    """The backend that multiplies parts: "cpu", by emulated tiles where there is no AMX."""
    if HAS_TILES:
        yield "cpu"
        return
    doors.forced_isa(None)
    with emulated.kernels(request.getfixturevalue("emulated_libraries"), "emulated"):
        for known in (extension.isa, has_kernel):
            known.cache_clear()
        yield "cpu"
    for known in (extension.isa, has_kernel):
        known.cache_clear()


def operands(M, K, N, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(x).astype(np.float32) for x in ((M, K), (K, N)))


def error(c, a, b):
    exact = a.astype(float) @ b.astype(float)
    return np.sqrt(np.mean((c - exact) ** 2) / np.mean(exact**2))


def test_three_parts_hold_a_float32():
    (x, _) = operands(100, 100, 1)
    x *= np.float32(10.0) ** np.random.default_rng(1).integers(-20, 20, x.shape)
    assert (sum(parts(x)) == x).all()
    assert all((leading_bits(y) == y).all() for y in parts(x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_are_as_accurate_as_the_reference(tiles, kind, shape):
    a, b = operands(*shape)
    c = np.empty((shape[0], shape[2]), np.float32)
    gemm(a, b, c, isa=tiles, kind=kind)
    assert error(c, a, b) < MOST[kind]
    if kind == "f32x6":
        np.testing.assert_allclose(c, split_product(a, b), rtol=0, atol=1e-5)


@pytest.mark.parametrize("scheme", [None, "strassen", "3x2x4:20", "strassen@strassen"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_integers_are_exact_in_any_layout(tiles, kind, scheme, seed):
    rng = np.random.default_rng(seed)
    M, K, N = rng.integers(1, 150, 3)
    a, b = (rng.integers(-9, 10, x).astype(np.float32) for x in ((M, K), (K, N)))
    c = rng.integers(-9, 10, (M, N)).astype(np.float32)
    want = 2 * (a @ b) - c
    if seed % 2:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    if seed > 1:
        a, b = np.repeat(a, 2, 1)[:, ::2], np.repeat(b, 3, 0)[::-3][::-1]
    engine = engine_scheme(get(scheme)) if scheme else None
    how = {"isa": tiles, "kind": kind, "scheme": engine, "threads": 2}
    gemm(a, b, c, 2.0, -1.0, **how)
    np.testing.assert_array_equal(c, want)
    packed = pack(b, isa=tiles, kind=kind, scheme=engine)
    gemm(a, b, c, 2.0, packed=packed, **how)
    np.testing.assert_array_equal(c, 2 * (a @ b))


@pytest.mark.parametrize("arithmetic", ["bf16x6", "bf16x3"])
def test_asked_for_by_name(backend, arithmetic):
    a, b = operands(150, 200, 120)
    given = {"backend": backend, "arithmetic": arithmetic, "max_growth": 16}
    c = falcon.gemm(a, b, **given)
    plan = falcon.plan(a, b, **given)
    assert plan.operand.name == f"float32 by {arithmetic}"
    classical = error(falcon.gemm(a, b, arithmetic="native", scheme="classical"), a, b)
    assert error(c, a, b) < 2 * plan.growth * classical
    assert (abs(c - a.astype(float) @ b) <= plan.error_bound(a, b, proved=True)).all()
    ones = falcon.gemm(a, b, np.ones_like(c), beta=2, **given)
    np.testing.assert_allclose(ones, c + 2, rtol=0, atol=1e-4)
    np.testing.assert_allclose(a @ falcon.pack(b, **given), c, rtol=0, atol=1e-3)
    np.testing.assert_allclose(falcon.gram(a, **given), a.T @ a, rtol=0, atol=1e-2)


@pytest.mark.parametrize("row", [RUNGS[FLOAT32][1], RUNGS[FLOAT64][1]], ids=str)
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_elements_rounded_to_bfloat16(backend, row, scheme):
    a, b = (x.astype(row.left.numpy) for x in operands(150, 200, 120))
    given = {"backend": backend, "arithmetic": "bf16", "scheme": scheme}
    plan = falcon.plan(a, b, **given)
    assert plan.operand is row
    size = np.multiply.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    exact = a.astype(float) @ b
    promised = plan.growth * promise(plan.problem, plan.method, centred=True)
    for c in (falcon.gemm(a, b, **given), falcon.gemm(a, falcon.pack(b, **given))):
        assert 1e-4 < (abs(c - exact) / size).max() < promised < 0.03
        assert (abs(c - exact) <= plan.error_bound(a, b, proved=True)).all()
    assert falcon.gemm(a, b, check="verify", **given).dtype == a.dtype
    for factor in (1e-30, 1e-38 if row.left is FLOAT32 else 1e-200):
        x = a * row.left.numpy.type(factor)
        found = falcon.gemm(x, b, **given).astype(np.longdouble) / factor
        assert (abs(found - exact) / size).max() < promised
    assert not np.isfinite(falcon.gemm(a * np.inf, b, **given)).any()


def test_an_error_allows_bfloat16(backend):
    a, b = operands(300, 400, 350)
    own = [BACKENDS[backend]]

    def names(error):
        plan = falcon.plan(a, b, error=error, backend=backend)
        found = ways(plan.problem, plan.options, own)
        return [x.compute_type.name for x in found if x.compute_type]

    assert "float32 by bf16" in names(1e-2)
    assert "float32 by bf16" not in names(5e-4)
    assert "float32 by float64" in names(1e-7)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("row", [FLOAT32, FLOAT64], ids=str)
def test_data_of_all_kinds_keep_an_error_that_bfloat16_promises(backend, monkeypatch, kind, row):
    monkeypatch.setattr("falcon.decision.ways._PRICE", 1e-9)  # emulated kernels are slow
    monkeypatch.setitem(RUNGS, row, (RUNGS[row][1],))
    rng = np.random.default_rng(7)
    a, b = (DATA[kind](rng.standard_normal(x)) for x in ((250, 300), (240, 300)))
    factor = {"tiny": 1e-36, "large": 1e30}.get(kind, 1.0)
    a, b = (a * factor).astype(row.numpy), b.T.astype(row.numpy)
    norms = (np.sqrt(np.square(x.astype(float)).sum(axis=n)) for x, n in ((a, 1), (b, 0)))
    size = np.multiply.outer(*norms)
    options = {"error": 8e-3, "backend": backend, "reproducible": True}
    assert falcon.plan(a, b, **options).operand is RUNGS[row][0]
    before = sampled.again.total()
    c = falcon.matmul(a, b, **options)
    off = np.divide(abs(c - a.astype(float) @ b), size, out=np.zeros_like(size), where=size > 0)
    assert off.max() <= 8e-3
    assert (sampled.again.total() > before) == (kind == "tiny")


def test_operands_are_scaled_as_for_native_schemes(backend):
    a, b = operands(150, 200, 120)
    a[::2] *= np.float32(1e6)
    plan = falcon.plan(a, b, arithmetic="bf16x6", scheme="strassen", backend=backend)
    found = replace(plan, guarded=True)(a, b)
    assert (abs(found - a.astype(float) @ b) <= replace(plan, guarded=True).error_bound(a, b)).all()
    assert all(x.finfo.max == np.finfo(np.float32).max for x in BY_ARITHMETIC.values())


@pytest.mark.parametrize("scheme", ["classical", "auto"])
def test_values_that_parts_cannot_hold(backend, scheme):
    a, b = operands(60, 70, 50)
    given = {"backend": backend, "arithmetic": "bf16x6", "scheme": scheme}
    largest = np.finfo(np.float32).max
    cases = {"inf": np.inf, "nan": np.nan, "largest": largest, "tiny": None}
    for name, value in cases.items():
        x = a.copy()
        if value is None:
            x[5] *= np.float32(1e-36)
        else:
            x[5, 6] = value
        found = falcon.gemm(x, b, **given)
        with np.errstate(all="ignore"):
            want = (x.astype(float) @ b.astype(float)).astype(np.float32)
        np.testing.assert_allclose(found[5], want[5], rtol=1e-3, err_msg=name)
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-4, err_msg=name)
        c = np.ones_like(found)
        falcon.gemm(x, b, c, beta=1, out=c, **given)  # c is still there where it is redone
        np.testing.assert_allclose(c, want + 1, rtol=1e-3, atol=1e-4, err_msg=name)


def test_tiny_operands_whose_products_parts_cannot_hold(backend):
    a, b = operands(60, 70, 50)
    a, b = (np.ldexp(x, -62).astype(np.float32) for x in (a, b))  # products are subnormal to tiles
    given = {"backend": backend, "arithmetic": "bf16x6"}
    exact = a.astype(float) @ b.astype(float)
    packed = falcon.pack(b, **given)
    for found in (falcon.gemm(a, b, **given), falcon.gemm(a, packed)):
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * abs(exact).max())


def test_a_setting_is_not_for_an_operand_packed_without_parts(backend):
    a, b = (np.round(4 * x) for x in operands(60, 70, 50))
    packed = falcon.pack(b, backend=backend, arithmetic="native")
    with falcon.config(arithmetic="bf16x6"):
        np.testing.assert_array_equal(falcon.gemm(a, packed), a @ b)


@pytest.mark.parametrize("arithmetic", ["bf16x6", "bf16x3"])
def test_proved_bounds_hold_for_what_parts_lose_most(backend, arithmetic):
    """Every element's lower bits are ones, and there is hardly a sum to hide that."""
    for x in (2 - 2.0**-23, 1 + 2.0**-8 + 2.0**-9 - 2.0**-23, 1 + 2.0**-9 + 2.0**-17 + 2.0**-18):
        for K in (1, 2, 3, 64, 500):
            a, b = np.full((20, K), x, np.float32), np.full((K, 20), x, np.float32)
            given = {"arithmetic": arithmetic, "max_growth": 16, "backend": backend}
            plan = falcon.plan(a, b, **given)
            error = abs(falcon.gemm(a, b, **given) - a.astype(float) @ b)
            assert (error <= plan.error_bound(a, b, proved=True)).all(), (x, K)


def test_tables_name_it_and_say_what_numpy_would_take(backend):
    a, b = operands(150, 200, 120)
    given = {"backend": backend, "arithmetic": "bf16x6", "scheme": "classical"}
    with falcon.profile() as p:
        falcon.gemm(a, b, **given)
    (row,) = p.rows()
    assert row.scheme == plan_entry(falcon.plan(a, b, **given))["scheme"] == "bf16x6 classical"
    assert 0 < row.numpy_seconds < 0.1


def test_what_it_does_not_fit_is_said():
    a, b = operands(6, 7, 5)
    with pytest.raises(TypeError, match=r"'bf16x6' multiplies float32 .* not float64 to float64"):
        falcon.gemm(a.astype(float), b.astype(float), arithmetic="bf16x6")
    with pytest.raises(ValueError, match=r"'bf16x3' errs 16 times as much .* max_growth is 8"):
        falcon.matmul(a, b, arithmetic="bf16x3")
    with pytest.raises(ValueError, match="arithmetic is 'fp8'; expected one of 'auto', 'native'"):
        falcon.gemm(a, b, arithmetic="fp8")
    with falcon.config(arithmetic="bf16x6"):  # a setting is for what it fits
        assert (falcon.plan(a, b).method.arithmetic is not None) == HAS_TILES
        assert falcon.plan(a.astype(float), b.astype(float)).method.arithmetic is None


def test_a_keyword_is_for_products_that_it_fits_and_a_setting_for_those_that_do(doors):
    """A keyword that equals the setting raises too; one for packed panels must be theirs."""
    a, b = operands(6, 7, 5)
    double = a.astype(float), b.astype(float)
    for name in ("tf32", "fp16x3", "fixed"):
        with falcon.config(arithmetic=name):
            np.testing.assert_allclose(falcon.gemm(a, b), a @ b, 1e-4)
            packed = pickle.dumps(falcon.pack(b))
            with pytest.raises(TypeError, match=f"'{name}' is for matrices in GPU memory"):
                falcon.gemm(a, b, arithmetic=name)
        assert pickle.loads(packed).arithmetic == "native"
        for call in (falcon.gemm, falcon.matmul, falcon.plan, falcon.pack, falcon.gram):
            with pytest.raises(TypeError, match=f"'{name}' is for matrices in GPU memory"):
                call(*(a, b)[: 1 + (call not in (falcon.pack, falcon.gram))], arithmetic=name)
    for how in ({"arithmetic": "bf16x6"}, {}):
        with falcon.config(**how):
            falcon.gemm(*double)
            with pytest.raises(TypeError, match=r"'bf16x6' multiplies float32 .* not float64"):
                falcon.gemm(*double, arithmetic="bf16x6")
            with pytest.raises(TypeError, match="not int64 to int64"):
                falcon.matmul(*(x.astype(int) for x in double), arithmetic="bf16x6", modulus=7)
            packed = falcon.pack(double[1], scheme="strassen")
        falcon.gemm(double[0], pickle.loads(pickle.dumps(packed)))
    packed = falcon.pack(b, scheme="strassen", arithmetic="native")
    with pytest.raises(ValueError, match="arithmetic is 'bf16x6', but b was packed for 'native'"):
        falcon.gemm(a, packed, arithmetic="bf16x6")
    with falcon.config(arithmetic="bf16x6"):
        np.testing.assert_allclose(falcon.gemm(a, packed), a @ b, 1e-4)
    with pytest.raises(TypeError, match="arithmetic='tf32' needs plain numeric arrays"):
        falcon.matmul(a.astype(object), b.astype(object), arithmetic="tf32")


def test_without_tiles_nothing_multiplies_parts(doors):
    """By a keyword it is an error, which says why; a setting is for machines that have them."""
    doors.without_kernels(lambda row: row.arithmetic is not None)
    a, b = (np.round(4 * x) for x in operands(90, 70, 50))
    for call in (falcon.gemm, falcon.plan, lambda a, b, **how: falcon.pack(b, **how)):
        with pytest.raises(TypeError, match="float32 by bf16x6 need AMX_BF16"):
            call(a, b, arithmetic="bf16x6")
    with pytest.raises(TypeError, match="kernels for float32 by bf16x6 need AMX_BF16"):
        falcon.gemm(a, b, arithmetic="bf16x6", backend="cpu")
    with pytest.raises(TypeError, match="need AMX_BF16"):
        falcon.gemm(a, b, arithmetic="bf16x6", reproducible=True)
    with pytest.raises(TypeError, match="NumPy has no kernels for float32 by bf16x6"):
        falcon.gemm(a, b, arithmetic="bf16x6", backend="numpy")
    with falcon.config(arithmetic="bf16x6"):
        np.testing.assert_array_equal(falcon.gemm(a, b), a @ b)
        assert falcon.plan(a, b, backend="numpy").method.arithmetic is None
    large = (2048, 2048), (2048, 2048)
    assert falcon.plan(*large, "float32").method.arithmetic is None


def test_parts_are_centred(backend):
    rng = np.random.default_rng(3)
    a, b = (rng.random(x).astype(np.float32) for x in ((300, 400), (400, 350)))
    how = {"scheme": "strassen", "arithmetic": "bf16x6", "backend": backend}
    plain, centred = (error(falcon.gemm(a, b, centre=x, **how), a, b) for x in (False, True))
    assert centred < 0.5 * plain


def test_bfloat16_panels_are_not_centred(backend):
    """Where differences would be rounded to bfloat16: products of float32 would lose 16 bits."""
    rng = np.random.default_rng(4)
    a, b = (rng.random(x).astype(dtype_of("bfloat16").numpy) for x in ((100, 300), (300, 90)))
    how = {"dtype": np.float32, "scheme": "classical", "backend": backend}
    plan = falcon.plan(a, b, centre=True, **how)
    assert plan.method.layout.segments == []
    for x in (False, True):
        assert error(falcon.gemm(a, b, centre=x, **how), a, b) < 1e-6
