"""Badly scaled operands: "auto" scales them by powers of two; others keep their bits."""

import logging
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._backends import available_backends
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._core.rates import Rates
from falcon._core.scaling import Lines, Scaling, equilibrated

from .doors import Problem
from .test_promise import suited

EPS = {"f4": np.finfo("f4").eps, "f8": np.finfo("f8").eps}
_FLOAT = Problem.of_sizes((512,) * 3, dtype_of("float32"), Options())
HOST = [x.name for x in available_backends() if not x.why_classical_only(_FLOAT)]


def normal(rows, columns, dtype="f4", seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


@pytest.fixture
def lcma(doors):
    """A machine that multiplies slowly and adds fast: an LCMA is predicted to be faster.

    B is packed all the same, for products of 1000 rows.
    """
    doors.rates(Rates(1e9, 1e13, 1e13))
    doors.packs(True)
    doors.numbers(rows_to_pack_for=1000)


@pytest.fixture
def told(caplog):
    """What was logged of a kind: operands that are scaled, or multiplied classically."""
    caplog.set_level(logging.DEBUG, "falcon")

    def of_kind(kind="is scaled"):
        return [x.getMessage() for x in caplog.records if kind in x.getMessage()]

    return of_kind


def guarded(a, b, scheme, **options):
    """Return the plan of a scheme as if "auto" had chosen it, which centres nothing."""
    return replace(falcon.plan(a, b, scheme=scheme, centre=False, **options), guarded=True)


# --- the statistic ---------------------------------------------------------------------------


def test_spread_is_of_lines_that_are_added_up():
    squares = np.ones(12)
    squares[3] = 100.0
    # In halves, lines 3 and 9 are added; in thirds 3, 7 and 11; in one part no lines are.
    assert Lines(squares, 2, 12).spread == pytest.approx(np.sqrt(101 / 2))
    assert Lines(squares, 3, 12).spread == pytest.approx(np.sqrt(102 / 3))
    assert Lines(squares, 1, 12).spread == 1.0
    # Chunks are cut into blocks of their own, and the last one may be ragged.
    squares[9] = 100.0
    assert Lines(squares, 2, 12).spread == 1.0 != Lines(squares, 2, 6).spread
    assert Lines(np.array([1.0, 1.0, 1.0, 4.0, 4.0]), 2, 5).spread == pytest.approx(np.sqrt(2.5))
    assert Lines(np.array([1.0, 1.0, 1.0, 4.0, 4.0]), 2, 5, 4).spread == pytest.approx(np.sqrt(2.5))


def test_lines_of_zeros_do_not_count():
    squares = np.ones(12)
    squares[[3, 7]] = 0.0
    assert Lines(squares, 2, 12).spread == Lines(np.zeros(12), 3, 12).spread == 1.0
    squares[9] = 16.0  # at the place of line 3 only
    assert Lines(squares, 2, 12).spread == 1.0
    np.testing.assert_array_equal(Lines(np.zeros(5), 2, 5).powers, 0.0)


@pytest.mark.parametrize("parts", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("size", "chunk", "block"), [(240, 240, None), (239, 100, None), (50, 50, 9)]
)
def test_powers_bring_norms_together(parts, size, chunk, block):
    """As close as the largest gap on the circle of their fractions allows: proved in the docs."""
    squares = 10.0 ** np.random.default_rng(parts).uniform(-12, 12, size)
    squares[::7] = 0
    powers = Lines(squares, parts, chunk, block).powers
    np.testing.assert_array_equal(np.frexp(powers)[0], np.where(squares > 0, 0.5, 0))
    norms = np.sqrt(squares) * powers
    assert (norms[squares > 0] > 0.98).all()
    assert (norms < 4.1).all()
    blocks = parts if block is None else -(-size // block)
    worst = 2 ** (1 - 1 / blocks + 1 / 32)  # norms are rounded to a 64th of an octave
    assert Lines(norms**2, parts, chunk, block).spread <= worst
    even = 1 + 0.1 * np.random.default_rng(0).random(size)
    kept = even * Lines(even**2, parts, chunk, block).powers
    assert Lines(kept**2, parts, chunk, block).spread <= 1.1


@pytest.mark.parametrize(("times", "helped"), [(1, False), (2, True)])
def test_a_little_help_is_taken_near_the_limit_of_the_promise(times, helped):
    """Norms that fill an octave evenly, but for the last one, which can be halved."""
    lines = Lines(4.0 ** (np.append(np.arange(23), 24) / 24), 24, 24)
    assert 1.2 < lines.spread < 1.5
    assert lines.spread / 1.1 ** (1 / 2) < lines.scaled.spread < lines.spread
    powers = equilibrated([lines] * times, 1.2)
    assert all((x is not None) == helped for x in powers)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "g"])
