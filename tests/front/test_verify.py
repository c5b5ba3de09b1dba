"""Freivalds' check: it finds wrong products and never doubts a right one."""

import numpy as np
import pytest

import falcon
from falcon._numpy.backend import NumpyBackend


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
    assert falcon.verify(a, b, c)
    for wrong in (c + 0.01 * a, c.T, c * 1.001, np.zeros_like(c), np.full_like(c, np.nan)):
        outcome = falcon.verify(a, b, wrong)
        assert not outcome
        assert not outcome.residual <= outcome.tolerance
    c[5, 7] += 1
    assert not falcon.verify(a, b, c)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "g"])
def test_extreme_scales(dtype):
    """Right products pass and wrong ones are found from underflow to overflow."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 40, 40)).astype(dtype)
    top = np.finfo(dtype).maxexp
    for ea, eb in [
        (0.9, -0.9),
        (-0.9, 0.9),
        (0.45, 0.45),
        (-0.45, -0.45),
        (0.95, 0.0),
        (0.5, 0.45),
    ]:
        one = a.real.dtype.type(1)
        xa, yb = a * np.ldexp(one, int(ea * top)), b * np.ldexp(one, int(eb * top))
        assert falcon.verify(xa, yb, xa @ yb), (ea, eb)
        assert not falcon.verify(xa, yb, (xa @ yb) * a.dtype.type(1.5)), (ea, eb)
    with np.errstate(all="ignore"):
        for e in (0.6, 1.0):  # the product overflows
            big = a * a.dtype.type(0.1) * np.ldexp(np.real(a).dtype.type(1), int(e * top) - 1)
            assert falcon.verify(big, big, big @ big)
        for e in (-0.6, -0.99):  # it underflows
            small = a * np.ldexp(np.real(a).dtype.type(1), int(e * top))
            assert falcon.verify(small, small, small @ small)
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


def test_constant_operands_whose_rounding_does_not_average_out():
    for dtype in ("f4", "e", "g"):
        a = np.full((20, 3000), 0.1, dtype)
        b = np.full((3000, 20), 0.1, dtype)
        assert falcon.verify(a, b, a @ b, growth=1.0), dtype


def test_same_seed_same_residual():
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, 20, 20))
    first, second = (falcon.verify(a, b, a @ b, seed=1) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "given, options, error, pattern",
    [
        ((np.ones(3), np.ones((3, 3)), np.ones((3, 3))), {}, ValueError, r"a has shape \(3,\)"),
        (
            (np.ones((3, 3)), np.ones((3, 3)), np.ones((3, 2))),
            {},
            ValueError,
            "do not fit: a .3, 3",
        ),
        (
            (np.ones((3, 3)), np.ones((3, 3)) > 0, np.ones((3, 3))),
            {},
            TypeError,
            "b has dtype bool",
        ),
        ((np.ones((3, 3)),) * 3, {"trials": 0}, ValueError, "trials is 0; expected at least 1"),
    ],
)
def test_errors(given, options, error, pattern):
    with pytest.raises(error, match=pattern):
        falcon.verify(*given, **options)


# --- check="verify" -------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch):
    """A backend that doubles one entry of every product."""
    execute = NumpyBackend.execute

    def wrong(self, plan, a, b, c, out, **options):
        execute(self, plan, a, b, c, out, **options)
        out[-1, -1] *= 2

    monkeypatch.setattr(NumpyBackend, "execute", wrong)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_a_broken_backend_is_caught(broken, dtype, scheme):
    a, b = np.ones((2, 8, 8), dtype)
    options = {"backend": "numpy", "scheme": scheme, "check": "verify"}
    calls = [
        lambda: falcon.gemm(a, b, **options),
        lambda: falcon.gemm(a, b, a, alpha=2, beta=3, out=a.copy(), **options),
        lambda: falcon.gemm(a, b, out=np.empty((8, 8), "c16"), **options),
        lambda: falcon.matmul(a, b, **options),
        lambda: falcon.matmul(np.stack([a, a]), b, **options),
        lambda: falcon.matmul(a[0], b, **options),
    ]
    for call in calls:
        with pytest.raises(falcon.VerificationError, match=r"8 x 8 .* failed Freivalds' check"):
            call()
    assert issubclass(falcon.VerificationError, ArithmeticError)


@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen", "3x4x4:38"])
@pytest.mark.parametrize("dtype", ["i1", "u4", "i8", "e", "f4", "f8", "g", "c8"])
def test_right_results_are_never_doubted(dtype, scheme):
    if dtype == "e":  # no scheme runs on float16
        scheme = "classical"
    rng = np.random.default_rng(8)
    for _ in range(20):
        m, k, n = rng.integers(0, 40, 3)
        a, b, c = (
            rng.integers(0, 100, s).astype(dtype) if np.dtype(dtype).kind in "iu"
            else rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n))
        )  # fmt: skip
        options = {"scheme": scheme, "check": "verify"}
        falcon.gemm(a, b, **options)
        falcon.gemm(a, b, c, alpha=-3, beta=2, **options)
        falcon.gemm(a, b, c, alpha=2, beta=-1, out=c, **options)
        falcon.gemm(a, b, out=np.empty((m, n), "c16" if dtype == "c8" else "f8"), **options)
        falcon.matmul(np.stack([a, a]), b, **options)


def test_operands_of_integers_whose_arithmetic_is_float64():
    a, b = np.full((4, 4), -3, "i8"), np.full((4, 4), 5, "u8")
    c = falcon.gemm(a, b, check="verify")
    assert c.dtype == np.float64
    assert (c == -60).all()


def test_scales_and_overflow_in_gemm():
    a = np.ones((5, 5))
    for x, y in ((1e200, 1e200), (1e200, 1e-200), (1e-200, 1e-200), (1e308, 1.0)):
        falcon.gemm(x * a, y * a, a, alpha=0.5, beta=1e300, check="verify")
        falcon.gemm(x * a, y * a, out=np.empty((5, 5), "f4"), check="verify")
    falcon.gemm(a, a, alpha=np.inf, check="verify")
    falcon.gemm(a, a, a, beta=np.nan, check="verify")
