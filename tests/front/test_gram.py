"""`gram`, and ``matmul(x.T, x)``: against the whole product, bit for bit on whole numbers."""

import itertools
import pickle
from functools import partial

import numpy as np
import pytest

import falcon
from falcon._backends import host_engine

OTHER = -9
TYPES = ["f4", "f8", "f2", "i1", "u2", "i4", "i8", "c8", "c16"]
BACKENDS = sorted({"auto", "numpy", host_engine().name})


def whole_numbers(shape, dtype, seed=0, largest=2):
    rng = np.random.default_rng(seed)
    x = rng.integers(-largest, largest + 1, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.integers(-largest, largest + 1, shape)
    return x.astype(dtype)


def exact(x, transpose=False, conjugate=True):
    """The product in a type that holds it, as x's type."""
    wide = x.astype("c16" if x.dtype.kind == "c" else "i8")
    other = wide.swapaxes(-1, -2)
    other = other.conj() if conjugate else other
    return (wide @ other if transpose else other @ wide).astype(x.dtype)


def part(full, symmetric, before):
    if symmetric == "full":
        return full
    lower = np.tri(full.shape[-1], dtype=bool)
    return np.where(lower if symmetric == "lower" else lower.T, full, np.asarray(before))


# An option takes small matrices the way of large ones.
@pytest.mark.parametrize("how", [{}, {"check": "none"}], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("symmetric", ["full", "lower", "upper"])
@pytest.mark.parametrize("transpose", [False, True])
def test_every_type(dtype, symmetric, transpose, how):
    for rows, columns in ((1, 1), (7, 5), (40, 130), (33, 300)):
        x = whole_numbers((columns, rows) if transpose else (rows, columns), dtype)
        full = exact(x, transpose)
        how = {**how, "transpose": transpose, "symmetric": symmetric}
        got = falcon.gram(x, **how)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, part(full, symmetric, 0))
        out = np.full_like(full, OTHER if full.dtype.kind != "u" else 9)
        before = out.copy()
        falcon.gram(x, alpha=2, beta=3, c=full, out=out, **how)
        with np.errstate(all="ignore"):
            wanted = (full.astype("c16" if full.dtype.kind == "c" else "i8") * 5).astype(x.dtype)
        np.testing.assert_array_equal(out, part(wanted, symmetric, before))


SMALL = {
    "batch": [(), (3,), (2, 5), (0,)], "sizes": [(7, 5), (1, 1), (40, 30), (3, 0), (0, 3)],
    "transpose": [False, True], "conjugate": [True, False], "symmetric": ["full", "lower", "upper"],
    "alpha": [1.0, 1, -2.0, 3, 0.0, 2.0**-200], "beta": [0.0, 1.0, 2, 2.0**-200],
    "weights": ["", "one", "all", "swapped"], "out": ["", "new", "c", "x", "strided"],
    "like": ["", "F", "swapped"],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_small_ones_are_what_large_ones_are(dtype):
    """By default options, and by one that takes the other way."""
    random = np.random.default_rng(0)
    for _ in range(400):
        s = {name: x[random.integers(len(x))] for name, x in SMALL.items()}
        (K, M), batch = s["sizes"], s["batch"]
        how = {name: s[name] for name in ("transpose", "conjugate", "symmetric", "alpha", "beta")}
        x = whole_numbers((*batch, *((M, K) if s["transpose"] else (K, M))), dtype)
        hermitian = s["conjugate"]
        c = exact(whole_numbers((*batch, 4, M), dtype, 1), conjugate=hermitian)
        x = {"": x, "F": np.asarray(x, order="F"), "swapped": x.astype(x.dtype.newbyteorder())}[
            s["like"]
        ]
        if how["beta"]:
            how["c"] = c
        if s["weights"]:
            w = whole_numbers(K if s["weights"] == "one" else (*batch, K), x.real.dtype, 2)
            how["weights"] = w.astype(w.dtype.newbyteorder()) if s["weights"] == "swapped" else w
        found = []
        for options in ({}, {"check": "none"}):
            room = np.full((*batch, M, 2 * M), OTHER, dtype)
            out = {"new": room[..., :M].copy(), "strided": room[..., ::2]}.get(s["out"])
            given, call = x.copy("K"), dict(how)
            if s["out"] == "c" and "c" in how:
                call["c"] = out = c.copy()
            elif s["out"] == "x" and x.shape == c.shape and x.dtype == c.dtype:
                out = given
            made = falcon.gram(given, out=out, **call, **options)
            assert out is None or made is out
            found.append(made)
        np.testing.assert_array_equal(*found, err_msg=str(s))
        assert found[0].dtype == found[1].dtype


SETTINGS = [{"threads": 1}, {"max_growth": 2.0}, {"scheme": "strassen"}, {"scheme": "classical"},
            {"backend": "numpy"}, {"check": "verify"}, {"workspace_limit": "8MiB"}]  # fmt: skip
OF_ENGINE = [{"reproducible": True}, {"reproducible": "rows"}]


@pytest.mark.parametrize("how", SETTINGS + OF_ENGINE, ids=str)
def test_settings_are_what_options_are(how, request):
    if how in OF_ENGINE:
        request.getfixturevalue("engine")
    random = np.random.default_rng(0)
    for shape, dtype in (((7, 5), "f4"), ((300, 200), "f4"), ((50, 70), "f8"), ((9, 8), "c16")):
        x = random.standard_normal(shape).astype(dtype)
        for transpose in (False, True):
            given = falcon.gram(x, transpose=transpose, **how)
            with falcon.config(**how):
                for _ in range(2):
                    assert falcon.gram(x, transpose=transpose).tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("batch", [(), (300,)])
def test_small_ones_are_symmetric_to_the_last_bit(dtype, batch):
    random = np.random.default_rng(0)
    x = random.standard_normal((*batch, 21, 130 if dtype == "f4" else 17, 2))
    x = (x[..., 0] + 1j * x[..., 1] if dtype == "c16" else x[..., 0]).astype(dtype)
    c, w = falcon.gram(x), random.standard_normal(21).astype(x.real.dtype)
    x.flat[0], x.flat[-1] = np.inf, np.nan
    with np.errstate(all="raise"):
        for more in ({"weights": w}, {"c": c, "beta": 0.3}, {"weights": w, "alpha": 1e299}):
            found = falcon.gram(x, **more)
            np.testing.assert_array_equal(found, found.conj().swapaxes(-1, -2))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("scheme", ["classical", "strassen", "3x4x5:47"])
@pytest.mark.parametrize("symmetric", ["full", "lower", "upper"])
def test_schemes_off_the_diagonal(backend, scheme, symmetric):
    for size in (2, 3, 130, 301):
        x = whole_numbers((57, size), "f4")
        how = {"backend": backend, "scheme": scheme, "symmetric": symmetric}
        full = exact(x)
        np.testing.assert_array_equal(falcon.gram(x, **how), part(full, symmetric, 0))
        c = np.asfortranarray(full)
        falcon.gram(x, c=c, beta=1.0, out=c, **how)
        np.testing.assert_array_equal(c, part(2 * full, symmetric, full))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dtype", ["f8", "c8", "c16"])
@pytest.mark.parametrize("backend", ["auto", "cpu", "numpy"])
def test_matmul_and_gemm_see_the_shared_memory(dtype, backend):
    x = whole_numbers((90, 300), dtype)
    for a, b in ((x.T, x), (x, x.T)):
        plan = falcon.plan(a, b)
        assert plan.problem.symmetric == "full"
        for call in (falcon.matmul, falcon.gemm, falcon.matmul):  # the last one is recalled
            np.testing.assert_array_equal(call(a, b, backend=backend), a @ b)
    assert falcon.plan(x.T, x.copy()).problem.symmetric == ""
    assert falcon.plan(x.T, x, scheme="strassen").problem.symmetric == ""
    square = whole_numbers((64, 64), "f8")
    assert falcon.plan(square, square).problem.symmetric == ""


@pytest.mark.usefixtures("engine")
def test_a_recalled_call_is_not_taken_for_a_symmetric_one():
    """Shapes, flags and types alike: with the memory shared, then not, then seen twice."""
    matmul = partial(falcon.matmul, backend="cpu")  # NumPy looks at the memory itself
    x = whole_numbers((300, 300), "f4", 1)
    y = whole_numbers((300, 300), "f4", 2)
    for _ in range(3):
        np.testing.assert_array_equal(matmul(x.T, x), x.T @ x)
        np.testing.assert_array_equal(matmul(y.T, x), y.T @ x)
    # Arrays whose bases do not show that they share memory, and one that is alike but does not.
    raw, rest = (bytearray(whole_numbers((300, 300), "f4", seed)) for seed in (3, 4))
    first, second, other = (
        np.frombuffer(memoryview(y), "f4").reshape(300, 300) for y in (raw, raw, rest)
    )
    assert falcon.plan(first.T, second).problem.symmetric and first.base is not second.base
    for _ in range(3):
        np.testing.assert_array_equal(matmul(first.T, second), first.T @ second)
        np.testing.assert_array_equal(matmul(first.T, other), first.T @ other)


def test_batches_strides_and_lists():
    x = whole_numbers((2, 3, 40, 30), "f4")
    np.testing.assert_array_equal(falcon.gram(x), exact(x))
    np.testing.assert_array_equal(falcon.matmul(x.swapaxes(-1, -2), x), exact(x))
    strided = whole_numbers((100, 90), "f8")[::-2, 1::3]
    room = np.full((90, 120), float(OTHER))
    np.testing.assert_array_equal(falcon.gram(strided, out=room[5:65:2, 7:97:3]), exact(strided))
    room[5:65:2, 7:97:3] = OTHER
    assert (room == OTHER).all()
    assert falcon.gram([[1, 2], [3, 4]]).tolist() == [[10, 14], [14, 20]]
    assert falcon.gram(np.ones((0, 3))).tolist() == np.zeros((3, 3)).tolist()
    assert falcon.gram(np.ones((3, 0))).shape == (0, 0)


def test_out_may_overlap_x_and_c():
    for scheme in ("classical", "strassen"):
        x = whole_numbers((64, 64), "f4")
        full = exact(x)
        falcon.gram(x, out=x, scheme=scheme)
        np.testing.assert_array_equal(x, full)
        room = np.zeros((90, 90), "f4")
        x, c, out = whole_numbers((9, 60), "f4"), room[:60, :60], room[20:80, 10:70]
        c[...] = exact(x)
        falcon.gram(x, c=c, beta=2.0, out=out, scheme=scheme)
        np.testing.assert_array_equal(out, 3 * exact(x))
        c, out = room[:60, :60], room[1:61, :60]
        c[...] = exact(x)
        falcon.gram(x, c=c, beta=2.0, out=out, scheme=scheme, symmetric="lower")
        np.testing.assert_array_equal(np.tril(out), np.tril(3 * exact(x)))
    batch = whole_numbers((4, 30, 30), "f8")
    full = exact(batch)
    falcon.gram(batch, out=batch[::-1])
    np.testing.assert_array_equal(batch[::-1], full)
    x, room = whole_numbers((2, 9, 30), "f8"), exact(whole_numbers((3, 9, 30), "f8", 1))
    full = exact(x) + room[:2]
    falcon.gram(x, c=room[:2], beta=1.0, out=room[1:])  # the first result overwrites the second c
    np.testing.assert_array_equal(room[1:], full)


def test_alpha_zero_and_verify_touch_the_triangle_alone():
    x = whole_numbers((50, 40), "f4")
    for options in ({"alpha": 0.0}, {"check": "verify", "alpha": 3.0}):
        out = np.full((40, 40), float(OTHER), "f4")
        falcon.gram(x, out=out, symmetric="lower", **options)
        wanted = part(options["alpha"] * exact(x), "lower", OTHER)
        np.testing.assert_array_equal(out, wanted)
        falcon.gram(x, out=out, c=np.full((40, 40), 4, "f4"), beta=0.5, **options)
        np.testing.assert_array_equal(out, options["alpha"] * exact(x) + 2)


@pytest.mark.parametrize("scheme", ["classical", "strassen", "3x6x4:54"])
def test_results_are_symmetric_and_keep_the_promise(scheme):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 333)).astype("f4") * (10.0 ** rng.uniform(-5, 5, 333))
    x = x.astype("f4")
    got = falcon.gram(x, scheme=scheme)
    np.testing.assert_array_equal(got, got.T)
    right = x.astype("f8").T @ x.astype("f8")
    norms = np.sqrt(np.diag(right))
    limit = {"classical": 1.0}.get(scheme, falcon.schemes.get("strassen").rms_growth)
    if scheme == "classical":  # a scheme that is named has no bound for small columns
        bound = 1.5 * limit * 2.0**-24 * np.sqrt(400) * np.multiply.outer(norms, norms)
        assert (np.abs(got - right) <= bound).all()


