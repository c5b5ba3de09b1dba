"""The promise: 1.5 growth u sqrt(K) norm(a_i) norm(b_j), on random products of every scale.

(That it holds for correlations: test_spread.py. The worst cases, and figures: docs/accuracy.md.)
"""

from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.options import DEFAULT_MAX_GROWTH
from falcon.bench import workloads
from falcon.bench.errors import Sample
from falcon.decision.candidates import scheme_candidates
from falcon.schemes.metrics import one_sign_growth
from reference.classical import classical
from reference.lcma import lcma
from reference.scaling import powers_of_two, scaled
from reference.strassen import strassen

from .doors import Problem, host_policy


def suited():
    """Every candidate for "auto" in float32 and float64."""
    problem = Problem(8192, 8192, 8192, dtype_of("float32"))
    return scheme_candidates().suited_to(problem, host_policy(problem), DEFAULT_MAX_GROWTH)[0]


def operands(random, dtype):
    """Rows, columns and lines of K of any scale, channels and entries a thousand times larger."""
    M, K, N = (int(x) for x in random.integers(128, 320, 3))
    draw = random.random if random.random() < 0.5 else random.standard_normal
    a, b = draw((M, K)), draw((K, N))
    for x, axis in ((a, 0), (b, 1), (a, 1), (b, 0)):
        if random.random() < 0.4:
            scales = 10.0 ** random.uniform(-6, 6, x.shape[axis])
            x *= scales[:, None] if axis == 0 else scales
    for x in (a, b):
        kind = random.integers(5)
        if kind == 0:  # outliers
            x[random.integers(x.shape[0], size=9), random.integers(x.shape[1], size=9)] *= 1e3
        elif kind == 1:  # channels
            lines = x.T if x is a else x
            lines[random.integers(K, size=3)] *= 1e3
        elif kind == 2:  # one line of another unit
            (x if x is a else x.T)[random.integers(9)] *= 10.0 ** random.uniform(-6, 6)
    if np.dtype(dtype).kind == "c":  # parts of about the same size, or of any
        a, b = (x * np.exp(1j * random.uniform(0, 7, (y, 1))) for x, y in ((a, M), (b, K)))
        a.imag *= 10.0 ** random.uniform(-6, 0)
    return a.astype(dtype), b.astype(dtype)


def errors(a, b, found):
    """Return errors in units of u sqrt(K) norm(a_i) norm(b_j)."""
    wide = np.result_type(a, np.longdouble if a.real.dtype == np.float64 else np.float64)
    x, y = a.astype(wide), b.astype(wide)
    norms = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=0))
    unit = np.finfo(a.dtype).eps / 2 * np.sqrt(a.shape[1])
    return np.divide(np.abs(found - x @ y), unit * norms, where=norms > 0, out=0 * norms)


def check_promise(times, seed, dtype):
    """Return the worst errors of the classical algorithm and, over their growth, of schemes."""
    random, candidates = np.random.default_rng(seed), suited()
    worst = {"classical": 0.0, "scheme": 0.0}
    for _ in range(times):
        a, b = operands(random, dtype)
        scheme = candidates[random.integers(len(candidates))].scheme
        plan = replace(falcon.plan(a, b, scheme=scheme), guarded=True)
        found = plan(a, b)
        wide = np.longdouble if a.real.dtype == np.float64 else np.float64
        exact = a.astype(np.result_type(a, wide)) @ b.astype(np.result_type(b, wide))
        for proved in (False, True):
            bound = plan.error_bound(a, b, proved=proved)
            assert (np.abs(found - exact) <= bound).all(), (scheme, a.shape, b.shape)
        worst["scheme"] = max(worst["scheme"], errors(a, b, found).max() / plan.growth)
        by_numpy = errors(a, b, falcon.gemm(a, b, scheme="classical"))
        worst["classical"] = max(worst["classical"], by_numpy.max())
    return worst


@pytest.mark.parametrize(("dtype", "times"), [("f4", 40), ("f8", 4), ("c8", 20), ("c16", 4)])
def test_the_promise_holds_at_every_scale(dtype, times):
    check_promise(times, times, dtype)


