"""What `falcon.gemm` computes: against the reference, NumPy's integers and long double.

Every layout of memory, every dtype, alpha and beta, non-finite values, accuracy, determinism.
"""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon.schemes import Scheme
from reference.classical import classical
from reference.lcma import lcma

INTEGERS = "bBhHiIlLqQ"
FLOATS = "fdgFDG"
SCHEMES = ["strassen", "winograd", "3x3x3:23", "2x3x4:20", "4x2x3:20", "strassen@2x1x1", "3x4x4:38"]
SIZES = [*range(10), 15, 16, 17, 31, 32, 33, 37]


def rational_scheme():
    """Strassen's algorithm with its factors scaled: exact only among fractions."""
    s = falcon.schemes.get("strassen")
    scaled = (s.U * Fraction(1, 2), s.V * Fraction(1, 3), s.W * Fraction(6))
    return Scheme(*scaled, "rational strassen")


def operand(rng, shape, dtype, largest=9):
    """Small whole numbers, so that every dtype is exact."""
    dtype = np.dtype(dtype)
    x = rng.integers(0 if dtype.kind == "u" else -largest, largest + 1, shape)
    return (x + 1j * x[::-1]).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


def packed_field(x):
    """A view whose strides are no multiple of the item size, and whose base is misaligned."""
    record = np.dtype([("pad", "u1"), ("x", x.dtype)])
    whole = np.zeros(x.shape, record)
    whole["x"] = x
    return whole["x"]


def misaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    return raw


def every_second(x):
    whole = np.zeros((2 * x.shape[0], 2 * x.shape[1]), x.dtype)
    whole[::2, ::2] = x
    return whole[::2, ::2]


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every second": every_second,
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "reversed rows": lambda x: x[::-1].copy()[::-1],
    "same row": lambda x: np.broadcast_to(x[:1], x.shape),
    "same column": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "same number": lambda x: np.broadcast_to(x[0, 0], x.shape),
    "structured": packed_field,
    "misaligned": misaligned,
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    # As Zarr returns it: native, and yet not NumPy's own dtype.
    "little-endian": lambda x: x.astype(x.dtype.newbyteorder("<")),
    "swapped and every second": lambda x: every_second(x.astype(x.dtype.newbyteorder())),
}


@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen", "3x3x3:23"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8", "g"])
@pytest.mark.parametrize("layout_a", LAYOUTS)
def test_layouts(layout_a, dtype, scheme):
    rng = np.random.default_rng(1)
    a = LAYOUTS[layout_a](operand(rng, (13, 11), dtype))
    for layout_b in ("C", "every second", "reversed", "same row", "structured"):
        b = LAYOUTS[layout_b](operand(rng, (11, 7), dtype))
        before = a.copy(), b.copy()
        for x, y in ((a, b), (b.T, a.T)):
            c = falcon.gemm(x, y, scheme=scheme)
            assert c.dtype == np.dtype(dtype)
            assert c.flags.c_contiguous
            np.testing.assert_array_equal(c, classical(x, y), err_msg=layout_b)
        np.testing.assert_array_equal(a, before[0])
        np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("scheme", ["auto", *SCHEMES])
def test_sizes(scheme):
    rng = np.random.default_rng(2)
    shapes = [tuple(rng.choice(SIZES, 3)) for _ in range(60)]
    shapes += [(m, k, n) for m in (0, 1, 5) for k in (0, 1, 5) for n in (0, 1, 5)]
    for m, k, n in shapes:
        a, b = operand(rng, (m, k), "f8"), operand(rng, (k, n), "f8")
        c = falcon.gemm(a, b, scheme=scheme)
        assert c.shape == (m, n)
        np.testing.assert_array_equal(c, classical(a, b), err_msg=f"{m, k, n}")


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("scheme", ["auto", *SCHEMES])
def test_integers_wrap_bit_for_bit(dtype, scheme):
    rng = np.random.default_rng(3)
    info = np.iinfo(dtype)
    for m, k, n in [(7, 9, 5), (12, 12, 12), (1, 17, 3)]:
        a, b, c = (
            rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            for shape in ((m, k), (k, n), (m, n))
        )
        np.testing.assert_array_equal(falcon.gemm(a, b, scheme=scheme), a @ b)
        alpha, beta = np.dtype(dtype).type(5), np.dtype(dtype).type(info.max)
        found = falcon.gemm(a, b, c, alpha=5, beta=int(info.max), scheme=scheme)
        np.testing.assert_array_equal(found, alpha * (a @ b) + beta * c)
        negative = falcon.gemm(a, b, alpha=-1, scheme=scheme)
        np.testing.assert_array_equal(negative, np.zeros_like(found) - a @ b)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equals_the_readable_algorithm(scheme):
    """The same scheme, run by the reference: both are exact on whole numbers."""
    s = falcon.schemes.get(scheme)
    rng = np.random.default_rng(4)
    a, b = operand(rng, (19, 23), "i8"), operand(rng, (23, 17), "i8")
    np.testing.assert_array_equal(falcon.gemm(a, b, scheme=s), lcma(a, b, s.U, s.V, s.W))


