"""``gram(x, weights=w)``: against ``x.T @ (w[:, None] * x)``, bit for bit on whole numbers."""

import ml_dtypes
import numpy as np
import pytest

import falcon
from falcon._backends import host_engine

TYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i1", "u2", "i4", "u4", "i8", "c8", "c16"]
SHAPES = [(1, 1), (7, 5), (300, 40), (0, 3), (3, 0)]
BACKENDS = [
    None,
    *sorted({"auto", "numpy", host_engine().name}),
]  # None: small ones have a way of their own


@pytest.fixture(autouse=True)
def small_panels(doors):
    doors.numbers(weighted_panel=2000)


def whole(shape, dtype, seed=0):
    """Whole numbers of both signs, with zeros."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.integers(-2, 3, shape)
    return x.astype(dtype)


def real(dtype):
    return np.zeros(0, dtype).real.dtype


def exact(x, w, transpose=False, conjugate=True):
    """The product in a type that holds it, as x's type."""
    wide = "c16" if x.dtype.kind == "c" else "f8" if x.dtype.kind in "fV" else "i8"
    y, w = (x.swapaxes(-1, -2) if transpose else x).astype(wide), w.astype(wide)[..., None]
    other = y.conj() if conjugate else y
    left, right = (y, other) if transpose else (other, y)
    with np.errstate(all="ignore"):
        return (left.swapaxes(-1, -2) @ (w * right)).astype(x.dtype)


def part(full, symmetric, before):
    lower = np.tri(full.shape[-1], dtype=bool)
    kept = {"full": True, "lower": lower, "upper": lower.T}[symmetric]
    return np.where(kept, full, np.asarray(before, full.dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda x: np.dtype(x).name)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transpose", [False, True])
def test_every_type(dtype, backend, transpose):
    for K, M in SHAPES:
        x = whole((M, K) if transpose else (K, M), dtype)
        w = whole(K, real(dtype), 1)
        if backend == "cpu" and falcon._cpu.extension.why_unavailable():
            pytest.skip("needs the compiled extension")
        for conjugate in (True, False):
            how = {"transpose": transpose, "conjugate": conjugate, "weights": w}
            how |= {} if backend is None else {"backend": backend}
            full = exact(x, w, transpose, conjugate)
            for symmetric in ("full", "lower", "upper"):
                found = falcon.gram(x, symmetric=symmetric, **how)
                assert found.dtype == x.dtype
                np.testing.assert_array_equal(found, part(full, symmetric, 0))
                c = full.copy()
                scaled = {"alpha": 2, "beta": 1, "c": c, "out": c}
                assert falcon.gram(x, symmetric=symmetric, **scaled, **how) is c
                with np.errstate(all="ignore"):
                    added = (full + full + full).astype(x.dtype)
                np.testing.assert_array_equal(c, part(added, symmetric, full))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_random_numbers_are_as_precise_as_those_of_a_product(dtype, threads):
    rng = np.random.default_rng(2)
    for K, M, order in ((5000, 40, "C"), (500, 130, "F"), (900, 33, "C")):
        x = rng.standard_normal((K, M))
        x = np.asarray(x + 1j * rng.standard_normal((K, M)) if dtype[0] == "c" else x, dtype, order)
        w = (rng.standard_normal(K) * 10.0 ** rng.integers(-2, 3, K)).astype(real(dtype))
        w[::7] = 0
        found = falcon.gram(x, weights=w, threads=threads)
        np.testing.assert_array_equal(found, found.conj().T)
        wide = np.clongdouble if dtype[0] == "c" else np.longdouble
        y, weights = x.astype(wide), w.astype(wide)[:, None]
        error = abs(found - y.conj().T @ (weights * y))
        norms = np.linalg.norm(x, axis=0).astype(float)
        of_b = np.linalg.norm(w[:, None] * x, axis=0)
        most = 8 * np.finfo(dtype).eps * np.sqrt(K) * np.outer(norms, of_b)
        assert (error <= np.maximum(most, most.T)).all() and error.max() > 0


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16], ids=lambda x: np.dtype(x).name)
def test_halves_are_rounded_once(dtype):
    x = np.random.default_rng(6).random((20000, 7)).astype(dtype)
    w = (np.arange(20000) % 5 / 40).astype(dtype)
    y = x.astype(float)
    wanted = y.T @ (w.astype(float)[:, None] * y)
    unit = 2.0**-11 if dtype == "f2" else 2.0**-8
    assert (abs(falcon.gram(x, weights=w).astype(float) / wanted - 1) <= 1.01 * unit).all()


