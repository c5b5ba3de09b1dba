"""Units along K: data whose columns differ in scale, which rows of B fold back."""

import logging
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._core.rates import Rates
from falcon._cpu.extension import _core
from falcon._cpu.programs import engine_scheme

from .doors import Problem

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "studies"))
    import units

_FLOAT = Problem.of_sizes((512,) * 3, dtype_of("float32"), Options())
HOST = [x.name for x in available_backends() if not x.why_classical_only(_FLOAT)]
SHAPE = (420, 520, 390)
MOST = 9.0  # times the error of np.matmul, or a rounding of C: one more than the largest growth
needs_engine = pytest.mark.skipif(_core is None, reason="needs the extension")


def guarded(a, b, scheme, **options):
    """Return the plan of a scheme as if "auto" had chosen it."""
    return replace(falcon.plan(a, b, scheme=scheme, **options), guarded=True)


def off(found, a, b):
    """Return the RMS error in units of what is allowed."""
    wide = np.result_type(a, np.longdouble if a.real.dtype == np.float64 else np.float64)
    some = slice(None, None, 8 if wide == np.longdouble else 1)
    e = a[some].astype(wide) @ b.astype(wide)
    return units.size(found[some] - e) / units.unit(a[some], b, e)


def within(plan, found, a, b):
    wide = np.result_type(a, np.longdouble if a.real.dtype == np.float64 else np.float64)
    some = slice(None, None, 8)
    exact = a[some].astype(wide) @ b.astype(wide)
    return (np.abs(found[some] - exact) <= plan.error_bound(a, b)[some]).all()


@pytest.fixture
def lcma(doors):
    """A machine that multiplies slowly and adds fast, and packs B all the same."""
    doors.rates(Rates(1e9, 1e13, 1e13))
    doors.packs(True)
    doors.numbers(rows_to_pack_for=1000)


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("kind", units.KINDS)
def test_errors_are_those_of_even_data(kind, dtype, backend):
    a, b = units.drawn(kind, dtype, SHAPE)
    for scheme in ("strassen@strassen", "3x4x6:54"):
        plan = guarded(a, b, scheme, backend=backend)
        found = plan(a, b)
        assert off(found, a, b) <= 1.1 * plan.growth, scheme
        if scheme[0] == "3":
            assert within(plan, found, a, b)


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", [*units.EVEN, "lognormal", "rectified", "channels"])
def test_data_without_units_are_not_evened(kind, backend, caplog):
    caplog.set_level(logging.DEBUG, "falcon")
    for seed in range(6):
        a, b = units.drawn(kind if kind in units.EVEN else "no units", "f4", SHAPE, seed)
        if kind == "lognormal":
            a, b = np.exp(a), np.exp(b)
        elif kind == "rectified":
            a, b = np.maximum(a, 0), np.maximum(b, 0)
        elif kind == "channels":
            a[:, [3, 400, 401]] += 1000
        by_name = falcon.plan(a, b, scheme="3x4x6:54", backend=backend, centre=False)
        found = replace(by_name, guarded=True)(a, b)
        if kind == "no units":
            np.testing.assert_array_equal(found, by_name(a, b))
    assert not [x for x in caplog.records if "units" in x.getMessage()]


@pytest.mark.parametrize("kind", ["3 decades", "a few columns of B"])
def test_a_scheme_by_name_is_not_evened(kind):
    a, b = units.drawn(kind, "f4", SHAPE)
    assert off(falcon.gemm(a, b, scheme="strassen"), a, b) > 20


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", units.KINDS)
def test_every_door(kind, backend):
    shape = 1100, 1200, 1100
    a, b = units.drawn(kind, "f4", shape)
    how = {"backend": backend}
    plan = falcon.plan(a, b, **how)
    assert plan.scheme is not None and plan.guarded
    out = np.empty(shape[::2], "f4", "F")
    for found in (falcon.matmul(a, b, **how), falcon.gemm(a.copy("F"), b, out=out, **how)):
        assert off(found, a, b) <= MOST
    packed = falcon.pack(b, **how)
    assert packed.scheme is not None
    assert off(a @ packed, a, b) <= MOST
    loaded = pickle.loads(pickle.dumps(packed))
    np.testing.assert_array_equal(a @ loaded, a @ packed)
    batch = falcon.matmul(np.stack([a, -a]), b, **how)
    assert max(off(batch[0], a, b), off(-batch[1], a, b)) <= MOST