@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen", "3x3x3:23"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c16", "g"])
def test_alpha_and_beta(dtype, scheme):
    rng = np.random.default_rng(6)
    a, b, c = (operand(rng, s, dtype) for s in ((9, 8), (8, 7), (9, 7)))
    ab = classical(a, b)
    numbers = [0, 1, -1, 3, 2.0] + ([] if dtype == "i2" else [0.5, -0.25])
    numbers += [2 - 1j] if dtype == "c16" else []
    for alpha in numbers:
        for beta in numbers:
            kind = np.dtype(dtype).type
            found = falcon.gemm(a, b, c, alpha=alpha, beta=beta, scheme=scheme)
            assert found.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(found, kind(alpha) * ab + kind(beta) * c)


@pytest.mark.parametrize("beta_dtype", ["f4", "f8", "i4", "c8", "g"])
def test_the_dtype_of_c_counts_for_the_result(beta_dtype):
    rng = np.random.default_rng(7)
    for dtype in ("i1", "i4", "f4", "c16"):
        a, b = operand(rng, (4, 3), dtype), operand(rng, (3, 5), dtype)
        c = operand(rng, (4, 5), beta_dtype)
        for k in (0, 3):
            found = falcon.gemm(a[:, :k], b[:k], c, beta=2)
            assert found.dtype == np.result_type(a, b, c)
            expected = a[:, :k].astype(found.dtype) @ b[:k].astype(found.dtype) + 2 * c
            np.testing.assert_array_equal(found, expected)
            assert falcon.gemm(a[:, :k], b[:k], c, beta=0).dtype == a.dtype


