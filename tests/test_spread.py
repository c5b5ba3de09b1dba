"""Badly scaled operands: "auto" multiplies them classically and logs it; others keep their LCMA."""

import logging
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._core.rates import Rates
from falcon._core.spread import is_uneven, spread
from falcon._front import planner

EPS = {"f4": np.finfo("f4").eps, "f8": np.finfo("f8").eps}
HOST = [backend.name for backend in planner.available_backends()]


def normal(rows, columns, dtype="f4", seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


@pytest.fixture
def lcma(monkeypatch):
    """A machine that multiplies slowly and adds fast: an LCMA is predicted to be faster."""
    monkeypatch.setattr(planner, "_rates", lambda *_: Rates(1e9, 1e13, 1e13))
    monkeypatch.setattr(planner, "_plans", {})


@pytest.fixture
def told(caplog):
    """What was logged about operands that are too uneven."""
    caplog.set_level(logging.DEBUG, "falcon")
    return lambda: [x.getMessage() for x in caplog.records if "norms differ" in x.getMessage()]


# --- the statistic ---------------------------------------------------------------------------


def test_spread_is_of_lines_that_are_added_up():
    squares = np.ones(12)
    squares[3] = 100.0
    # In halves, lines 3 and 9 meet; in thirds 3, 7 and 11; in one part nothing does.
    assert spread(squares, 2, 12) == pytest.approx(np.sqrt(101 / 2))
    assert spread(squares, 3, 12) == pytest.approx(np.sqrt(102 / 3))
    assert spread(squares, 1, 12) == 1.0
    # Chunks are cut into blocks of their own, and the last one may be ragged.
    squares[9] = 100.0
    assert spread(squares, 2, 12) == 1.0 != spread(squares, 2, 6)
    assert spread(np.array([1.0, 1.0, 1.0, 4.0, 4.0]), 2, 5) == pytest.approx(np.sqrt(2.5))
    assert spread(np.array([1.0, 1.0, 1.0, 4.0, 4.0]), 2, 5, 4) == pytest.approx(np.sqrt(2.5))


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_norm_that_tells_nothing_is_uneven(value):
    squares = np.ones(10)
    squares[[2, 7]] = value
    assert is_uneven(2.0, spread(squares, 2, 10), 1.0)
    assert not is_uneven(2.0, spread(np.ones(10), 2, 10), 1.0)


def test_growth_that_was_allowed_is_no_reason():
    assert not is_uneven(64.0, 1.2, 1.2)
    assert is_uneven(64.0, 3.0, 1.2)


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [(x, y) for x in HOST for y in ("f4", "f8", "c8") if (x, y) != ("cpu", "c8")],  # real alone
)
def test_norms_of_columns(backend, dtype):
    x = (normal(61, 150, "f8") * 50).astype(dtype)
    for array in (x, np.asfortranarray(x), x.T, x[::2, ::-3], x.real.astype("f2")):
        plan = falcon.plan((9, array.shape[0]), array.shape, dtype, backend=backend)
        found = plan.backend.scales(array, plan)
        np.testing.assert_allclose(found, (np.abs(array).astype("f8") ** 2).sum(0), rtol=1e-5)


# --- the promise -----------------------------------------------------------------------------


def correlations(product):
    norms = np.sqrt(np.diag(product))
    return product / np.outer(norms, norms)


@pytest.fixture(scope="module")
def whole():
    """Entries of which every product is exact, so that scales by powers of two change nothing."""
    x = np.random.default_rng(1).normal(0, 2**8, (2000, 900)).round()
    return x, correlations((x.T @ x).astype(np.longdouble)).astype(float)


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", ["auto", *HOST])
@pytest.mark.parametrize(
    ("dtype", "powers"), [("f4", (0, 1, 2, 3, 4, 7, 10, 20)), ("f8", (0, 2, 3, 30, 40))]
)
def test_correlations_of_columns_of_other_units(whole, backend, dtype, powers):
    x, exact = whole
    for power in powers:
        scaled = x.astype(dtype)
        scaled[:, 77] *= 2.0**power
        by_numpy = np.abs(correlations(np.matmul(scaled.T, scaled)) - exact).max()
        for other in (scaled, scaled.copy()):
            found = correlations(falcon.matmul(scaled.T, other, backend=backend))
            error = np.abs(found - exact).max()
            assert error <= max(8 * by_numpy, 8 * EPS[dtype]), (power, error, by_numpy)