def test_scaling_is_undone_exactly(dtype):
    a, b = normal(30, 40).astype(dtype), normal(40, 20, seed=1).astype(dtype)
    rows, columns = (2.0 ** np.random.default_rng(2).integers(-60, 60, n) for n in (30, 20))
    for scaling in (Scaling(rows), Scaling(None, columns), Scaling(rows, columns), Scaling()):
        assert scaling.fits(dtype_of(dtype))
        product = scaling.of_rows(a, a.dtype) @ scaling.of_columns(b, b.dtype)
        assert product.dtype == a.dtype
        scaling.undo(product)
        np.testing.assert_allclose(product, a @ b, rtol=1e-3, atol=1e-4)
        wide = np.ones((30, 20), dtype)
        wide *= (1 if scaling.rows is None else rows[:, None]) * np.ones(20, dtype)
        Scaling(scaling.rows).undo(wide)
        np.testing.assert_array_equal(wide, 1)
    assert not Scaling(np.array([1.0, 2.0**130])).fits(dtype_of("float32"))


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [(x, y) for x in HOST for y in ("f4", "f8", "c8") if (x, y) != ("cpu", "c8")],  # real alone
)
def test_norms_of_columns(backend, dtype):
    x = (normal(61, 150, "f8") * 50).astype(dtype)
    for array in (x, np.asfortranarray(x), x.T, x[::2, ::-3], x.real.astype("f2")):
        plan = falcon.plan((9, array.shape[0]), array.shape, dtype, backend=backend)
        found, _ = plan.backend.column_norms(array, plan)
        np.testing.assert_allclose(found, (np.abs(array).astype("f8") ** 2).sum(0), rtol=1e-5)


# --- the promise -----------------------------------------------------------------------------


def correlations(product):
    norms = np.sqrt(np.diag(product))
    return product / np.outer(norms, norms)


@pytest.fixture(scope="module")
def table():
    """Columns of one scale, and their correlations: powers of two will change no exact product."""
    x = normal(1000, 400)
    return x, correlations(x.T.astype(np.longdouble) @ x)


SCHEMES = ("strassen", "winograd", "laderman", "3x6x4:54", "8x2x2:28", "strassen@winograd")


def check_correlations(table, dtype, powers, multiply):
    """Scale a column of `table`, and compare correlations with those of exact products."""
    x, exact = table
    for power in powers:
        scaled = x.astype(dtype)
        scaled[:, 77] *= 2.0**power
        by_numpy = np.abs(correlations(np.matmul(scaled.T, scaled)) - exact).max()
        for other in (scaled, scaled.copy()):
            error = np.abs(correlations(multiply(scaled.T, other)) - exact).max()
            assert error <= 8 * max(by_numpy, EPS[dtype]), (power, error, by_numpy)


POWERS = [("f4", (0, 1, 2, 3, 4, 7, 10, 20)), ("f8", (0, 2, 3, 30, 40))]


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", ["auto", *HOST])
@pytest.mark.parametrize(("dtype", "powers"), POWERS)
def test_correlations_of_columns_of_other_units(table, backend, dtype, powers):
    check_correlations(table, dtype, powers, lambda a, b: falcon.matmul(a, b, backend=backend))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_correlations_by_schemes(table, scheme, dtype):
    check_correlations(table, dtype, (0, 7, 20), lambda a, b: guarded(a, b, scheme)(a, b))