@pytest.mark.usefixtures("engine")
def test_nonfinite_values_spread_no_further_than_classically():
    x = np.ones((80, 90), "f4")
    x[3, 70] = np.inf
    got = falcon.gram(x, scheme="strassen", backend="cpu")
    assert np.isinf(got[70]).all() and np.isinf(got[:, 70]).all()
    assert np.isfinite(np.delete(np.delete(got, 70, 0), 70, 1)).all()


# By one complex product; by real ones.
@pytest.mark.parametrize("size", [(60, 50), (300, 310), (2, 40, 30)])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_hermitian_results_are_exactly_so(size, dtype):
    x = whole_numbers(size, dtype, largest=99) / 16
    x.flat[0] = 1 / 3 + 1j / 7
    across = x.swapaxes(-1, -2)
    tolerance = {"rtol": 0, "atol": 1e3 * np.finfo(dtype).eps * size[-2]}
    for transpose in (False, True):
        got = falcon.gram(x, transpose=transpose)
        np.testing.assert_array_equal(got, got.conj().swapaxes(-1, -2))
        right = x @ across.conj() if transpose else across.conj() @ x
        np.testing.assert_allclose(got, right, **tolerance)
    np.testing.assert_allclose(falcon.gram(x, conjugate=False), across @ x, **tolerance)
    with pytest.raises(TypeError, match="alpha"):
        falcon.gram(x, alpha=1j)
    got = falcon.gram(x, conjugate=False, alpha=1j)
    np.testing.assert_allclose(got, 1j * (across @ x), **tolerance)


