"""`Problem` and `Plan` as values: what they print, explain, predict; plans as callables."""

import dataclasses

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.options import Options
from falcon._core.rates import Rates
from falcon._tools.text import format_table

from ..doors import Problem, decided

F4, F8 = dtype_of("float32"), dtype_of("float64")
SLOW_MEMORY = Rates(multiply=1e11, add=1e9, bandwidth=1e7)
FAST_MEMORY = Rates(multiply=1e10, add=1e10, bandwidth=1e10)


def chosen(shape=(2048, 2048, 2048), dtype="f8", rates=FAST_MEMORY, growth=8.0, limit=None):
    """Let the decision choose for a machine of these rates."""
    backend = falcon.plan((2, 2), (2, 2), backend="numpy").backend
    options = Options(max_growth=growth, workspace_limit=limit)
    return decided(Problem(*shape, dtype_of(dtype)), options, [backend], lambda _: rates)


def test_problem_is_a_small_frozen_value():
    p = Problem(3, 4, 5, F8)
    assert str(p) == "3 x 5 @ 5 x 4 float64"
    assert p == Problem(3, 4, 5, dtype_of(np.dtype("f8")))
    assert hash(p) == hash(Problem(3, 4, 5, F8))
    assert p != Problem(3, 4, 5, F4)
    assert p.flops == 120
    assert (p.is_exact, Problem(1, 1, 1, dtype_of("uint8")).is_exact) == (False, True)
    assert (p.buffer_bytes, Problem(3, 4, 5, F8, buffered=True).buffer_bytes) == (0, 96)
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.M = 4


def test_plan_prints_what_and_why():
    p = falcon.plan((300, 200), (200, 100), "f4", scheme="strassen", threads=3)
    lines = str(p).splitlines()
    assert lines[0] == f"300 x 200 @ 200 x 100 float32: strassen on backend {p.backend.name}"
    text = str(p)
    for part in (
        "why        requested",
        "<2,2,2;7>, speed-up bound 1.143",
        "chunks     M, N, K = 3",
        "growth     2.00 x classical",
        "workspace  ",
    ):
        assert part in text
    assert p.explain() == f"{text}\n\nno candidates were compared"
    assert (p.threads, p.growth, p.scheme.name) == (3, 2.0, "strassen")
    assert "growth     exact" in str(falcon.plan((3, 3), (3, 3), int, scheme="strassen"))
    small = str(falcon.plan((3, 3), (3, 3)))
    assert "classical" in small
    assert "too small for any LCMA" in small


def test_explain_lists_the_candidates_and_their_reasons():
    p = chosen()
    assert p.scheme is not None
    text = p.explain()
    assert text.startswith(str(p))
    assert "predicted " in text
    assert "combine A" in text
    table = text.split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= 100
    assert table[0].split()[:3] == ["candidate", "backend", "ms"]
    assert table[1].split()[0] == p.method.label
    assert table[1].endswith("chosen")
    assert table[-1].startswith(f"... and {len(p.candidates) - len(table) + 2} more")
    assert sum(x.split()[0] == "classical" for x in p.explain(1).split("\n\n")[1].splitlines()) == 1
    everything = p.explain(most=10**6)
    assert "ms slower" in everything
    assert "classical" in everything
    assert "more" not in everything.splitlines()[-1]
    assert p.candidates[0].total == pytest.approx(sum(t for _, t in p.seconds))
    assert all(x.refused for x in p.candidates[1:])
    assert "max_growth 1.00" in chosen(growth=1.0).explain(10**6)


def test_long_times_are_in_seconds():
    assert " ms (" in str(chosen())
    text = str(chosen((20000, 20000, 20000)))
    assert " s (" in text and " ms (" not in text


def test_explain_compares_the_costs_with_the_saving():
    p = chosen(rates=SLOW_MEMORY)
    assert p.scheme is None
    assert "no scheme is predicted to be faster" in str(p)
    assert "> saving" in p.explain()


@pytest.mark.parametrize("scheme", ["classical", "strassen", "3x3x3:23", "4x2x3:20"])
@pytest.mark.parametrize("dtype", ["f4", "i4", "c16", "e"])
def test_a_plan_is_callable(dtype, scheme):
    if dtype == "e":
        scheme = "classical"
    rng = np.random.default_rng(1)
    a, b = rng.integers(-5, 6, (13, 9)).astype(dtype), rng.integers(-5, 6, (9, 17)).astype(dtype)
    p = falcon.plan(a.shape, b.shape, dtype, scheme=scheme)
    c = p(a, b)
    assert c.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(c, a @ b)
    out = np.empty((17, 13), dtype).T
    assert p(a[::-1], b, out) is out
    np.testing.assert_array_equal(out, a[::-1] @ b)
    np.testing.assert_array_equal(p(a, b, out), a @ b)


def test_a_plan_refuses_what_it_was_not_made_for():
    p = falcon.plan((3, 4), (4, 5), scheme="strassen")
    a, b = np.ones((3, 4)), np.ones((4, 5))
    with pytest.raises(
        ValueError, match=r"a is \(4, 3\) float64; this plan is for \(3, 4\) float64"
    ):
        p(a.T, b)
    with pytest.raises(
        ValueError, match=r"b is \(4, 5\) float32; this plan is for \(4, 5\) float64"
    ):
        p(a, b.astype("f4"))


