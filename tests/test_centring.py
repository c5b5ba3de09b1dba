"""Centring: products of data with a mean, by schemes that subtract it."""

import itertools
import pickle
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import falcon
import reference.centring
from falcon._core.centring import PADDING, Totals, choose_centring
from falcon._core.dtypes import dtype_of
from falcon._core.rates import Rates
from falcon._cpu.extension import why_unavailable
from reference.strassen import strassen

from .support import python

if why_unavailable() is None:
    from falcon._cpu._core import supported_isas

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "studies"))
    import centring

N = 520
SCHEMES = ["strassen", "strassen@strassen", "3x6x4:54"]


def drawn(kind, dtype, seed=1, shape=(N, N, N)):
    return centring.drawn(kind, dtype, shape, seed)


def exactly(a, b):
    wide = np.longdouble if a.dtype.itemsize == 8 else np.float64
    return a.astype(wide) @ b.astype(wide)


def off(c, e):
    return float(np.sqrt(np.mean((c.astype(e.dtype) - e) ** 2)))


@pytest.fixture(params=["cpu", "numpy"])
def gemm(request):
    if request.param == "cpu" and why_unavailable() is not None:
        pytest.skip("no compiled kernels")
    return partial(falcon.gemm, backend=request.param)


@pytest.mark.parametrize("kind", centring.KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_errors_fall_where_there_is_a_mean_and_rise_nowhere(gemm, kind, scheme):
    a, b = drawn(kind, "f4")
    e = exactly(a, b)
    plain, centred = (off(gemm(a, b, scheme=scheme, centre=x), e) for x in (False, True))
    assert centred <= 1.02 * plain
    if kind in centring.WITH_MEAN:
        assert centred <= 0.5 * off(np.matmul(a, b), e)


@pytest.mark.parametrize("kind", ["uniform", "image"])
def test_double_precision(gemm, kind):
    a, b = drawn(kind, "f8", shape=(300, 400, 200))
    e = exactly(a, b)
    assert off(gemm(a, b, scheme="strassen", centre=True), e) <= 0.65 * off(np.matmul(a, b), e)


def test_auto_centres_unless_told_not_to(gemm, doors):
    doors.rates(Rates(1e9, 1e13, 1e13))  # a machine on which a scheme pays
    a, b = drawn("uniform", "f4", shape=(1400, 1400, 1400))
    assert falcon.plan(a, b, backend=gemm.keywords["backend"]).scheme is not None
    e, plain = exactly(a, b), gemm(a, b, centre=False)
    assert off(gemm(a, b), e) < 0.5 * off(np.matmul(a, b), e) < off(plain, e)
    again = falcon.gemm(a, b, scheme="classical")  # whose digits are a BLAS's
    np.testing.assert_array_equal(again, falcon.gemm(a, b, scheme="classical", centre=False))


@pytest.mark.parametrize("shape", [(300, 300, 300), (1, 900, 400), (5, 2000, 7), (40, 5000, 30)])
def test_the_classical_algorithm_centres_on_request(gemm, shape):
    rng = np.random.default_rng(3)
    a, b = (10 + rng.standard_normal(x).astype("f4") for x in (shape[:2], shape[1:]))
    e = exactly(a, b)
    assert off(gemm(a, b, scheme="classical", centre=True), e) < 0.7 * off(np.matmul(a, b), e)
    with falcon.config(centre=True):
        assert off(gemm(a, b), e) < 0.7 * off(np.matmul(a, b), e)


def test_a_trivial_scheme_is_another_classical_algorithm(gemm):
    """The engine's own, which centres nothing; that of centred plans is pickled as it is."""
    a, b = drawn("uniform", "f4", shape=(100, 700, 90))
    one = falcon.schemes.classical(1, 1, 1)
    e, c = exactly(a, b), gemm(a, b, scheme=one, centre=True)
    np.testing.assert_allclose(c, e, rtol=1e-5)
    plan = falcon.plan(a, b, scheme="classical", centre=True, backend=gemm.keywords["backend"])
    again = pickle.loads(pickle.dumps(plan))
    np.testing.assert_array_equal(again(a, b), plan(a, b))
    assert "less where data have a mean" in str(again)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("scheme", ["classical", *SCHEMES])
@pytest.mark.parametrize("top", [2, 50])
def test_whole_numbers_stay_exact(gemm, dtype, scheme, top):
    rng = np.random.default_rng(top)
    a, b = (rng.integers(0, top, (N, N)).astype(dtype) for _ in range(2))
    c = gemm(a, b, scheme=scheme, centre=True)
    np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_long_sums_of_whole_numbers_stay_exact(gemm, scheme):
    """Of 24 bits: those of means would be too many."""
    rng = np.random.default_rng(1)
    x = (rng.integers(0, 15, (120000, 40)) + (rng.random((120000, 40)) < 0.4)).astype("f4")
    c = gemm(x.T.copy(), x.copy(), scheme=scheme, centre=True)
    np.testing.assert_array_equal(c, x.astype(int).T @ x.astype(int))


# By the kernels' order of sums; products that are rounded twice, without fused multiply-adds or by
# NumPy, err more.
MOST = {"avx2": (1.1, 1.2), "avx512": (1.1, 1.25), "generic": (1.3, 1.5), None: (1.6, 1.6)}
KERNELS = [] if why_unavailable() else [x for x in supported_isas() if x in MOST]
NEAR = """
import sys
from tests.test_centring import drawn, exactly, falcon, np, off
backend, dtype, order = sys.argv[1:]
a, b = (np.asarray(x, order=order) for x in drawn("uniform", dtype, shape=(200, 4096, 190)))
e = exactly(a, b)
for scheme in ("classical", "strassen"):
    c = falcon.gemm(a, b, scheme=scheme, centre=True, backend=backend)
    print(off(c, e) / off(e.astype(dtype), e))
"""


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("isa", [*KERNELS, None])
def test_errors_are_near_those_of_rounding_the_exact_product(isa, dtype, order):
    backend, forced = ("cpu", {"FALCON_ISA": isa}) if isa else ("numpy", {})
    told = python("-c", NEAR, backend, dtype, order, **forced).stdout
    assert max(map(float, told.split())) <= MOST[isa][dtype == "f8"]


def lies(how, x):
    if how == "by columns":
        return np.asfortranarray(x)
    if how == "strided":
        return np.repeat(x, 2, axis=1)[:, ::2]
    return x[::-1].copy()[::-1] if how == "reversed" else x


@pytest.mark.parametrize("how", ["by rows", "by columns", "strided", "reversed"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_operands_and_results_of_any_strides(gemm, how, scheme):
    a, b = drawn("uniform", "f4", shape=(270, 310, 290))
    c = np.random.default_rng(2).random((270, 290)).astype("f4")
    x, y, e = lies(how, a), lies(how, 3 + b), exactly(a, 3 + b)
    base = off(np.matmul(a, 3 + b), e)
    for order in "CF":
        out = np.empty((270, 290), "f4", order)
        assert off(gemm(x, y, out=out, scheme=scheme, centre=True), e) <= base
        added = gemm(x, y, c, alpha=0.5, beta=2, out=out, scheme=scheme, centre=True)
        assert off(added, 0.5 * e + 2 * c.astype(float)) <= base


def test_several_passes_over_all_dimensions(gemm):
    a, b = drawn("uniform", "f4", shape=(500, 5000, 400))
    e = exactly(a, b)
    for scheme in ("classical", "strassen", "3x6x4:54"):
        c = gemm(a, b, scheme=scheme, workspace_limit="3MiB", centre=True)
        assert off(c, e) <= 3 * off(np.matmul(a, b), e)


@pytest.mark.skipif(why_unavailable() is not None, reason="no compiled kernels")
@pytest.mark.parametrize("scheme", [None, "strassen", "3x6x4:54"])
def test_packed_operands(scheme):
    a, b = drawn("uniform", "f4", shape=(700, 730, 650))
    e, how = exactly(a, b), {"rows": 4000, "centre": True, "backend": "cpu"}
    w = falcon.pack(b, **how) if scheme is None else falcon.pack(b, scheme=scheme, **how)
    assert off(falcon.gemm(a, w, centre=True), e) <= 0.5 * off(np.matmul(a, b), e)
    uneven = b * (2.0 ** np.random.default_rng(1).integers(-9, 9, 650)).astype("f4")
    w = falcon.pack(uneven, rows=4000)
    e = exactly(a, uneven)
    ratio = np.abs(falcon.gemm(a, w) - e) / e.max(0)
    assert ratio.max() <= (np.abs(np.matmul(a, uneven) - e) / e.max(0)).max()


@pytest.mark.skipif(why_unavailable() is not None, reason="no compiled kernels")
def test_sums_that_overflow_centre_nothing():
    a, b = drawn("uniform", "f4", shape=(100, 200, 90))
    how = {"scheme": "classical", "backend": "cpu", "centre": True}
    w = falcon.pack(b * np.float32(2.0**127), keep_source=False, **how)  # no classical redoing
    c = falcon.gemm(a * np.float32(2.0**-120), w, centre=True)
    np.testing.assert_allclose(c, 128 * exactly(a, b), rtol=1e-5)


@pytest.mark.skipif(why_unavailable() is not None, reason="no compiled kernels")
@pytest.mark.parametrize("shape", [(150, 61, 35), (1, 70, 70), (40, 33, 300), (64, 5000, 40)])
def test_the_engine_writes_to_its_workspace_alone(shape):
    M, _, N = shape
    a, b = drawn("uniform", "f4", shape=shape)
    plan = falcon.plan(a, b, scheme="classical", backend="cpu", centre=True)
    nbytes, memory, c = (
        plan.workspace,
        np.empty(plan.workspace + 8192, "u1"),
        np.full((M + 2, N), 7.0, "f4"),
    )
    memory = memory[-memory.ctypes.data % 64 :]
    memory[nbytes:] = 165
    _core = pytest.importorskip("falcon._cpu._core")
    _core.gemm(plan.method.layout, a, b, c[1:-1], workspace=memory)
    assert (memory[nbytes:] == 165).all()
    assert (c[[0, -1]] == 7).all()
    np.testing.assert_allclose(c[1:-1], a @ b, rtol=1e-5)


@pytest.mark.skipif(why_unavailable() is not None, reason="no compiled kernels")
def test_bits_do_not_depend_on_threads_or_earlier_calls():
    a, b = drawn("lognormal", "f4", shape=(610, 720, 530))
    found = [
        falcon.gemm(a, b, scheme=scheme, threads=threads, backend="cpu", centre=True)
        for scheme in ("strassen", "classical")
        for threads in (1, 2, 3, 1)
    ]
    for x in found[:4]:
        np.testing.assert_array_equal(x, found[0])
    for x in found[4:]:
        np.testing.assert_array_equal(x, found[4])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_spread_as_in_a_classical_product(gemm, value):
    a, b = drawn("uniform", "f4", shape=(300, 400, 350))
    a[7, 9], b[3, 11] = value, -value
    with np.errstate(all="ignore"):
        e = np.matmul(a.astype(float), b.astype(float))
    for scheme in ("classical", "strassen"):
        c = gemm(a, b, scheme=scheme, centre=True)
        np.testing.assert_array_equal(np.isnan(c), np.isnan(e))
        np.testing.assert_array_equal(np.isinf(c), np.isinf(e))


def test_numbers_near_overflow(gemm):
    a, b = drawn("uniform", "f4", shape=(300, 400, 350))
    big, small = np.float32(2.0**120), np.float32(2.0**-120)
    c = gemm(a * big, b * small, scheme="strassen", centre=True)
    np.testing.assert_allclose(c, exactly(a, b), rtol=1e-5)
    c = gemm(a * big, b * big, scheme="strassen", centre=True)
    assert np.isinf(c).all()


def test_types_without_means_of_their_own_are_multiplied_as_ever():
    x = np.arange(12).reshape(3, 4)
    for y in (x, x.astype("i1"), x * 1j):
        with falcon.config(centre=True):  # a setting is for what it fits
            c = falcon.gemm(y, y.T)
            packed = pickle.dumps(falcon.pack(y.T, scheme="strassen"))
            with pytest.raises(TypeError, match=f"centre is True, .* not {y.dtype}"):
                falcon.gemm(y, y.T, centre=True)
        np.testing.assert_array_equal(c, np.matmul(y, y.T))
        np.testing.assert_array_equal(falcon.gemm(y, y.T, centre=False), c)
        np.testing.assert_array_equal(falcon.gemm(y, pickle.loads(packed)), c)
        for call in (falcon.matmul, falcon.plan, partial(falcon.einsum, "ij,jk")):
            with pytest.raises(TypeError, match=f"centre is True, .* not {y.dtype}"):
                call(y, y.T, centre=True)
    with pytest.raises(TypeError, match=r"centre is True, .* not int64"):
        falcon.matmul(x, x.T, centre=True, modulus=7)
    with pytest.raises(TypeError, match="centre=True needs plain numeric arrays"):
        falcon.matmul(x.astype(object), x.T.astype(object), centre=True)
    x = x.astype("f4")
    with pytest.raises(ValueError, match="b was packed without means"):
        falcon.gemm(x, falcon.pack(x.T, scheme="strassen"), centre=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_of_16_bits(dtype):
    kind = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
    a, b = (x.astype(kind) for x in drawn("uniform", "f4", shape=(300, 400, 350)))
    e = exactly(a.astype("f4"), b.astype("f4"))
    c = falcon.gemm(a, b, scheme="classical", centre=True)
    assert np.abs(c.astype(float) - e).max() <= np.abs(e.astype(kind).astype(float) - e).max() * 1.5


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds(gemm, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(64, 400, 3))
    kind = rng.choice(list(centring.KINDS))
    a, b = drawn(kind, "f4", seed, shape)
    scheme = str(rng.choice(["classical", *SCHEMES]))
    how = {"scheme": scheme, "backend": gemm.keywords["backend"], "centre": True}
    plan, e = falcon.plan(a, b, **how), exactly(a, b)
    assert (np.abs(plan(a, b) - e) <= plan.error_bound(a, b)).all()


def test_what_is_subtracted_is_what_is_added():
    """For any segments and passes, with means of parts: A B = (A - m) (B - n) + left' right."""
    rng = np.random.default_rng(5)
    for passes in ([[700]], [[100, 300, 300, 700]], [[200, 400], [500, 700]]):
        a, b = 1 + rng.standard_normal((30, 700)), 2 + rng.random((700, 40))
        a[:, :300] += 5
        ends = np.array([x for some in passes for x in some])
        cuts = [0, *ends]
        squares = (a * a).sum(1), (b * b).sum(0)
        parts = [[x[:, i:j].sum(1) for i, j in pairwise(cuts)] for x in (a, b.T)]
        sums = [np.array([x, np.zeros_like(x)]) for x in parts]
        totals = tuple(Totals(x, y) for x, y in zip(sums, (a, b), strict=True))
        found = choose_centring(np.dtype("f8"), passes, squares, totals)
        x, y = found.without(a, b, passes)
        assert (x * x).sum() < 0.6 * (a * a).sum() and (y * y).sum() < 0.1 * (b * b).sum()
        product = x @ y
        found.add_to(product)
        np.testing.assert_allclose(product, a @ b, rtol=1e-12)
        assert found.left.shape[::2] == (len(passes), 30 + PADDING)
        left = [(1 - np.square(z).sum(1) / s) for z, s in zip((x, y.T), squares, strict=True)]
        for share, residue in zip(left, found.residues, strict=True):
            np.testing.assert_allclose(1 - share, residue, rtol=1e-9)


@pytest.mark.parametrize("kind", centring.KINDS)
def test_the_oracle_subtracts_the_same_means_and_errs_as_much(gemm, kind):
    a, b = drawn(kind, "f4", shape=(96, 112, 128))
    pairs = []
    for lines in (a.astype("f8"), b.T.astype("f8")):
        sums = np.zeros((2, 1, len(lines)))
        sums[0, 0] = lines.sum(axis=1)
        pairs.append((np.square(lines).sum(axis=1), Totals(sums, lines)))
    squares, totals = zip(*pairs, strict=True)
    found = choose_centring(np.dtype("f4"), [[a.shape[1]]], squares, totals)
    of_a = reference.centring.means_of_rows(a)
    of_b = reference.centring.means_of_rows(b.T, 0.5 if of_a.any() else 0.35)
    for name, means in (("a_means", of_a), ("b_means", of_b)):
        mine = None if found is None else getattr(found, name)
        np.testing.assert_array_equal(means, 0 if mine is None else mine[0])
    exact, oracle = exactly(a, b), reference.centring.centred(a, b, strassen)
    c = gemm(a, b, scheme="strassen", centre=True)
    assert off(c, exact) <= 2 * off(oracle, exact)
    np.testing.assert_allclose(c, oracle, rtol=0, atol=20 * off(oracle, exact))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "f2"])
def test_gram_without_means(dtype, transpose):
    rng = np.random.default_rng(6)
    x = 1000 + rng.standard_normal((2, 400, 90)).astype("f4").astype(dtype)
    x = x + 1j * rng.standard_normal(x.shape).astype("f4") if dtype == "c8" else x
    y = x.swapaxes(-1, -2) if transpose else x
    wide = np.clongdouble if dtype == "c8" else np.longdouble
    z = y.astype(wide) - y.astype(wide).mean(-2, keepdims=True)
    e = z.conj().swapaxes(-1, -2) @ z
    e = e.conj() if transpose else e
    c = falcon.gram(x, centred=True, transpose=transpose)
    eps = 2e-2 if dtype == "f2" else 1e-5 if dtype != "f8" else 1e-11
    np.testing.assert_allclose(c.astype(e.dtype), e, atol=eps * np.abs(e).max())
    np.testing.assert_array_equal(c, c.conj().swapaxes(-1, -2))
    one = falcon.gram(x[0], centred=True, transpose=transpose, alpha=0.5, symmetric="lower")
    np.testing.assert_allclose(one, np.tril(0.5 * e[0]), atol=eps * np.abs(e).max())


def test_gram_without_means_is_the_covariance_and_refuses_what_has_none():
    x = np.random.default_rng(7).standard_normal((500, 20)) + 1e6
    np.testing.assert_allclose(falcon.gram(x, centred=True) / 499, np.cov(x, rowvar=False), 1e-9)
    x[3, 4] = np.nan
    c = falcon.gram(x, centred=True)
    assert np.isnan(c[4]).all() and np.isnan(c).sum() == 39
    assert not falcon.gram(np.ones((0, 3)), centred=True).any()
    with pytest.raises(TypeError, match="centred is True, but x is of int64"):
        falcon.gram(np.arange(6).reshape(2, 3), centred=True)
    with pytest.raises(TypeError, match="centred is 1"):
        falcon.gram(x, centred=1)
    with pytest.raises(ValueError, match="workspace_limit is 1000"):
        falcon.gram(x, centred=True, workspace_limit=1000)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "bfloat16"])