@pytest.mark.parametrize("name", ["classical", "strassen", "winograd", "2x4x8:51-rms"])
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_the_bound_of_short_sums(name, backend):
    """Few roundings do not balance: the bound of a scheme is that of the worst case there."""
    random, above = np.random.default_rng(0), 0
    for K in (1, 2, 3, 5, 8, 31):
        a, b = (random.standard_normal(s).astype("f4") for s in ((150, K), (K, 150)))
        plan = falcon.plan(a, b, scheme=name, backend=backend)
        for x in {plan, replace(plan, guarded=plan.scheme is not None)}:
            c = x(a, b)
            assert (np.abs(c - a.astype(float) @ b) <= x.error_bound(a, b)).all(), K
            proved = x.error_bound(a, b, proved=True)
            assert (x.error_bound(a, b) <= proved).all()
            if plan.scheme is not None:
                assert (x.error_bound(a, b) == proved).all()
        above += errors(a, b, c).max() > 1.5 * plan.growth
    assert above or name == "classical"  # else no other bound would be needed


def test_schemes_that_err_on_entries_of_one_sign_are_no_candidates():
    get = falcon.schemes.get
    found = {x: one_sign_growth(get(x).U, get(x).V, get(x).W) for x in ("strassen", "8x2x4:52")}
    assert found["strassen"] == pytest.approx(np.sqrt(5 / 2))
    assert found["8x2x4:52"] > 1.8 * get("8x2x4:52").rms_growth
    names = {x.inner.name for x in suited()}
    assert names & {"8x2x4:52", "4x2x8:52", "4x2x5:33", "5x2x4:33"} == set()
    assert "strassen" in names


@pytest.mark.soak
def test_ten_thousand_products_of_every_scale():
    worst = check_promise(10_000, 2, "f4")
    print(worst)
    assert worst["scheme"] <= 1.5 * worst["classical"]


def test_the_reference_scales_as_falcon_does():
    random = np.random.default_rng(3)
    a, b = random.standard_normal((24, 30)), random.standard_normal((30, 36))
    a *= 10.0 ** random.uniform(-6, 6, (24, 1))
    b *= 10.0 ** random.uniform(-6, 6, 36)
    a[5] = 0
    exact = classical(a.astype(np.longdouble), b.astype(np.longdouble))
    wrong, found = strassen(a, b), scaled(a, b, strassen, 2, 2)
    assert errors(a, b, wrong).max() > 100
    assert errors(a, b, found).max() < 1
    assert not found[5].any()
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-6, atol=1e-6)
    named = falcon.schemes.get("3x3x3:23")
    triple = named.U, named.V, named.W
    found = scaled(a, b, lambda x, y: lcma(x, y, *triple), 3, 3)
    assert errors(a, b, found).max() < 1
    plan = replace(falcon.plan(a, b, scheme=named, backend="numpy"), guarded=True)
    assert errors(a, b, plan(a, b)).max() < 1
    for parts in (2, 3, 5):
        norms = np.linalg.norm(a, axis=1)
        kept = norms * powers_of_two(norms, parts)
        groups = np.resize(np.append(kept, np.zeros(parts)), (parts, -(-24 // parts)))
        high, low = groups.max(axis=0), np.where(groups > 0, groups, np.inf).min(axis=0)
        assert (high <= 2 ** (1 - 1 / parts) * low * (1 + 1e-12)).all()


# --- real sizes ------------------------------------------------------------------------------


SCHEMES = ["winograd", "strassen@strassen", "4x3x4:38"]


@pytest.mark.slow
def test_error_and_workspace():
    M, N, K = 2048, 4608, 3584
    shape = workloads.Shape(M, N, K)
    a, b = workloads.operands(shape, np.dtype("float32"), seed=M + N + K)
    rows = np.arange(0, M, M // 24)
    exact = a[rows].astype(float) @ b.astype(float)
    out = np.empty((M, N), np.float32)
    classical = Sample(a, b).error(np.matmul(a, b, out=out))
    for name in SCHEMES:
        plan = falcon.plan(a, b, scheme=name, workspace_limit=256 * 2**20)
        assert plan.workspace <= 256 * 2**20
        falcon.gemm(a, b, out=out, scheme=name, workspace_limit=256 * 2**20)
        error = abs(out[rows] - exact)
        assert (error <= plan.error_bound(a[rows], b, proved=True)).all(), name
        growth = Sample(a, b).error(out) / classical
        # Chunks of K are summed classically, so an LCMA may be better than its growth says.
        assert growth <= 2 * plan.growth, name


@pytest.mark.parametrize("shapes", [((300, 300), (5, 300)), ((7, 5), (5, 3))])
@pytest.mark.parametrize("error", [None, 1e-3])
def test_a_bound_is_for_operands_of_the_plan(shapes, error):
    plan = falcon.plan((300, 300), (300, 300), "float64", error=error)
    with pytest.raises(ValueError, match=r"expected \(M, 300\) and \(300, N\)"):
        plan.error_bound(*map(np.ones, shapes))