@pytest.mark.parametrize("scheme", ["auto", "strassen"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_beta_zero_never_reads_c_and_alpha_zero_never_a_or_b(bad, scheme):
    a, b, poison = np.ones((6, 4)), np.ones((4, 5)), np.full((6, 5), bad)
    out = poison.copy()
    expected = np.full((6, 5), 4.0)
    np.testing.assert_array_equal(falcon.gemm(a, b, poison, scheme=scheme), expected)
    np.testing.assert_array_equal(falcon.gemm(a, b, out, beta=0, out=out, scheme=scheme), expected)
    np.testing.assert_array_equal(falcon.gemm(a, b, out=np.full((6, 5), bad)), expected)
    # A beta that underflows to zero in the arithmetic's dtype is zero.
    tiny = falcon.gemm(a.astype("f4"), b.astype("f4"), poison.astype("f4"), beta=1e-300)
    np.testing.assert_array_equal(tiny, expected)
    a[...], b[...] = bad, bad
    c = np.ones((6, 5))
    zero = np.zeros((6, 5))
    np.testing.assert_array_equal(falcon.gemm(a, b, alpha=0, scheme=scheme), zero)
    np.testing.assert_array_equal(falcon.gemm(a, b, c, alpha=0, beta=3, scheme=scheme), 3 * c)
    np.testing.assert_array_equal(falcon.gemm(a, b, poison, alpha=0, scheme=scheme), zero)


def test_float16_is_classical_on_numpys_loops():
    rng = np.random.default_rng(8)
    a, b = operand(rng, (150, 120), "e", 3), operand(rng, (120, 130), "e", 3)
    c = falcon.gemm(a, b, backend="numpy")
    assert c.dtype == np.float16
    np.testing.assert_array_equal(c, a @ b)
    assert falcon.plan(a, b, backend="numpy").scheme is None
    with pytest.raises(TypeError, match=r"'strassen' cannot multiply .* float16"):
        falcon.gemm(a, b, scheme="strassen", backend="numpy")


def test_rational_schemes():
    rng = np.random.default_rng(9)
    rational = rational_scheme()
    a, b = operand(rng, (9, 7), "f8"), operand(rng, (7, 8), "f8")
    np.testing.assert_allclose(falcon.gemm(a, b, scheme=rational), a @ b, atol=1e-12)
    with pytest.raises(TypeError, match=r"'rational strassen' cannot .*fractional coefficients"):
        falcon.gemm(a.astype(int), b.astype(int), scheme=rational)


def test_rational_coefficients_in_long_double():
    """1/3 as a float of Python has 53 bits; the coefficients must have all the dtype's."""
    if np.finfo("g").eps == np.finfo("d").eps:
        pytest.skip("long double is double here")
    rng = np.random.default_rng(10)
    a, b = operand(rng, (8, 8), "g"), operand(rng, (8, 8), "g")
    error = abs(falcon.gemm(a, b, scheme=rational_scheme()) - a @ b).max()
    assert error < 1000 * np.finfo("g").eps


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "g"])
def test_non_finite_values_spread_no_further_than_classically(dtype, scheme):
    rng = np.random.default_rng(11)
    for trial in range(40):
        m, k, n = rng.integers(1, 14, 3)
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
        x = (a, b)[trial % 2]
        x[rng.integers(x.shape[0]), rng.integers(x.shape[1])] = (np.nan, np.inf, -np.inf)[trial % 3]
        with np.errstate(all="ignore"):
            expected = classical(a, b)
        with np.errstate(all="raise"):
            c = falcon.gemm(a, b, scheme=scheme)
            scaled = falcon.gemm(a, b, np.ones_like(c), alpha=2, beta=1, scheme=scheme)
        np.testing.assert_array_equal(np.isfinite(c), np.isfinite(expected))
        np.testing.assert_array_equal(np.isfinite(scaled), np.isfinite(expected))
        finite = np.isfinite(expected)
        np.testing.assert_allclose(c[finite], expected[finite], rtol=1e-5, atol=1e-5)
        if np.dtype(dtype).kind == "f":
            np.testing.assert_array_equal(np.isnan(c), np.isnan(expected))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sums_that_overflow(scheme):
    """a11 + a22 overflows, the product does not."""
    big = np.finfo("f8").max * 0.75
    a, b = np.full((12, 12), big), np.eye(12)
    with np.errstate(all="raise"):
        c = falcon.gemm(a, b, scheme=scheme)
        out = np.empty((12, 12), order="F")
        falcon.gemm(a, b, out=out[::-1], alpha=0.5, scheme=scheme)
    np.testing.assert_array_equal(c, a)
    np.testing.assert_array_equal(out, a / 2)


@pytest.mark.parametrize(
    "scheme", ["classical", *SCHEMES, "strassen@strassen", "winograd@laderman"]
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_error_within_the_predicted_bound(dtype, scheme):
    rng = np.random.default_rng(13)
    wide = np.clongdouble if dtype == "c8" else np.longdouble
    for limit in (None, 40_000):
        a, b = rng.standard_normal((2, 90, 90)).astype(dtype)
        options = {"scheme": scheme, "workspace_limit": limit}
        if limit is not None and scheme in ("strassen@strassen", "winograd@laderman"):
            continue
        error = abs(falcon.gemm(a, b, **options) - a.astype(wide) @ b.astype(wide))
        assert error.max() > 0
        for proved in (False, True):
            assert (error <= falcon.plan(a, b, **options).error_bound(a, b, proved=proved)).all()


def test_more_shapes_than_plans_are_kept(monkeypatch):
    """Threads that evict each other's plans get right results."""
    from falcon._front import planner

    monkeypatch.setattr(planner, "_CACHED_PLANS", 3)
    monkeypatch.setattr(planner, "_plans", {})
    ones = np.ones((40, 40))

    def run(i):
        k = 1 + i % 30
        return (falcon.gemm(ones[:, :k], ones[:k], scheme="strassen") == k).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(400)))
    assert len(planner._plans) <= 3


def test_a_replaced_scheme_replaces_its_plans():
    """Names are looked up at every call: a plan of the former scheme must not be used."""
    from falcon.schemes import catalogue

    try:
        for base in (falcon.schemes.get("strassen"), falcon.schemes.get("laderman")):
            mine = Scheme(base.U, base.V, base.W, "mine")
            falcon.schemes.register(mine, overwrite=True)
            assert falcon.plan((9, 9), (9, 9), scheme="mine").scheme is mine
    finally:
        del catalogue._registered["mine"]