@pytest.mark.parametrize("size", [(60, 50), (300, 310)])
def test_nonfinite_complex_values_reach_the_diagonal_alike(size):
    x = whole_numbers(size, "c16")
    x[3, 7] = np.nan
    got = falcon.gram(x)
    assert np.isnan(got[7].imag).all() and np.isnan(got[:, 7].real).all()
    assert np.isfinite(np.delete(np.delete(got, 7, 0), 7, 1)).all()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_long_matrices_are_packed_in_passes(dtype):
    """With a workspace of a part of x, and all of C added to once for each pass."""
    x = whole_numbers((20001, 210), dtype, largest=1)
    full = exact(x)
    plan = falcon.plan(x.T, x, backend="cpu", scheme="classical")
    assert plan.problem.symmetric and plan.workspace < x.nbytes
    for symmetric, w in itertools.product(("full", "lower", "upper"), (None, np.ones(20001))):
        if w is not None:
            w = w.astype(x.real.dtype)
        c = full.copy()
        how = {"symmetric": symmetric, "weights": w, "backend": "cpu", "scheme": "classical"}
        falcon.gram(x, c=c, out=c, alpha=2, beta=-1, **how)
        np.testing.assert_array_equal(c, part(full, symmetric, full))
        np.testing.assert_array_equal(falcon.gram(x, **how), part(full, symmetric, 0))


