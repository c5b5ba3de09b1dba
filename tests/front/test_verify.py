"""`verify` finds wrong products, accepts right ones, and says where it cannot tell."""

import warnings
from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest

import falcon
from falcon._backends import BACKENDS
from falcon._core.dtypes import dtype_of
from falcon._cpu.backend import CpuBackend
from falcon._front.freivalds import Freivalds, modular_trials
from reference.modular import modular

SQUARE = np.ones((3, 3))


def test_right_products_pass():
    rng = np.random.default_rng(1)
    for dtype in "bBhHiIlLqQefdgFDG":
        for m, k, n in [(30, 40, 20), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (5, 700, 3)]:
            if np.dtype(dtype).kind in "iu":
                info = np.iinfo(dtype)
                a, b = (rng.integers(info.min, info.max, s, dtype, endpoint=True)
                        for s in ((m, k), (k, n)))  # fmt: skip
            else:
                a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
                if np.dtype(dtype).kind == "c":
                    a, b = a * (1 + 2j), b * 1j
            outcome = falcon.verify(a, b, a @ b)
            assert outcome, (dtype, m, k, n, outcome)
            assert outcome.residual <= outcome.tolerance


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "u8"])
def test_every_wrong_integer_is_found(dtype):
    """One entry, by any amount; and two by half the modulus, which random signs would miss."""
    rng = np.random.default_rng(2)
    info = np.iinfo(dtype)
    a, b = rng.integers(info.min, info.max, (2, 9, 9), dtype, endpoint=True)
    half = np.array(2 ** (info.bits - 1), "u8").astype(dtype)
    found = 0
    for seed in range(300):
        c = a @ b
        c[seed % 9, seed % 5] += half if seed % 3 else np.array(1 + seed % 100).astype(dtype)
        if seed % 3 == 1:
            c[seed % 9, 5 + seed % 4] += half
        found += not falcon.verify(a, b, c, trials=20, seed=seed)
    assert found == 300


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "g"])
def test_wrong_blocks_are_found(dtype):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 64, 64)).astype(dtype)
    c = a @ b
    assert falcon.verify(a, b, c, seed=1) == falcon.verify(a, b, c, seed=1)
    constant = np.full((20, 3000), 0.1, dtype)  # its rounding does not average out
    assert falcon.verify(constant, constant.T, constant @ constant.T, growth=1.0)
    for wrong in (c + 0.01 * a, c.T, np.full_like(c, np.nan)):
        assert falcon.verify(a, b, wrong).is_wrong
    c[5, 7] += 1
    assert not falcon.verify(a, b, c)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "g"])