@pytest.mark.soak
@pytest.mark.parametrize(("dtype", "powers"), POWERS)
def test_correlations_by_every_scheme_that_auto_may_take(dtype, powers):
    x = normal(5000, 1500)
    table = x, correlations(x.T.astype(np.longdouble) @ x)
    for found in suited():
        scheme = found.scheme
        check_correlations(table, dtype, powers, lambda a, b, s=scheme: guarded(a, b, s)(a, b))


KINDS = {
    "normal": lambda x: x,
    "uniform": lambda x: np.random.default_rng(3).random(x.shape),
    "positive and large": lambda x: 1e6 + np.abs(x),
    "a few large channels": lambda x: (
        x + 1000 * np.isin(np.arange(x.shape[1]), (3, 400, 401)).astype(x.dtype)
    ),
    "lines of K of other scales": lambda x: x * np.logspace(-0.5, 0.5, x.shape[1]),
    "rows that differ less than powers of two": lambda x: x * np.linspace(1, 1.35, len(x))[:, None],
}


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["strassen", "3x4x4:38", "3x6x4:54", "strassen@strassen"])
def test_well_scaled_operands_keep_their_scheme(told, backend, kind, scheme):
    a = KINDS[kind](normal(400, 500)).astype("f4")
    b = normal(500, 300, seed=1)
    asked = falcon.plan(a, b, scheme=scheme, backend=backend)
    np.testing.assert_array_equal(guarded(a, b, scheme, backend=backend)(a, b), asked(a, b))
    assert not told()


UNEVEN = {
    "a row": lambda a, b: (with_line(a, 0, 1e3), b),
    "a column": lambda a, b: (a, with_line(b, 1, 1e-3)),
    "both a little": lambda a, b: (with_line(a, 0, 3.0), with_line(b, 1, 3.0)),
    "a column of twice the norm": lambda a, b: (a, with_line(b, 1, 2.0)),
    "lines of K of any scale": lambda a, b: (a * np.logspace(-6, 6, 500, dtype="f4"), b),
    "one giant entry": lambda a, b: (with_entry(a, 1e5), b),
    "a row, and one of zeros": lambda a, b: (with_line(with_line(a, 0, 1e3), 0, 0.0, 20), b),
    "squares that overflow": lambda a, b: (with_line(a, 0, 2.0**100), b),
    "squares that underflow": lambda a, b: (a, with_line(b, 1, 2.0**-100)),
}
# No norms to scale by, or powers of two beyond the range.
UNMEASURED = {
    "an entry that is not finite": lambda a, b: (a, with_entry(b, np.inf)),
    "a subnormal row": lambda a, b: (with_line(a, 0, 2.0**-140), with_line(b, 1, 9.0)),
}


def with_line(x, axis, scale, at=7):
    x = x.copy()
    x[(at, slice(None)) if axis == 0 else (slice(None), at)] *= x.dtype.type(scale)
    return x


def with_entry(x, value):
    x = x.copy()
    x[11, 13] = value
    return x