def test_plans_of_symmetric_products(doors):
    x, plans = whole_numbers((64, 200), "f4"), doors.multiplied()
    falcon.gram(x, scheme="strassen")
    (plan,) = plans
    assert len(plan.parts) == 3
    assert "C[100:200, 0:100]: strassen" in str(plan)
    assert plan.method.label == "strassen off the diagonal"
    full = exact(x)
    np.testing.assert_array_equal(plan(x.T, x), full)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(plan))(x.T, x), full)
    with pytest.raises(ValueError, match=r"not a\.T in the same memory"):
        plan(x.T, x.copy())
    bound = plan.error_bound(x.T, x)
    assert bound.shape == (200, 200)
    np.testing.assert_allclose(bound, bound.T)
    assert (plan.error_bound(x.T, x, proved=True) > bound / 100).all()


@pytest.mark.usefixtures("engine")
def test_a_limit_of_the_workspace_is_kept():
    x = whole_numbers((512, 700), "f4")
    with pytest.raises(ValueError, match="workspace_limit"):
        falcon.gram(x, scheme="strassen", workspace_limit=100)
    for limit in ("2MiB", "16MiB"):
        got = falcon.gram(x, scheme="strassen", backend="cpu", workspace_limit=limit)
        np.testing.assert_array_equal(got, exact(x))