@pytest.mark.parametrize("symmetric", ["full", "lower"])
def test_terms_of_halves_may_be_larger_than_the_type_holds(symmetric):
    x, w, c = np.ones((4, 3), "f2"), np.ones(4, "f2"), np.full((3, 3), 60000, "f2")
    part = np.ones((3, 3)) if symmetric == "full" else np.tri(3)
    how = {"weights": w, "beta": 2, "c": c, "symmetric": symmetric}
    np.testing.assert_array_equal(falcon.gram(x, alpha=-20000, **how), 40000 * part)
    with np.errstate(all="raise"):  # what overflows shows in the result alone
        found = falcon.gram(x, **how)
    np.testing.assert_array_equal(found[part > 0], np.inf)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_nan_and_infinity_are_where_numpy_has_them(backend, dtype):
    x, w = whole((300, 40), dtype, 3), whole(300, real(dtype), 4)
    x[5, 3], x[7, 9], w[7], w[11] = np.nan, np.inf, 0, np.inf  # 0 times Inf is NaN
    with np.errstate(all="ignore"):
        wanted = x.conj().T @ (w[:, None] * x)
    found = falcon.gram(x, weights=w, backend=backend)
    if dtype != "c16":  # of complex numbers, NumPy's own products differ in NaN and Inf
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted) | np.isnan(wanted.T))
    w[11] = 1
    with np.errstate(all="ignore"):
        wanted = x.conj().T @ (w[:, None] * x)
    found = falcon.gram(x, weights=w, backend=backend)
    assert (np.isfinite(found) == np.isfinite(wanted)).all()
    good = np.isfinite(wanted)
    np.testing.assert_array_equal(found[good], wanted[good])


def test_batches_strides_and_types():
    x, w = whole((2, 3, 40, 30), "f4"), whole((3, 40), "f4", 1)
    batch = np.broadcast_to(w, (2, 3, 40))
    np.testing.assert_array_equal(falcon.gram(x, weights=w), exact(x, batch))
    wide = whole((400, 90), "f8")[::-2, 1::3]
    strided = whole(400, "f8", 1)[::-2]
    room = np.full((60, 60), -9.0)
    falcon.gram(wide, weights=strided, out=room[::2, ::-2])
    np.testing.assert_array_equal(room[::2, ::-2], exact(wide, strided))
    assert (room[1::2] == -9).all() and (room[:, ::2] == -9).all()
    ints = whole((50, 6), "i4")
    halves = np.arange(50) / 2
    found = falcon.gram(ints, weights=halves)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, ints.T @ (halves[:, None] * ints))
    assert falcon.gram([[1.0, 2], [3, 4]], weights=[1, -1]).tolist() == [[-8, -10], [-10, -12]]
    np.testing.assert_array_equal(falcon.gram(x, weights=2), exact(x, np.full((2, 3, 40), 2)))


def test_the_result_may_overlap_what_is_read():
    x, w = whole((2, 40, 40), "f8"), whole((2, 40), "f8", 1)
    wanted, given = exact(x, w), x.copy()
    assert falcon.gram(given, weights=w, out=given) is given
    np.testing.assert_array_equal(given, wanted)
    square, row = x[0].copy(), w[0]
    falcon.gram(square, weights=row, out=square)
    np.testing.assert_array_equal(square, wanted[0])
    falcon.gram(x[0], weights=square[3], out=square)  # the weights themselves
    np.testing.assert_array_equal(square, exact(x[0], wanted[0][3]))


@pytest.mark.parametrize(
    "options",
    [{"scheme": "strassen"}, {"check": "verify"}, {"arithmetic": "native"},
     {"threads": 1}, {"workspace_limit": "4MiB"}, {"scheme": "classical"}],
    ids=str,
)  # fmt: skip
def test_options(options):
    x, w = whole((700, 130), "f4"), whole(700, "f4", 1)
    np.testing.assert_array_equal(falcon.gram(x, weights=w, **options), exact(x, w))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("reproducible", [True, "rows"])
def test_reproducible(reproducible):
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((5000, 300)), rng.standard_normal(5000)
    first, *others = (
        falcon.gram(x, weights=w, threads=n, reproducible=reproducible) for n in (1, 2, 5)
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.usefixtures("engine")
def test_x_is_not_copied(doors):
    """Not by the engine, nor by panels: both take less than half of x."""
    import tracemalloc

    x, w = np.ones((40000, 300)), np.ones(40000)
    for options in ({"workspace_limit": x.nbytes // 2}, {"backend": "numpy"}):
        doors.numbers(weighted_panel=2**20)
        falcon.gram(x[:9], weights=w[:9], **options)
        tracemalloc.start()
        found = falcon.gram(x, weights=w, **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (found == 40000).all() and peak < x.nbytes / 2


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [(TypeError, "weights are of complex128; expected real", {"weights": np.ones(7, complex)}),
     (TypeError, "weights has dtype bool; expected integers", {"weights": np.ones(7, bool)}),
     (ValueError, r"weights have shape \(5,\); expected \(7,\)", {"weights": np.ones(5)}),
     (ValueError, r"weights have shape \(7, 1\)", {"weights": np.ones((7, 1))}),
     (ValueError, "centred is True, but there are weights", {"centred": True}),
     (ValueError, "products are modulo p", {"modulus": 7})],
    ids=str,
)  # fmt: skip
def test_errors(error, match, options):
    dtype = int if "modulus" in options else float
    with pytest.raises(error, match=match):
        falcon.gram(np.ones((7, 5), dtype), **{"weights": np.ones(7, dtype), **options})


def test_a_batch_of_more_than_are_taken_at_a_time_has_weights_of_each():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((700, 20, 16)), rng.random((700, 20))
    want = np.einsum("bki,bk,bkj->bij", x, w, x)
    for _ in range(2):  # a process's first call reads the settings, and takes the general way
        np.testing.assert_allclose(falcon.gram(x, weights=w), want, rtol=1e-10, atol=1e-10)