def worst_of(found, a, b):
    """Largest error of an entry in units of u sqrt(K) norm(a_i) norm(b_j)."""
    wide = np.result_type(found.dtype, np.longdouble if found.dtype.itemsize >= 8 else np.float64)
    a, b = a.astype(wide), b.astype(wide)
    norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    error = np.abs(found - a @ b) / np.where(norms, norms, 1)
    return error.max() / (np.finfo(found.dtype).eps / 2 * np.sqrt(a.shape[1]))


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", UNEVEN)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("scheme", ["strassen@strassen", "3x6x4:54"])
def test_uneven_operands_are_scaled(told, backend, kind, order, scheme):
    a, b = UNEVEN[kind](normal(400, 500), normal(500, 300, seed=1))
    a, b = np.asarray(a, order=order), np.asarray(b, order=order)
    plan = guarded(a, b, scheme, backend=backend)
    with np.errstate(all="raise"):
        found = plan(a, b)
    assert worst_of(found, a, b) <= 0.2 * plan.growth
    assert len(told()) == 1
    assert f"{scheme} would add rows of A" in told()[0]


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("scales", [(1e-100, 1e100), (1e-150, 1e150), (1e-130, 1e10)])
def test_norms_whose_squares_differ_by_more_than_a_float64_holds(backend, scales):
    """Without a warning, which may be an exception."""
    a, b = normal(400, 500, "f8"), normal(500, 300, "f8", seed=1)
    for half, scale in enumerate(scales):
        a[half::2] *= scale
    plan = guarded(a, b, "strassen", backend=backend)
    with np.errstate(all="raise", under="ignore"):
        found = plan(a, b)
        packed = falcon.pack(b, scheme="strassen", backend=backend)
        falcon.gemm(a, packed)
    assert worst_of(found, a, b) <= 0.2 * plan.growth * 8


@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("kind", UNMEASURED)
def test_norms_that_cannot_be_measured_mean_classical(told, backend, kind):
    a, b = UNMEASURED[kind](normal(400, 500), normal(500, 300, seed=1))
    classical = falcon.plan(a, b, scheme="classical", backend=backend)
    with np.errstate(all="raise"):
        found = guarded(a, b, "strassen@strassen", backend=backend)(a, b)
    np.testing.assert_array_equal(found, classical(a, b))
    assert len(told("classically")) == 1


@pytest.mark.parametrize("backend", HOST)
def test_lines_of_zeros_leave_zeros_and_change_nothing_else(told, backend):
    a, b = with_line(normal(400, 500), 0, 0.0), with_line(normal(500, 300, seed=1), 1, 0.0)
    asked = falcon.plan(a, b, scheme="strassen", backend=backend)
    expected = asked(a, b)
    assert expected[7].any()
    expected[7], expected[:, 7] = 0, 0
    np.testing.assert_array_equal(replace(asked, guarded=True)(a, b), expected)
    c = normal(400, 300, seed=3)
    found = falcon.gemm(a, falcon.pack(b, backend=backend), c, beta=0.5)
    np.testing.assert_array_equal(found[7], 0.5 * c[7])
    assert not told()


# --- every way in ----------------------------------------------------------------------------


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_alpha_beta_and_limits(told, backend):
    a, b, c = with_line(normal(1100, 1000), 0, 1e4), normal(1000, 1100, seed=1), normal(1100, 1100)
    expected = 2 * (a.astype("f8") @ b.astype("f8")) - c
    for limit in (None, 2**23, 5 * 2**20):
        found = falcon.gemm(a, b, c, alpha=2.0, beta=-1.0, backend=backend, workspace_limit=limit)
        np.testing.assert_allclose(found[7] / 1e4, expected[7] / 1e4, atol=1e-3)
        np.testing.assert_allclose(np.delete(found, 7, 0), np.delete(expected, 7, 0), atol=1e-3)
    assert told()
    assert bool(told("does not fit")) == (backend == "numpy")


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_calls_that_are_recalled(told, dtype):
    a, b = normal(1100, 1100, dtype), normal(1100, 1100, dtype, seed=1)
    if dtype == "c8":
        a += 1j * normal(1100, 1100, dtype, seed=4)
    falcon.gemm(a, b)
    falcon.gemm(a, b)
    assert not told()
    a[5] *= 1e5
    wide = np.result_type(dtype, "f8")
    error = np.abs(falcon.gemm(a, b) - a.astype(wide) @ b.astype(wide))
    assert np.delete(error, 5, 0).max() < 2e-3
    assert len(told()) == 1


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_packed_operands_keep_their_norms(told, backend):
    a, b = normal(1000, 1000), normal(1000, 1000, seed=1)
    packed = falcon.pack(b, backend=backend)
    assert packed.scheme is not None
    np.testing.assert_allclose(packed.column_norms, (b.astype("f8") ** 2).sum(0), rtol=1e-5)
    falcon.gemm(a, packed)
    assert not told()
    uneven = with_line(a, 0, 1e5)
    assert worst_of(falcon.gemm(uneven, packed), uneven, b) < 1
    assert len(told()) == 1