@pytest.mark.parametrize("part", ["lower", "upper"])
@pytest.mark.parametrize("by", [(1, 0), (0, 1), (1, 1), (130, 0)])
@pytest.mark.parametrize("swapped", [False, True])
def test_out_may_overlap_c_shifted(part, by, swapped):
    """Triangles are copied in blocks of 128 rows, which must not overwrite what is still read."""
    n, rng = 200, np.random.default_rng(0)
    room = np.zeros((n + by[0], n + by[1]))
    first, second = room[:n, :n], room[by[0] :, by[1] :]
    c, out = (second, first) if swapped else (first, second)
    some = rng.integers(-9, 9, (n, n)).astype(float)
    c[...] = some + some.T
    x = rng.integers(-9, 9, (50, n)).astype(float)
    before, expected = out.copy(), x.T @ x + c
    falcon.gram(x, beta=1.0, c=c, out=out, symmetric=part)
    written = np.tri(n, dtype=bool) if part == "lower" else np.tri(n, dtype=bool).T
    np.testing.assert_array_equal(out[written], expected[written])
    np.testing.assert_array_equal(out[~written], before[~written])


@pytest.mark.parametrize("kept", ["out", "triangle", "overlap"])
def test_buffers_of_complex_products_count(kept):
    x, c = whole_numbers((64, 100), "c8"), np.zeros((100, 100), "c8")
    needed = 100 * 100 * 4  # one of the real products
    arguments = {}
    if kept != "out":
        needed *= 3
        arguments = {"symmetric": "lower"} if kept == "triangle" else {"c": c, "out": c, "beta": 1}
    with pytest.raises(ValueError, match=r"workspace_limit is .* a buffer of"):
        falcon.gram(x, workspace_limit=needed - 1, **arguments)
    got = falcon.gram(x, workspace_limit=needed + 2**20, **arguments)
    np.testing.assert_array_equal(np.tril(got), np.tril(x.conj().T @ x))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x": np.ones(3)}, ValueError, r"x has shape \(3,\); expected a matrix"),
        ({"symmetric": "both"}, ValueError, "symmetric is 'both'; expected one of full, lower"),
        ({"beta": 1.0}, ValueError, "c is missing"),
        ({"beta": 1.0, "c": np.ones((3, 3))}, ValueError, r"c has shape \(3, 3\); expected"),
        ({"out": np.ones((5, 4), "f4")}, ValueError, r"out has shape \(5, 4\)"),
        ({"out": [1]}, TypeError, "out is a list"),
        ({"x": np.ones((5, 4), bool)}, TypeError, "x has dtype bool"),
        ({"x": np.ones((5, 4), object)}, TypeError, r"dtype object; .*numpy.asarray\(x, float\)"),
        ({"alpha": 1j}, TypeError, "alpha is 1j, but the matrices are real"),
        ({"alpha": 1j, "x": np.ones((5, 4), "c8")}, TypeError, "alpha is 1j; expected a real"),
        ({"c": np.ones((3, 3))}, ValueError, r"c has shape \(3, 3\); expected"),
        ({"scheme": "strasen"}, ValueError, "did you mean 'strassen'"),
        ({"treads": 1}, TypeError, "gram.. got an unexpected keyword argument 'treads'"),
    ],
)
def test_bad_input(arguments, error, message):
    arguments = {"x": np.ones((5, 4), "f4")} | arguments
    x = arguments.pop("x")
    with pytest.raises(error, match=message):
        falcon.gram(x, **arguments)


def test_complex_products_of_which_nothing_is_read():
    x, c = np.full((4, 3), np.nan, "c8"), np.eye(3, dtype="c8")
    np.testing.assert_array_equal(falcon.gram(x, alpha=0, c=c, beta=2), 2 * c)
    x, c = np.ones((4, 3), "c8"), np.full((3, 3), np.nan, "c8")
    np.testing.assert_array_equal(falcon.gram(x, c=c, beta=1e-60), np.full((3, 3), 4))