def test_sums_of_columns_may_overflow_where_gram_takes_their_means(dtype, transpose):
    """Constants leave zeros, like those of np.cov, whatever they are."""
    dtype = dtype_of(dtype)
    most = float((dtype.part or dtype).finfo.max)
    for K, largest in itertools.product((1, 3, 299, 1000), (most, most / 100)):
        x = np.full((K, 3), largest).astype(dtype.numpy)
        x[:, 1] = np.arange(K) % 2
        x[:, 2] = 1 / 3
        found = falcon.gram(x.T if transpose else x, centred=True, transpose=transpose)
        wanted = np.zeros((3, 3))
        wanted[1, 1] = K // 2 * (K - K // 2) / K
        np.testing.assert_allclose(found.astype(complex), wanted, K * dtype.unit_roundoff)


@pytest.mark.parametrize("size", [300, 1000])
@pytest.mark.parametrize("limit", [None, "20KiB", "100KiB", "1MiB"])  # None: the least
def test_any_limit_of_the_classical_algorithm_will_do(gemm, size, limit, doors):
    a, b = drawn("uniform", "f4", shape=(size,) * 3)
    limit = limit or doors.least_workspace(a, b, gemm.keywords["backend"])
    c = gemm(a, b, scheme="classical", workspace_limit=limit, centre=True)
    np.testing.assert_allclose(c, exactly(a, b), rtol=1e-5)


def test_the_option_is_checked():
    with pytest.raises(TypeError, match="centre is 'yes'"):
        falcon.gemm(np.ones((2, 2)), np.ones((2, 2)), centre="yes")


def test_the_workspace_limit_is_kept(gemm):
    """Where means would exceed it, nothing is centred."""
    a, b = drawn("uniform", "f4", shape=(600, 600, 600))
    how = {"scheme": "strassen", "backend": gemm.keywords["backend"]}
    least = falcon.plan(a, b, **how, workspace_limit="3MiB").workspace
    c = gemm(a, b, scheme="strassen", workspace_limit=least, centre=True)
    e = exactly(a, b)
    assert off(c, e) <= off(gemm(a, b, scheme="strassen", workspace_limit=least), e)