@pytest.mark.parametrize("scheme", ["strassen", "3x6x4:54", "strassen@3x6x4:54"])
def test_without_the_guard_they_are_wrong(whole, scheme):
    """A scheme that is asked for by name is run as asked."""
    x, exact = whole
    scaled = x.astype("f4")
    scaled[:, 77] *= 2.0**20
    assert not falcon.plan(scaled.T, scaled, scheme=scheme).guarded
    found = correlations(falcon.matmul(scaled.T, scaled, scheme=scheme))
    assert not np.abs(found - exact).max() <= 1e-2


KINDS = {
    "normal": lambda x: x,
    "uniform": lambda x: np.random.default_rng(3).random(x.shape),
    "positive and large": lambda x: 1e6 + np.abs(x),
    "a few large channels": lambda x: (
        x + 1000 * np.isin(np.arange(x.shape[1]), (3, 400, 401)).astype(x.dtype)
    ),
    "lines of K of any scale": lambda x: x * np.logspace(-6, 6, x.shape[1]),
}


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["strassen", "3x4x4:38", "3x6x4:54", "strassen@strassen"])
def test_well_scaled_operands_keep_their_scheme(told, backend, kind, scheme):
    a = KINDS[kind](normal(400, 500)).astype("f4")
    b = normal(500, 300, seed=1)
    asked = falcon.plan(a, b, scheme=scheme, backend=backend)
    guarded = replace(asked, guarded=True)
    np.testing.assert_array_equal(guarded(a, b), asked(a, b))
    assert not told()


UNEVEN = {
    "a row": lambda a, b: (with_line(a, 0, 1e3), b),
    "a row of zeros": lambda a, b: (with_line(a, 0, 0.0), b),
    "a column": lambda a, b: (a, with_line(b, 1, 1e-3)),
    "both a little": lambda a, b: (with_line(a, 0, 9.0), with_line(b, 1, 9.0)),
    "one giant entry": lambda a, b: (with_entry(a, 1e5), b),
    "an entry that is not finite": lambda a, b: (a, with_entry(b, np.inf)),
    "squares that overflow": lambda a, b: (a * a.dtype.type(2.0**100), b),
    "squares that underflow": lambda a, b: (a, b * b.dtype.type(2.0**-100)),
}


def with_line(x, axis, scale):
    x = x.copy()
    x[(7, slice(None)) if axis == 0 else (slice(None), 7)] *= x.dtype.type(scale)
    return x


def with_entry(x, value):
    x = x.copy()
    x[11, 13] = value
    return x


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", UNEVEN)
@pytest.mark.parametrize("order", ["C", "F"])
def test_uneven_operands_go_classical(told, backend, kind, order):
    a, b = UNEVEN[kind](normal(400, 500), normal(500, 300, seed=1))
    a, b = np.asarray(a, order=order), np.asarray(b, order=order)
    plan = replace(falcon.plan(a, b, scheme="strassen@strassen", backend=backend), guarded=True)
    classical = falcon.plan(a, b, scheme="classical", backend=backend)
    with np.errstate(all="raise"):
        found = plan(a, b)
    expected = classical(a, b)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    entrywise = np.abs(a).astype("f8") @ np.abs(b).astype("f8")
    error = np.abs(found[finite].astype("f8") - expected[finite])
    assert (error <= 1e-5 * entrywise[finite]).all()
    assert len(told()) == 1
    assert "strassen@strassen would add rows of A" in told()[0]