def test_plan_takes_arrays_or_shapes():
    a, b = np.ones((30, 40), "f4"), np.ones((40, 20), "i2")
    p = falcon.plan(a, b)
    layout = {"a_strided": True, "b_direct": False, "b_strided": False}
    wanted = Problem(30, 20, 40, F4, threads=p.threads, **layout)
    assert p.problem == wanted
    assert falcon.plan(a, (40, 20)).problem.dtype == np.float32
    assert falcon.plan((30, 40), (40, 20)).problem.dtype == np.float64
    assert falcon.plan((30, 40), (40, 20), ">i4").problem.dtype == np.dtype("i4")
    # An array of another dtype than asked for must be converted: float64 too, which == None.
    converted = falcon.plan(a.astype("f8"), b.astype("f8"), "f4").problem
    assert (converted.a_direct, converted.b_direct) == (False, False)
    assert not falcon.plan(a[:, ::2], b[::2]).problem.a_direct
    assert falcon.plan(a.T, a).problem.a_direct
    assert falcon.plan(np.broadcast_to(a[:1], a.shape), b).problem.a_direct is False


def test_error_bound():
    u, rows, columns = 2.0**-53, np.arange(10.0), np.full(20, 3.0)
    shapes = (10, 100), (100, 20)
    classical = falcon.plan(*shapes, "f8", scheme="classical")
    norms = np.outer(rows, columns)
    np.testing.assert_allclose(classical.error_bound(rows, columns), 1.5 * 10 * u * norms)
    proved = classical.error_bound(rows, columns, proved=True)
    np.testing.assert_allclose(proved, 101 * u * norms)
    named = falcon.plan(*shapes, "f8", scheme="strassen")
    guarded = dataclasses.replace(named, guarded=True)
    np.testing.assert_allclose(guarded.error_bound(rows, columns), 3 * 10 * u * norms)
    assert (guarded.error_bound(rows, columns, proved=True)[1:] > proved[1:]).all()
    # Operands are not scaled for a scheme that is named: the largest row counts.
    np.testing.assert_allclose(named.error_bound(rows, columns), 3 * 10 * u * 9 * 3)
    exact = falcon.plan(*shapes, "i4", scheme="strassen")
    assert not exact.error_bound(rows, columns).any()
    assert falcon.plan((10, 0), (0, 10), "f4").error_bound(np.ones((10, 0)), rows).shape == (10, 10)
    for dtype in ("f4", "f8", "c8", "e"):
        a, b = (np.random.default_rng(0).standard_normal(s).astype(dtype) * 100 for s in shapes)
        scale = np.outer(
            np.linalg.norm(a.astype("c16"), axis=1), np.linalg.norm(b.astype("c16"), axis=0)
        )
        plan = falcon.plan(a, b)
        unit = float(np.finfo(dtype).eps) / 2 * (2 * 2**0.5 if dtype == "c8" else 1)
        np.testing.assert_allclose(plan.error_bound(a, b), 15 * unit * scale, rtol=1e-6)
    huge = np.full((2, 3), 1e300)
    assert np.isfinite(falcon.plan(huge, huge.T).error_bound(huge, np.ones(2))).all()
    limited = falcon.plan((64, 6400), (6400, 64), "f4", scheme="strassen", workspace_limit=300_000)
    assert limited.method.chunks[2] < 6400
    bound = limited.error_bound(np.ones(64), np.ones(64), proved=True)
    assert (bound < 12 * 6400 * 2.0**-24).all()


def test_a_plan_has_the_options_that_it_was_made_with():
    a = np.full((64, 64), np.nan)
    a[1:] = 1.0
    checked = falcon.plan(a, a.T, scheme="strassen", max_growth=3.0)
    assert checked.options.scheme is checked.scheme
    assert (checked.options.max_growth, checked.options.check) == (3.0, "finite")
    with falcon.config(check="none"):
        unchecked = falcon.plan(a, a.T, scheme="strassen", max_growth=3.0)
        packed = falcon.pack(a.T, scheme="strassen")
    assert unchecked.options == dataclasses.replace(checked.options, check="none")
    # The product is redone classically where the plan says that values are looked at.
    assert np.isfinite(checked(a, a.T)[1:, 1:]).all()
    assert not np.isfinite(unchecked(a, a.T)[1:, 1:]).all()
    # For a packed operand, the call decides.
    assert np.isfinite(falcon.gemm(a, packed)[1:, 1:]).all()
    assert not np.isfinite(falcon.gemm(a, packed, check="none")[1:, 1:]).all()


def test_a_plan_is_fitted_to_where_operands_lie_and_stays_what_it_is():
    x = np.random.default_rng(3).integers(-4, 5, (120, 120)).astype("f4")
    plan = falcon.plan((120, 120), (120, 120), "float32", threads=1)
    twins = falcon.plan(x.T, x, threads=2)
    assert twins.problem.symmetric == "full"
    fit = plan.fitted(twins.problem)
    assert (fit.problem.symmetric, fit.threads) == ("", 1)
    assert fit.problem.layout == twins.problem.layout != plan.problem.layout
    np.testing.assert_array_equal(plan(x.T, x), x.T @ x)
    assert plan.fitted(plan.problem) is plan


def test_format_table():
    rows = [("name", "value", "note"), ("a", "10", "x"), ("long", "9", "")]
    assert format_table(rows) == "name  value  note\na        10  x\nlong      9"