@pytest.mark.usefixtures("engine")
def test_a_copy_of_c_counts_in_the_workspace(doors):
    """Where c overlaps out otherwise than whole, the product in parts reads a copy of it."""
    x = whole_numbers((40, 300), "f8")
    room = np.zeros((301, 300))
    c, out = room[:300], room[1:]
    plans, how = doors.multiplied(), {"scheme": "strassen", "backend": "cpu", "symmetric": "lower"}
    falcon.gram(x, c=np.zeros((300, 300)), beta=2.0, **how)
    needed = plans[0].workspace + c.nbytes
    c[...] = exact(x)
    how |= {"c": c, "beta": 2.0, "out": out}
    with pytest.raises(ValueError, match=f"a buffer of {c.nbytes} is needed .*overlaps c"):
        falcon.gram(x, workspace_limit=c.nbytes - 1, **how)
    falcon.gram(x, workspace_limit=needed, **how)
    np.testing.assert_array_equal(np.tril(out), np.tril(3 * exact(x)))


@pytest.mark.parametrize("limit", [None, "1MiB"])
def test_copies_for_numpys_blas_stay_symmetric(limit):
    """Strides that no BLAS takes: both operands are one copy, or blocks, and C is symmetric."""
    x = np.random.default_rng(7).standard_normal((1000, 2 * 517)).astype("f4")[:, ::2]
    got = falcon.gram(x, backend="numpy", scheme="classical", workspace_limit=limit)
    np.testing.assert_array_equal(got, got.T)
    np.testing.assert_allclose(got, x.T.astype("f8") @ x, rtol=0, atol=1e-3)


def unaligned(x):
    room = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    room[...] = x
    return room


@pytest.mark.parametrize(
    ("backend", "limit"), [*itertools.product(BACKENDS, [None]), ("numpy", "100KiB")]
)
@pytest.mark.parametrize(
    "lie",
    [lambda x: x[..., ::2], unaligned, lambda x: x.astype(x.dtype.newbyteorder())],
    ids=["strided", "unaligned", "swapped"],
)
def test_batches_that_no_blas_reads_are_symmetric(backend, limit, lie):
    for dtype in "f4", "f8", "f2":
        x = lie(np.random.default_rng(0).standard_normal((2, 257, 130)).astype(dtype))
        for transpose in False, True:
            how = {"transpose": transpose, "backend": backend, "workspace_limit": limit}
            found = falcon.gram(x, **how)
            np.testing.assert_array_equal(found, found.swapaxes(1, 2))
            y = x.astype(float)
            right = y @ y.swapaxes(1, 2) if transpose else y.swapaxes(1, 2) @ y
            np.testing.assert_allclose(found, right, atol=1 if dtype == "f2" else 1e-3)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("conjugate", [False, True])
def test_small_complex_ones_are_symmetric_to_the_last_bit(dtype, transpose, conjugate):
    random = np.random.default_rng(0)
    for M, K in itertools.product((1, 2, 3, 8, 17, 64), (1, 2, 7, 64, 300)):
        shape = (M, K) if transpose else (K, M)
        x = whole_numbers(shape, dtype)
        swapped = x.astype(x.dtype.newbyteorder())
        for lies in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], swapped):
            np.testing.assert_array_equal(
                falcon.gram(lies, transpose=transpose, conjugate=conjugate),
                exact(x, transpose, conjugate),
            )
        x = (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
        found = falcon.gram(x, transpose=transpose, conjugate=conjugate)
        assert found.flags.c_contiguous and found.dtype == dtype
        np.testing.assert_array_equal(found, found.T.conj() if conjugate else found.T)
    x = np.full((3, 3), 1 + 1j, dtype)
    x[1, 1] = np.nan
    with np.errstate(all="raise"):
        found = falcon.gram(x, transpose=transpose, conjugate=conjugate)
    assert np.isnan(found).sum() == 5


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dtype", ["i4", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("size", [(3, 4), (20, 18), (130, 120)])
@pytest.mark.parametrize("part", ["full", "lower", "upper"])
def test_a_batch_is_not_a_loop_in_python(doors, dtype, size, part):
    counts = doors.multiplied(lambda _, count: count)
    x = whole_numbers((5, *size), dtype, largest=3)
    y = x.swapaxes(1, 2).conj()
    wanted = {"full": np.asarray, "lower": np.tril, "upper": np.triu}[part]
    for alpha in (1, 2):
        found = falcon.gram(x, symmetric=part, alpha=alpha)
        np.testing.assert_array_equal(found, wanted(alpha * np.matmul(y, x)))
    found = falcon.gram(x, symmetric=part, transpose=True)
    np.testing.assert_array_equal(found, wanted(np.matmul(x, y)))
    assert 1 not in counts