@pytest.mark.skipif("cpu" not in HOST, reason="needs falcon's own kernels")
@pytest.mark.usefixtures("lcma")
def test_without_its_source_a_product_is_refused_before_anything_is_written():
    a, b = with_line(normal(900, 900), 0, np.inf), normal(900, 900, seed=1)
    packed = falcon.pack(b, backend="cpu", keep_source=False)
    out = np.zeros((900, 900), "f4")
    with pytest.raises(ValueError, match=r"keep_source=False: norms of rows of a.*nothing was"):
        falcon.gemm(a, packed, np.ones_like(out), beta=2.0, out=out)
    assert not out.any()
    named = falcon.pack(b, scheme="strassen", backend="cpu", keep_source=False)
    assert falcon.gemm(a, named, out=out, check="none") is out


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_an_uneven_b_is_packed_scaled(told, backend, dtype):
    b = normal(1000, 1000, dtype)
    b *= (10.0 ** np.random.default_rng(5).uniform(-6, 6, 1000)).astype(dtype)
    packed = falcon.pack(b, backend=backend)
    assert packed.scheme is not None
    assert "scaled as they are packed" in told("scaled as")[0]
    a = normal(300, 1000, dtype, seed=2)
    c = normal(300, 1000, dtype, seed=3)
    for again in (packed, pickle.loads(pickle.dumps(packed))):
        for x in (a, with_line(a, 0, 1e5)):
            assert worst_of(falcon.gemm(x, again)[:20], x[:20], b) < 1
        assert worst_of(falcon.gemm(a, again, scheme=again.scheme)[:20], a[:20], b) < 1
        found = falcon.gemm(a, again, c, alpha=-2.0, beta=0.5)
        np.testing.assert_allclose(
            found, 0.5 * c - 2 * (a @ b), rtol=1e-3, atol=1e-4 * np.abs(b).max()
        )
        broken = with_entry(a, np.nan)
        finite = np.isfinite(falcon.gemm(broken, again))
        assert finite.sum() == 299 * 1000
    asked = falcon.pack(b, scheme="strassen", backend=backend)
    assert (asked.column_norms, asked.column_powers) == (None, None)


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_a_b_that_is_not_finite_is_packed_for_the_classical_algorithm(told, backend):
    b = with_entry(normal(1000, 1000), np.nan)
    packed = falcon.pack(b, backend=backend)
    assert packed.scheme is None
    assert packed.column_norms is None
    assert "packed for the classical algorithm" in told("classical")[0]


@pytest.mark.usefixtures("lcma")
def test_integers_are_exact_whatever_their_scale(told):
    a = np.random.default_rng(0).integers(-9, 9, (810, 810)).astype(np.int32)
    a[5] *= 10**8
    assert falcon.plan(a, a).scheme is not None
    np.testing.assert_array_equal(falcon.gemm(a, a), a @ a)
    assert not told()


@pytest.mark.usefixtures("lcma")
@pytest.mark.parametrize("backend", HOST)
def test_norms_of_b_follow_its_packing(told, backend):
    """Not as the plan, within its limit, would cut it: B has a step at a border of chunks."""
    b = normal(1024, 3000)
    b[:, 1500:] *= 300
    packed = falcon.pack(b, backend=backend, rows=1024, workspace_limit=2**22)
    assert packed.column_powers is not None
    out = falcon.gemm(normal(300, 1024, seed=2), packed)
    np.testing.assert_allclose(out, normal(300, 1024, seed=2) @ b, rtol=1e-3, atol=0.1)


@pytest.mark.parametrize("backend", HOST)
def test_norms_keep_the_limit(backend):
    """They are formed in the workspace; without room for them, the product is classical."""
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