# --- every way in ----------------------------------------------------------------------------


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_alpha_beta_and_limits(told, backend):
    a, b, c = with_line(normal(700, 900), 0, 1e4), normal(900, 800, seed=1), normal(700, 800)
    expected = 2 * (a.astype("f8") @ b.astype("f8")) - c
    for limit in (None, 2**23, 2**22):
        found = falcon.gemm(a, b, c, alpha=2.0, beta=-1.0, backend=backend, workspace_limit=limit)
        np.testing.assert_allclose(found[7] / 1e4, expected[7] / 1e4, atol=1e-3)
        np.testing.assert_allclose(np.delete(found, 7, 0), np.delete(expected, 7, 0), atol=1e-3)
    assert told()


@pytest.mark.usefixtures("lcma")
def test_calls_that_are_recalled(told):
    a, b = normal(1000, 1000), normal(1000, 1000, seed=1)
    falcon.gemm(a, b)
    falcon.gemm(a, b)
    assert not told()
    a[5] *= 1e5
    error = np.abs(falcon.gemm(a, b) - a.astype("f8") @ b.astype("f8"))
    assert np.delete(error, 5, 0).max() < 1e-3
    assert len(told()) == 1


@pytest.mark.usefixtures("lcma")
def test_batches_and_vectors(told):
    a, b = normal(3 * 1000, 1000).reshape(3, 1000, 1000), normal(1000, 1000, seed=1)
    a[1, 5] *= 1e5
    error = np.abs(falcon.matmul(a, b) - a.astype("f8") @ b.astype("f8"))
    error[1, 5] = 0
    assert error.max() < 1e-3
    assert len(told()) == 1


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_packed_operands_keep_their_norms(told, backend):
    a, b = normal(1000, 1000), normal(1000, 1000, seed=1)
    packed = falcon.pack(b, backend=backend)
    assert packed.scheme is not None
    np.testing.assert_allclose(packed.scales, (b.astype("f8") ** 2).sum(0), rtol=1e-5)
    falcon.gemm(a, packed)
    assert not told()
    uneven = with_line(a, 0, 1e5)
    error = np.abs(falcon.gemm(uneven, packed) - uneven.astype("f8") @ b.astype("f8"))
    assert np.delete(error, 7, 0).max() < 1e-3
    assert len(told()) == 1


@pytest.mark.skipif("cpu" not in HOST, reason="needs falcon's own kernels")
@pytest.mark.usefixtures("lcma")
def test_without_its_source_a_product_is_refused_before_anything_is_written():
    a, b = with_line(normal(900, 900), 0, 1e5), normal(900, 900, seed=1)
    packed = falcon.pack(b, backend="cpu", keep_source=False)
    out = np.zeros((900, 900), "f4")
    with pytest.raises(ValueError, match=r"keep_source=False: norms of rows of a.*nothing was"):
        falcon.gemm(a, packed, np.ones_like(out), beta=2.0, out=out)
    assert not out.any()
    named = falcon.pack(b, scheme="strassen", backend="cpu", keep_source=False)
    assert falcon.gemm(a, named, out=out) is out


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_an_uneven_b_is_packed_for_the_classical_algorithm(told, backend):
    b = with_line(normal(1000, 1000), 1, 1e5)
    packed = falcon.pack(b, backend=backend)
    assert packed.scheme is None
    assert packed.scales is None
    assert "packed for the classical algorithm" in told()[0]
    a = normal(300, 1000, seed=2)
    np.testing.assert_allclose(falcon.gemm(a, packed), a @ b, rtol=1e-3, atol=1e-3)
    asked = falcon.pack(b, scheme="strassen", backend=backend)
    assert asked.scheme == falcon.schemes.get("strassen")
    assert asked.scales is None
    assert len(told()) == 1