def test_extreme_scales(dtype):
    """Right products pass and wrong ones are found from underflow to overflow."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 40, 40)).astype(dtype)
    top = np.finfo(dtype).maxexp
    scales = (0.9, -0.9), (-0.9, 0.9), (0.45, 0.45), (-0.45, -0.45), (0.95, 0.0), (0.5, 0.45)
    for ea, eb in scales:
        one = a.real.dtype.type(1)
        xa, yb = a * np.ldexp(one, int(ea * top)), b * np.ldexp(one, int(eb * top))
        assert falcon.verify(xa, yb, xa @ yb), (ea, eb)
        assert not falcon.verify(xa, yb, (xa @ yb) * a.dtype.type(1.5)), (ea, eb)
    with np.errstate(all="ignore"):
        for e in (0.6, 1.0):  # the product overflows
            big = a * a.dtype.type(0.1) * np.ldexp(np.real(a).dtype.type(1), int(e * top) - 1)
            outcome = falcon.verify(big, big, big @ big)
            assert (not outcome, outcome.is_wrong) == (True, False)
            assert outcome.why == "cannot verify: no row is finite"
        for e in (-0.6, -0.99):  # it underflows
            small = a * np.ldexp(np.real(a).dtype.type(1), int(e * top))
            outcome = falcon.verify(small, small, small @ small)
            assert not outcome.is_wrong
            assert "cannot verify: rounding may hide" in outcome.why
            assert not falcon.verify(small, small, np.ones_like(a))


def test_non_finite_rows_and_columns_are_left_out():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 20, 20))
    a[3, 4], b[5, 6] = np.nan, np.inf
    with np.errstate(all="ignore"):
        c = a @ b
    assert falcon.verify(a, b, c)
    wrong = c.copy()
    wrong[7, 8] += 1
    assert not falcon.verify(a, b, wrong)
    wrong = c.copy()
    wrong[7, 8] = np.nan
    assert not falcon.verify(a, b, wrong)


def test_mixed_dtypes():
    rng = np.random.default_rng(6)
    a, b = rng.integers(-50, 50, (2, 12, 12))
    c = a @ b
    assert falcon.verify(a, b, c.astype("f4"))
    assert falcon.verify(a, b, c.astype("f8"))
    assert falcon.verify(a, b.astype("f4"), c)
    assert falcon.verify(a.astype("i1"), b.astype("u8") % 50, (a @ (b.astype("u8") % 50)))
    assert falcon.verify(a, b, c.astype("i2"))
    assert not falcon.verify(a, b, c.astype("f8") + 1)
    assert falcon.verify(a.tolist(), b.tolist(), c.tolist())
    assert falcon.verify(a.astype(">f4"), b[::-1].astype("g"), a @ b[::-1])


@pytest.mark.parametrize(
    "given, options, error, pattern",
    [
        ((SQUARE[0], SQUARE, SQUARE), {}, ValueError, r"a has shape \(3,\)"),
        ((SQUARE, SQUARE, SQUARE[:, :2]), {}, ValueError, "do not fit: a .3, 3"),
        ((SQUARE, SQUARE > 0, SQUARE), {}, TypeError, "b has dtype bool"),
        ((SQUARE,) * 3, {"trials": 0}, ValueError, "trials is 0; expected an integer >= 1"),
        ((SQUARE,) * 3, {"growth": np.nan}, ValueError, "growth is nan; expected a positive"),
    ],
)
def test_errors(given, options, error, pattern):
    with pytest.raises(error, match=pattern):
        falcon.verify(*given, **options)


# --- what it finds ---------------------------------------------------------------------------


def without_a_product(a, b, c, scheme, product):
    """Return c as if one block product of a scheme was missing."""
    wide = np.promote_types(c.dtype, np.float32)
    m, k, n = scheme.format
    parts = [
        np.array_split(np.asarray(x, wide), count, axis)
        for x, count, axis in ((a, m, 0), (b, k, 0))
    ]
    a_blocks = [np.array_split(row, k, 1) for row in parts[0]]
    b_blocks = [np.array_split(row, n, 1) for row in parts[1]]
    u, v, w = (np.asarray(x[product], wide) for x in (scheme.U, scheme.V, scheme.W))
    left = sum(u[i, l] * a_blocks[i][l] for i in range(m) for l in range(k))
    right = sum(v[l, j] * b_blocks[l][j] for l in range(k) for j in range(n))
    missing = np.block([[w[i, j] * (left @ right) for j in range(n)] for i in range(m)])
    return (c.astype(wide) - missing).astype(c.dtype)


STRASSEN = falcon.schemes.get("strassen")
FAULTS = {
    "zeros": lambda a, b, c, random: 0 * c,
    "wrong sign": lambda a, b, c, random: (0 * c - c).astype(c.dtype),
    "a zeroed row": lambda a, b, c, random: zeroed(c, random, 1, c.shape[1]),
    "a zeroed block": lambda a, b, c, random: zeroed(c, random, 32, 32),
    "a product left out": lambda a, b, c, random: without_a_product(
        a, b, c, STRASSEN, random.integers(7)
    ),
    "1 % off": lambda a, b, c, random: (c.astype("f8") * 1.01).astype(c.dtype),
}


def zeroed(c, random, rows, columns):
    i, j = (
        random.integers(size - part + 1)
        for size, part in zip(c.shape, (rows, columns), strict=True)
    )
    c = c.copy()
    c[i : i + rows, j : j + columns] = 0
    return c


def product(random, name, sizes):
    """Return random operands and their right product, in low precision rounded as on GPUs."""
    M, K, N = sizes
    if name == "int64":
        a, b = random.integers(-(2**40), 2**40, (M, K)), random.integers(-9, 9, (K, N))
        return a, b, a @ b
    a, b = random.standard_normal((M, K)), random.standard_normal((K, N))
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)
    a, b = a.astype(dtype), b.astype(dtype)
    wide = np.promote_types(np.float32, dtype) if name != "bfloat16" else np.float32
    return a, b, (a.astype(wide) @ b.astype(wide)).astype(dtype)


DTYPES = ("float16", "bfloat16", "float32", "float64", "int64")


def caught(dtype, fault, sizes, times, seed=0):
    """Count how often a fault is found in products of that size."""
    random, found = np.random.default_rng(seed), 0
    a, b, c = product(random, dtype, sizes)
    for _ in range(times):
        wrong = FAULTS[fault](a, b, c, random)
        found += falcon.verify(a, b, wrong, seed=int(random.integers(2**31))).is_wrong
    return found


def soak(*given):
    return pytest.param(*given, marks=pytest.mark.soak)


SIZES = [(300, 3), soak(300, 1000), soak(1024, 30), soak(4096, 2)]
# Integers are off by whole numbers.
KNOWN = [(x, y) for x in DTYPES for y in FAULTS if (x, y) != ("int64", "1 % off")]


@pytest.mark.parametrize(("dtype", "fault"), KNOWN)
@pytest.mark.parametrize(("size", "times"), SIZES)
def test_faults_are_found(dtype, fault, size, times):
    if dtype == "int64" and size > 300:
        pytest.skip("NumPy multiplies integers slowly")
    if fault == "1 % off" and dtype in DTYPES[:2] and size > 300:
        pytest.skip("schemes of 16-bit floats may err as much")
    assert caught(dtype, fault, (size, size + 20, size + 40), times) >= 0.999 * times


def right(random):
    """Return a right product of some scheme, dtype, size, scale and sign, and its growth."""
    M, K, N = (int(x) for x in np.exp(random.uniform(0, np.log(300), 3)).round())
    name = str(random.choice(["float16", "bfloat16", "float32", "float64", "complex64"]))
    a, b, _ = product(random, "float64", (M, K, N))
    if random.random() < 0.3:
        a, b = abs(a), abs(b)
    spread = 6 if name in ("float32", "float64", "complex64") else 1
    for x, axis in ((a, 0), (a, 1), (b, 0), (b, 1)):
        if random.random() < 0.5:
            scales = 10.0 ** random.uniform(-spread, spread, x.shape[axis])
            x *= scales[:, None] if axis == 0 else scales
    if name in ("float16", "bfloat16"):
        a, b = (x / max(abs(x).max(), 1) for x in (a, b))
        dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.float16
        a, b = a.astype(dtype), b.astype(dtype)
        if random.random() < 0.5:
            return a, b, (a.astype("f4") @ b.astype("f4")).astype(dtype), 1.0
    else:
        a, b = a.astype(name), b.astype(name)
    scheme = str(random.choice(["classical", "strassen", "winograd", "3x3x3:23", "2x4x3:20",
                                "strassen@strassen"]))  # fmt: skip
    if name in ("float16", "bfloat16") and BACKENDS["cpu"].why_unavailable() is not None:
        scheme = "classical"
    plan = replace(falcon.plan(a, b, scheme=scheme), guarded=scheme != "classical")
    return a, b, plan(a, b), plan.growth


def false_alarms(times):
    random, told = np.random.default_rng(9), 0
    for _ in range(times):
        a, b, c, growth = right(random)
        halves = a.dtype.itemsize == 2 and growth > 1  # whose default is that of "auto"
        for allowed in (growth,) if halves else (growth, None):
            outcome = falcon.verify(a, b, c, growth=allowed, seed=int(random.integers(2**31)))
            assert not outcome.is_wrong, (outcome, a.dtype, a.shape, c.shape, growth)
        told += bool(outcome)
    return told / times


@pytest.mark.parametrize("times", [200, soak(10_000)])
def test_right_products_of_every_scale_are_not_called_wrong(times):
    assert false_alarms(times) > 0.5


def test_it_says_where_it_cannot_tell():
    random = np.random.default_rng(0)
    a = random.standard_normal((50, 2000)).astype("f4")
    b = np.linalg.svd(a.astype("f8"))[2][50:150].T.astype("f4")  # all of the product is rounding
    for c in (a @ b, np.zeros((50, 100), "f4")):
        outcome = falcon.verify(a, b, c)
        assert not outcome
        assert not outcome.is_wrong
        assert outcome.why.startswith("cannot verify: rounding may hide")
    for right in (b * (np.arange(100) > 0), 0 * b):  # columns of zeros are tested, too
        assert not falcon.verify(a, right, a @ right).is_wrong
        assert falcon.verify(a, right, a @ right + np.eye(1, 100)).is_wrong


@pytest.mark.skipif(BACKENDS["cpu"].why_unavailable() is not None, reason="no LCMAs of 16 bits")
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("scheme", ["classical", "strassen", "3x3x3:23", "strassen@strassen"])
def test_the_default_follows_the_plan(name, scheme):
    random = np.random.default_rng(4)
    kind = dtype_of(name).numpy
    a, b = (random.standard_normal((600, 600)).astype(kind) for _ in "ab")
    with falcon.config(scheme=scheme):
        c = falcon.gemm(a, b)
        assert falcon.verify(a, b, c)
        c[100:110] += c[100:110]
        assert falcon.verify(a, b, c).is_wrong


# --- check="verify" -------------------------------------------------------------------------


@pytest.fixture
def broken(doors):
    """A call that breaks a backend: it then doubles one entry of every product."""

    def double(out):
        out[-1, -1] *= 2

    return lambda: doors.wrong(double)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_a_broken_backend_is_caught(broken, dtype, scheme, caplog, monkeypatch):
    """In calls like earlier ones, too."""
    a, b = np.ones((2, 8, 8), dtype)
    options = {"backend": "numpy", "scheme": scheme, "check": "verify"}
    calls = [
        lambda: falcon.gemm(a, b, **options),
        lambda: falcon.gemm(a, b, a, alpha=2, beta=3, out=a.copy(), **options),
        lambda: falcon.gemm(a, b, out=np.empty((8, 8), "c16"), **options),
        lambda: falcon.matmul(a, b, **options),
        lambda: falcon.matmul(np.stack([a, a]), b, **options),
        lambda: falcon.matmul(np.stack([a, a]), np.stack([b, b]), **options),
        lambda: falcon.matmul(a[0], b, **options),
    ]
    overwriting = lambda: falcon.gemm(a, b, c := a.copy(), beta=3, out=c, **options)  # noqa: E731
    right = [call() for call in calls]
    overwriting()
    broken()
    if BACKENDS["cpu"].why_unavailable() is None:  # they are made again
        for call, expected in zip(calls, right, strict=True):
            caplog.clear()
            assert (call() == expected).all()
            assert "are made again by generic kernels" in caplog.text
        monkeypatch.setattr(CpuBackend, "again", lambda *_: None)
    for call in (*calls, overwriting):
        with pytest.raises(falcon.VerificationError, match=r"8 x 8 .* failed Freivalds' check"):
            call()
    assert issubclass(falcon.VerificationError, ArithmeticError)


# Rounding may hide short sums of 16 bits.
@pytest.mark.filterwarnings("ignore:.*cannot verify:RuntimeWarning")
@pytest.mark.parametrize("name", [*DTYPES[:4], "complex128", "longdouble"])
def test_short_sums_beside_a_large_c(name):
    """Right products pass (gemm raises if not), and one entry off by some promised errors fails."""
    random = np.random.default_rng(0)
    for K, size, alpha, beta in every((1, 2, 4), (1, 100), (0, 1, -3), (1, 0.7, 100)):
        a, b, _ = product(random, name, (60, K, 500))
        c = (size * product(random, name, (60, 1, 500))[2]).astype(a.dtype)
        b[abs(b) < 0.5] = 1
        test = Freivalds(a, b, c, alpha, beta, dtype=dtype_of(a.dtype))
        out = falcon.gemm(a, b, c, alpha=alpha, beta=beta, check="verify", scheme="classical")
        assert not test.check(out, 1.0).is_wrong
        row, left, right = (np.linalg.norm(x.astype("G")) for x in (out[7], a[7], b))
        unit = dtype_of(a.dtype).unit_roundoff * (1 if a.dtype.itemsize < 8 else 500**0.5)
        wrong = 20 * unit * (abs(alpha) * left * right * K**0.5 + 2 * row)
        out[7, 11] += np.array(wrong).astype(a.dtype)
        assert test.check(out, 1.0).is_wrong, (K, size, alpha, beta)
        if a.dtype.itemsize > 2:
            square = np.stack([(c.T[:60] + c[:, :60]).astype(a.dtype)] * 2)
            falcon.gram(np.stack([a.T] * 2), c=square, beta=beta, conjugate=False, check="verify")


def test_lines_of_any_norm_by_a_named_scheme():
    for scheme, K in every(("strassen", "3x4x4:38"), (1, 2, 40)):
        a, b, _ = product(np.random.default_rng(2), "float64", (90, K, 80))
        a[::3], b[:, ::5], b[:, ::7] = 1e-7 * a[::3], 1e-9 * b[:, ::5], 0
        falcon.gemm(a, b, scheme=scheme, check="verify")
        plan = falcon.plan(a, b, scheme=scheme)
        test, c = Freivalds(a, b, dtype=dtype_of(a.dtype), uneven=plan.is_uneven), plan(a, b)
        c[0, 0] += 100 * plan.error_bound(a, b)[0, 0]
        assert test.check(c, plan.growth).is_wrong


def test_operands_of_integers_whose_arithmetic_is_float64():
    a, b = np.full((4, 4), -3, "i8"), np.full((4, 4), 5, "u8")
    c = falcon.gemm(a, b, check="verify")
    assert c.dtype == np.float64
    assert (c == -60).all()


def test_scales_and_overflow_in_gemm():
    a = np.ones((7, 7))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for x, y in ((1e200, 1e200), (1e200, 1e-200), (1e-200, 1e-200), (1e308, 1.0)):
            falcon.gemm(x * a, y * a, a, alpha=0.5, beta=1e300, check="verify")
            falcon.gemm(x * a, y * a, out=np.empty((7, 7), "f4"), check="verify")
        falcon.gemm(a, a, alpha=np.inf, check="verify")
        falcon.gemm(a, a, a, beta=np.nan, check="verify")
    assert told
    for x in told:
        assert x.category is RuntimeWarning and x.filename == __file__
        assert str(x.message).startswith("check='verify' of 7 x 7 @ 7 x 7 float64: cannot verify: ")


UNDECIDED = {"gemm": lambda x: falcon.gemm(x, x, check="verify"),
             "gram": lambda x: falcon.gram(x, check="verify"),
             "matmul": lambda x: falcon.matmul(x[None], x, check="verify"),
             "einsum": lambda x: falcon.einsum("ij,jk", x, x, check="verify")}  # fmt: skip


@pytest.mark.parametrize("call", UNDECIDED)
def test_a_product_that_cannot_be_verified_is_told_at_the_line_of_the_call(call):
    x = np.full((list(UNDECIDED).index(call) + 37,) * 2, np.nan)
    with pytest.warns(RuntimeWarning, match="cannot verify: no row is finite") as told:
        UNDECIDED[call](x)
    assert [x.filename for x in told] == [__file__]
    UNDECIDED[call](x)  # again it is silent


# --- modulo p -------------------------------------------------------------------------------

MERSENNE = 2**31 - 1
# Moduli, their smallest prime factors, and the trials that leave a chance of 2^-40.
MODULI = {2: (2, 40), 3: (3, 26), 35: (5, 18), 256: (2, 40), 1009: (1009, 5), 2**20: (2, 40),
          2**20 + 7: (2**20 + 7, 2), 46337**2: (46337, 3), MERSENNE: (MERSENNE, 2)}  # fmt: skip


@pytest.mark.parametrize("p", MODULI)
def test_residues(p):
    """Integers of all values; errors that a factor of p makes 0 most often."""
    factor, trials = MODULI[p]
    assert modular_trials(p) == trials
    random = np.random.default_rng(7)
    a = random.integers(-(2**63), 2**63, (30, 50))
    b = random.integers(0, 2**64, (50, 20), np.uint64)
    c = modular(a, b, p)
    shifted = c + p * random.integers(0, 2**31, c.shape)
    for right in (c, c - p, shifted.astype(">u8"), np.asfortranarray(c)):
        assert falcon.verify(a, b, right, modulus=p)
    for seed in range(30):
        wrong = c.copy()
        wrong[seed, :: 1 + seed % 3] += p // factor
        outcome = falcon.verify(a, b, wrong, modulus=p, seed=seed)
        assert outcome.is_wrong
        assert outcome.why == f"wrong: C x differs from A (B x) in 1 row (the first: c[{seed}])"


def test_the_chance_that_an_error_modulo_p_is_overlooked():
    """One in q of a trial, for the smallest prime factor q of p."""
    a, b, c = np.zeros((3, 1, 1), "i8")
    for p, q in ((6, 2), (15, 3), (7, 7)):
        passed = sum(
            falcon.verify(a, b, c + p // q, modulus=p, trials=1, seed=x).passed for x in range(600)
        )
        assert abs(passed - 600 / q) < 60


def test_sums_modulo_p_of_any_length():
    for K in (1, 2**16, 2**18 + 3):
        a = np.broadcast_to(np.int64(MERSENNE - 1), (2, K))
        for p in (MERSENNE, 2**31 - 2, 3):
            c = np.full((2, 1), K * (MERSENNE - 1) ** 2 % p)
            assert falcon.verify(a, a.T[:, :1], c, modulus=p)
            assert not falcon.verify(a, a.T[:, :1], c + 1, modulus=p)


def test_alpha_and_beta_modulo_p():
    random = np.random.default_rng(8)
    a, b, c = random.integers(-99, 99, (3, 9, 9), "i4")
    for p, alpha, beta in every((2, 10, MERSENNE), (1, -3, 2**40), (0, 1, -(2**40))):
        test = Freivalds(a, b, c, alpha, beta, dtype=dtype_of("i4"), modulus=p, seed=1)
        out = ((alpha * modular(a, b, p).astype(object) + beta * c.astype(object)) % p).astype("i8")
        assert test.check(out, 1.0)
        out[5, 5] += 1
        assert test.check(out, 1.0).is_wrong


@pytest.mark.parametrize("p, error", [(1, ValueError), (2**62 + 1, ValueError), (True, TypeError),
                                      (7.0, TypeError), ("7", TypeError)])  # fmt: skip
def test_errors_of_a_modulus(p, error):
    with pytest.raises(error, match=r"modulus is .*; expected"):
        falcon.verify([[1]], [[1]], [[1]], modulus=p)
    with pytest.raises(TypeError, match="c has dtype float64; expected integers, with a modulus"):
        falcon.verify([[1]], [[1]], [[1.0]], modulus=7)
