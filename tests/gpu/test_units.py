"""Units along K on the stand-in: data whose columns differ in scale, which rows of B fold back."""

from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._gpu import fused as fused_kernel
from falcon._gpu import repaired

from ..test_units import off, units, within
from .kinds import in_order
from .support import on_device, packed_by, whole

SHAPE = 120, 300, 110
# The sample sees no column of B that is far larger than others, and in other units.
UNSEEN = "a few columns of B"
KINDS = [x for x in units.KINDS if x != UNSEEN]


def guarded(a, b, scheme, **options):
    """Return the plan of a scheme as if "auto" had chosen it."""
    return replace(falcon.plan(a, b, scheme=scheme, max_growth=100, **options), guarded=True)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_schemes_are_those_of_even_data(cupy, kind, dtype, order):
    a, b = units.drawn(kind, dtype, SHAPE)
    left, right = (on_device(cupy, x, dtype, order) for x in (a, b))
    for scheme in ("strassen@strassen", "3x4x6:54"):
        with falcon.config(check="none"):  # nothing is repaired
            plan = guarded(left, right, scheme, arithmetic="native")
        most = (1.4 if kind == "rows, columns too" else 1.1) * plan.growth
        found = cupy.asnumpy(plan(left, right))
        assert off(found, a, b) <= most
        assert within(plan, found, a, b)
        packed = packed_by(plan, right, arithmetic="native", max_growth=100)
        assert off(cupy.asnumpy(falcon.gemm(left, packed)), a, b) <= most


@pytest.mark.parametrize("way", ["one kernel", "cuBLAS"])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_parts_are_those_of_float32(cupy, fused, kind, way):
    """Two parts hold 22 bits below the norm of a line: there units matter in no scheme too."""
    fused.truncates = 16, 2
    if way == "cuBLAS":
        fused_kernel.trial.found[0] = False
    a, b = units.drawn(kind, "float32", SHAPE)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    exact = a.astype(float) @ b
    usual = np.sqrt(np.mean((in_order(a, b) - exact) ** 2))
    for scheme, order in (("classical", "C"), ("strassen", "F"), ("2x4x2:14", "C")):
        how = {"arithmetic": "fp16x3", "scheme": scheme, "max_growth": 100}
        bound = falcon.plan(left, right, **how).error_bound(a, b)
        added = cupy.asarray(np.zeros(exact.shape, np.float32, order=order))
        for factor, options in ((right, how), (falcon.pack(right, **how), {})):
            found = cupy.asnumpy(falcon.gemm(left, factor, added, beta=1.0, **options))
            assert np.sqrt(np.mean((found - exact) ** 2)) <= 2.0 * usual
            assert (abs(found - exact) <= bound).all()
    if kind != "Vandermonde":
        assert not any(x._count.value for x in repaired._flags.values())


def test_a_workspace_limit_keeps_units(cupy, fused):
    """Chunks along K read their part of the powers."""
    a, b = units.drawn("6 decades", "float32", SHAPE)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    how = {"arithmetic": "fp16x3", "scheme": "strassen", "max_growth": 100}
    plan = falcon.plan(left, right, **how)
    limited = falcon.plan(left, right, workspace_limit=plan.workspace // 2, **how)
    assert len(limited.method.layout.chunks[2]) > 1
    assert off(cupy.asnumpy(limited(left, right)), a, b) <= 2.0
    assert not any(x._count.value for x in repaired._flags.values())


def test_data_without_units_keep_their_bits(cupy, state):
    a, b = units.drawn("no units", "float32", SHAPE)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    by_name = falcon.plan(left, right, scheme="strassen", arithmetic="native")
    found = by_name(left, right)
    assert not any("units" in x for x in state.launches)
    evened = guarded(left, right, "strassen", arithmetic="native")(left, right)
    assert any("units" in x for x in state.launches)
    np.testing.assert_array_equal(cupy.asnumpy(evened), cupy.asnumpy(found))


@pytest.mark.parametrize("case", ["gram", "bfloat16"])
def test_where_units_are_not_looked_for(cupy, state, case):
    dtype = "bfloat16" if case == "bfloat16" else "float32"
    a = on_device(cupy, whole((90, 70), 1), dtype)
    b = a.T if case == "gram" else on_device(cupy, whole((70, 80), 2), dtype)
    plan = guarded(a, b, "strassen", **({"arithmetic": "fp16x3"} if case == "gram" else {}))
    plan(a, b)
    assert any("norms" in x for x in state.launches)
    assert not any("units" in x for x in state.launches)


def test_zeros_and_what_is_not_finite(cupy, state):
    """Columns of B that say nothing, and rows of zeros."""
    a, b = units.drawn("3 decades", "float32", SHAPE)
    b[:, ::2] = 0
    b[7], b[:, 1] = 0, np.nan
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    found = cupy.asnumpy(guarded(left, right, "strassen", arithmetic="native")(left, right))
    assert np.isnan(found[:, 1]).all()
    assert (found[:, ::2] == 0).all()
    kept = list(range(3, SHAPE[2], 2))
    assert off(found[:, kept], a, b[:, kept]) <= 4
    none = on_device(cupy, np.zeros_like(b), "float32")
    assert (cupy.asnumpy(guarded(left, none, "strassen")(left, none)) == 0).all()


def test_bounds_are_of_evened_operands(cupy, fused):
    """Norms grow where columns are as large as the rows that they meet."""
    a, b = units.drawn("no units", "float32", SHAPE)
    a[:, 7] *= 1000
    b[7] *= 1000
    plan = falcon.plan(SHAPE[:2], SHAPE[1:], "float32", backend="gpu", arithmetic="fp16x3")
    norms = np.linalg.norm(a.astype(float), axis=1), np.linalg.norm(b.astype(float), axis=0)
    for proved in (False, True):
        larger = plan.error_bound(a, b, proved=proved) / plan.error_bound(*norms, proved=proved)
        assert larger.min() > 1 - 1e-9
        assert np.median(larger) > 2