@pytest.mark.parametrize("backend", HOST)
def test_the_corner_of_a_gram_matrix(backend):
    rng = np.random.default_rng(4)
    x, rows = rng.standard_normal((520, 400)), 10 ** rng.uniform(-3, 3, (520, 1))
    x[:, :200] *= rows
    x[:, 200:] /= rows
    x = x.astype("f4")
    a, b = x[:, :200].T, x[:, 200:]
    assert off(guarded(a, b, "strassen", backend=backend)(a, b), a, b) <= 3
    whole = falcon.plan(x.T, x, scheme="strassen", backend=backend)
    parts = tuple(replace(y, plan=replace(y.plan, guarded=True)) for y in whole.parts)
    whole = replace(whole, guarded=True, parts=parts)
    found, exact = whole(x.T, x), x.T.astype("f8") @ x
    assert (np.abs(found - exact) <= whole.error_bound(x.T, x)).all()


@pytest.mark.parametrize("backend", HOST)
def test_zeros_rows_that_no_sample_sees_and_extreme_units(backend):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((400, 500)), rng.standard_normal((500, 300))
    s = 10.0 ** rng.uniform(-9, 9, 500)
    a, b = (a * s).astype("f4"), (b / s[:, None]).astype("f4")
    b[17], a[:, 17] = 0, 1e25  # useless, and as large as a row of B is small
    b[30, :], a[:, 30] = 0, 0
    b[40, :], b[40, 123] = 0, 1e-8  # of which a sample sees zeros alone
    a[:, 40] = 1e8
    b[50], a[:, 50] = 1e-42, 1e30  # subnormal numbers
    multiply = partial(guarded(a, b, "strassen", backend=backend), a, b)
    exact = a.astype("f8") @ b
    assert units.size(multiply() - exact) <= MOST * max(
        units.size(a @ b - exact), 2**-24 * units.size(exact)
    )
    packed = falcon.pack(b, backend=backend)
    np.testing.assert_allclose((a @ packed)[:, 123], exact[:, 123], rtol=1e-3)
    a[3, 17] = np.inf
    with np.errstate(all="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(np.isnan(multiply()), np.isnan(expected))


@pytest.mark.usefixtures("lcma")
def test_rows_that_a_packed_b_has_in_few_columns_are_kept():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((300, 1000)), rng.standard_normal((1000, 1000))
    b *= 10.0 ** rng.uniform(-2, 2, (1000, 1))
    b[::7] = 0
    b[::7, 201] = 5.0
    packed = falcon.pack(b, backend=HOST[0])
    assert packed.scheme is not None and packed.units is not None
    np.testing.assert_allclose((a @ packed)[:, 201], a @ b[:, 201], rtol=1e-9, atol=1e-9)


@needs_engine
@pytest.mark.parametrize("dtype", ["f2", "bfloat16"])
def test_types_of_16_bits(dtype):
    dtype = np.dtype(dtype) if dtype == "f2" else pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(7)
    s = np.where(np.arange(520) % 100 == 3, 1e3, 1.0)
    a = (rng.standard_normal((400, 520)) * s).astype(dtype)
    b = (rng.standard_normal((520, 300)) / s[:, None]).astype(dtype)
    exact = a.astype("f8") @ b.astype("f8")
    classical = falcon.gemm(a, b, scheme="classical", backend="cpu")
    plan = guarded(a, b, "strassen", backend="cpu")
    found, base = (units.size(x.astype("f8") - exact) for x in (plan(a, b), classical))
    assert found <= MOST * base


def test_integers_are_untouched():
    rng = np.random.default_rng(8)
    s = np.where(np.arange(300) % 100 == 3, 1000, 1)
    a, b = rng.integers(-9, 9, (200, 300)) * s, rng.integers(-9, 9, (300, 100))
    for scheme in ("auto", "strassen"):
        np.testing.assert_array_equal(falcon.gemm(a, b, scheme=scheme), a @ b)


@needs_engine
def test_a_limit_is_kept_and_threads_do_not_count():
    a, b = units.drawn("6 decades", "f4", (600, 700, 500))
    for limit in (1_500_000, 4_000_000, None):
        how = {"backend": "cpu", "workspace_limit": limit, "reproducible": True}
        found = [guarded(a, b, "strassen", threads=x, **how)(a, b) for x in (1, 2, 5)]
        assert off(found[0], a, b) <= 3
        assert all((x == found[0]).all() for x in found)


def test_it_is_told(caplog):
    caplog.set_level(logging.DEBUG, "falcon")
    a, b = units.drawn("3 decades", "f4", SHAPE)
    guarded(a, b, "strassen")(a, b)
    assert any("units along K are evened" in x.getMessage() for x in caplog.records)
    caplog.clear()
    a, b = units.drawn("a few columns of B", "f4", SHAPE)
    guarded(a, b, "strassen")(a, b)
    assert any("nothing evens its units" in x.getMessage() for x in caplog.records)


@needs_engine
@pytest.mark.parametrize("isa", [] if _core is None else _core.supported_isas())
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("order", ["CCC", "FFF", "CFF", "FCC"])
def test_the_engine_multiplies_by_units_first(isa, kind, order):
    rng = np.random.default_rng(9)
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(kind)
    dtype = dtype or pytest.importorskip("ml_dtypes").bfloat16
    accumulator = np.float64 if kind == "f64" else np.float32
    for M, N, K in ((150, 170, 301), (31, 33, 35), (5, 70, 900)):
        powers = np.exp2(rng.integers(-3, 4, K))
        a, b = (rng.integers(-9, 9, x).astype(dtype) for x in ((M, K), (K, N)))
        x, y = (a * powers).astype(dtype), (b / powers[:, None]).astype(dtype)
        a, b, x, y = (
            np.asarray(z, order=o) for z, o in zip((a, b, x, y), order[:2] * 2, strict=True)
        )
        layout = _core.plan(
            *(M, N, K, kind),
            isa=isa,
            scheme=engine_scheme(falcon.schemes.get("3x4x6:54")),
            threads=2,
            a_by_columns=order[0] == "F",
            b_by_rows=order[1] == "C",
            c_by_columns=order[2] == "F",
        )
        found, expected = (np.empty((M, N), dtype, order[2]) for _ in "xy")
        given = powers.astype(accumulator), (1 / powers).astype(accumulator)
        _core.gemm(layout, a, b, found, units=given)
        _core.gemm(layout, x, y, expected)
        assert found.tobytes() == expected.tobytes()
        for z, scaled, axis, some in ((a, x, 0, given[0]), (b, y, 1, given[1])):
            norms, of_scaled = np.empty(z.shape[axis]), np.empty(z.shape[axis])
            _core.norms(z, norms, axis, 2, isa, kind, units=some)
            _core.norms(scaled, of_scaled, axis, 2, isa, kind)
            np.testing.assert_array_equal(norms, of_scaled)


@pytest.mark.parametrize("backend", HOST)
def test_floating_point_flags_stay_clean(backend):
    a, b = units.drawn("9 decades", "f4", SHAPE)
    a[7, 5], b[9, 11] = np.inf, np.nan
    b[5] = 0
    with np.errstate(all="ignore"):
        expected = a @ b
    with np.errstate(all="raise"):
        found = guarded(a, b, "strassen", backend=backend)(a, b)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", ["i4", "f2"])
def test_operands_of_other_types_than_the_products(kind, backend):
    rng = np.random.default_rng(10)
    s = np.where(np.arange(1200) % 10 == 3, 100, 1)
    a = (rng.integers(-9, 10, (1100, 1200)) * s).astype(kind)
    b = (rng.integers(-9, 10, (1200, 1100)) * (101 - s)[:, None]).astype(kind)
    exact = a.astype("f8") @ b.astype("f8")
    how = {"backend": backend, "dtype": "f4"}
    for found in (falcon.gemm(a, b, **how), falcon.gemm(a, falcon.pack(b, **how), dtype="f4")):
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * abs(exact).max())