@pytest.mark.usefixtures("lcma")
def test_complex_numbers(told):
    a = normal(900, 900, "c8") + 1j * normal(900, 900, "c8", seed=4)
    b = normal(900, 900, "c8", seed=1)
    falcon.gemm(a, b)
    assert not told()
    a[3] *= 1e6
    error = np.abs(falcon.gemm(a, b) - a.astype("c16") @ b.astype("c16"))
    assert np.delete(error, 3, 0).max() < 2e-3
    assert len(told()) == 1


@pytest.mark.usefixtures("lcma")
def test_integers_are_exact_whatever_their_scale(told):
    a = np.random.default_rng(0).integers(-9, 9, (400, 400))
    a[5] *= 10**9
    assert falcon.plan(a, a).scheme is not None
    np.testing.assert_array_equal(falcon.gemm(a, a), a @ a)
    assert not told()


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_b_is_judged_as_it_is_packed(told, backend):
    """Not as the plan, within its limit, would have cut it: a step where the plan's chunks meet."""
    b = normal(1024, 3000)
    b[:, 1500:] *= 300
    packed = falcon.pack(b, backend=backend, rows=1024, workspace_limit=2**22)
    assert packed.scheme is None
    assert told()
    out = falcon.gemm(normal(300, 1024, seed=2), packed)
    np.testing.assert_allclose(out, normal(300, 1024, seed=2) @ b, rtol=1e-3, atol=0.1)


@pytest.mark.skipif("cpu" not in HOST, reason="needs falcon's own kernels")
def test_a_scheme_that_is_named_pays_for_no_norms():
    a, b = normal(20_000, 64), normal(64, 64, seed=1)
    options = {"backend": "cpu", "workspace_limit": 120_000}
    assert falcon.plan(a, b, scheme="strassen", **options).workspace <= 120_000
    falcon.gemm(a, falcon.pack(b, scheme="classical", backend="cpu"), **options)


@pytest.mark.parametrize("backend", HOST)
def test_norms_keep_the_limit(backend):
    """They are formed where the sums will be; without room for them, the product is classical."""
    for M, K, N in ((600, 600, 600), (3000, 64, 3000)):
        a, b, out = normal(M, K), normal(K, N, seed=1), np.empty((M, N), "f4")
        limit = 60_000 if backend == "numpy" else 2_000_000
        options = {"scheme": "strassen", "backend": backend, "workspace_limit": limit}
        plan = replace(falcon.plan(a, b, **options), guarded=True)
        plan(a, b, out)
        tracemalloc.start()
        plan(a, b, out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= plan.workspace + 50_000  # small objects
        np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("lcma")
def test_a_scheme_named_at_the_product_runs_as_asked(told):
    a, b = with_line(normal(900, 900), 0, 1e5), normal(900, 900, seed=1)
    packed = falcon.pack(b)
    falcon.gemm(a, packed, scheme=packed.scheme)
    assert not told()
    falcon.gemm(a, packed, scheme=None)
    assert told()


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("setting", ["winograd", "classical", "strassen@strassen"])
def test_a_setting_is_no_name_for_the_scheme_of_a_packed_operand(told, setting):
    a, b = with_line(normal(900, 900), 0, 1e5), normal(900, 900, seed=1)
    packed = falcon.pack(b)
    assert packed.scheme is not None
    with falcon.config(scheme=setting):
        found = falcon.gemm(a, packed)
    if not packed.is_for(None if setting == "classical" else falcon.schemes.get(setting)):
        assert told()
        error = np.abs(found - a.astype("f8") @ b.astype("f8"))
        assert np.delete(error, 7, 0).max() < 1e-3


def test_settings_of_backend_and_scheme_do_not_refuse_packed_operands():
    a, b = normal(40, 50), normal(50, 30, seed=1)
    for backend in HOST:
        packed = falcon.pack(b, scheme="strassen", backend=backend)
        for settings in ({"backend": "numpy"}, {"scheme": "winograd"}):
            with falcon.config(**settings):
                np.testing.assert_array_equal(falcon.gemm(a, packed), falcon.matmul(a, packed))
