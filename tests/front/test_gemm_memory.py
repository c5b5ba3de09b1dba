"""Where `falcon.gemm` reads and writes: out, overlaps, untouched bytes, its workspace."""

import tracemalloc

import numpy as np
import pytest

import falcon

SCHEMES = ["auto", "classical", "strassen", "3x3x3:23", "2x3x4:20"]
# What a call may allocate besides: Python objects, masks and casts of a strip, ufunc buffers.
SLACK = 400_000


def whole(rng, shape, dtype="f8"):
    x = rng.integers(-9, 10, shape)
    return (x + 1j * x[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("alpha, beta", [(1, 0), (2, 0), (1, 1), (2, -3)])
@pytest.mark.parametrize("n, dtype", [(12, "f8"), (131, "f4")])
def test_out_may_overlap_in_every_way(scheme, alpha, beta, n, dtype):
    rng = np.random.default_rng(1)
    c = whole(rng, (n, n), dtype)
    ways = {
        "is a": lambda a, b, m: a,
        "is b": lambda a, b, m: b,
        "a transposed": lambda a, b, m: a.T,
        "b transposed": lambda a, b, m: b.T,
        "a reversed": lambda a, b, m: a[::-1],
        "shifted by a row": lambda a, b, m: m[1 : n + 1],
        "shifted by an element": lambda a, b, m: m.ravel()[1 : n * n + 1].reshape(n, n),
        "between both": lambda a, b, m: m[n // 2 : n // 2 + n],
        "shifted backwards": lambda a, b, m: m[n - 1 : 2 * n - 1],
    }
    for name, way in ways.items():
        memory = whole(rng, (2 * n + 1, n), dtype)
        a, b = memory[:n], memory[n : 2 * n]
        out = way(a, b, memory)
        expected = alpha * (a @ b) + beta * c
        assert falcon.gemm(a, b, c, alpha=alpha, beta=beta, out=out, scheme=scheme) is out
        np.testing.assert_array_equal(out, expected, err_msg=name)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("alpha", [0, 1, 2])
def test_c_may_be_out_or_overlap_it(scheme, alpha):
    rng = np.random.default_rng(2)
    a, b = whole(rng, (15, 15)), whole(rng, (15, 15))
    for way in (
        lambda m: (m[:15], m[:15]),
        lambda m: (m[:15], m[:15].T),
        lambda m: (m[:15], m[1:16]),
        lambda m: (m[1:16], m[:15]),
        lambda m: (m[:15], m[14::-1]),
    ):
        c, out = way(whole(rng, (17, 15)))
        expected = alpha * (a @ b) + 2 * c
        falcon.gemm(a, b, c, alpha=alpha, beta=2, out=out, scheme=scheme)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "dtype, out_dtype",
    [("f8", "f4"), ("f4", "f8"), ("f4", "c8"), ("i4", "f4"), ("i4", "i1"), ("i1", "i8"),
     ("u2", "i2"), ("f8", ">f8"), ("c16", "c8"), ("f4", "g"), ("i8", ">i2")],
)  # fmt: skip
def test_out_of_another_dtype(dtype, out_dtype, scheme):
    """The arithmetic is that of the operands; only the result is cast."""
    rng = np.random.default_rng(4)
    a, b = abs(whole(rng, (10, 12), "i4")), abs(whole(rng, (12, 11), "i4"))
    a, b = a.astype(dtype), b.astype(dtype)
    expected = (a @ b).astype(out_dtype)
    for check in ("finite", "verify"):
        for order in "CF":
            out = np.empty((10, 11), out_dtype, order)
            assert falcon.gemm(a, b, out=out, scheme=scheme, check=check) is out
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c8"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_bytes_outside_out_are_untouched(dtype, scheme):
    rng = np.random.default_rng(5)
    a, b = whole(rng, (11, 13), dtype), whole(rng, (13, 7), dtype)
    size = np.dtype(dtype).itemsize
    views = {
        "inner": lambda x: x[3:14, 4:11],
        "strided": lambda x: x[1:23:2, 2:23:3],
        "reversed": lambda x: x[13:2:-1, 10:3:-1],
        "transposed": lambda x: x[4:11, 3:14].T,
        "misaligned": lambda x: np.ndarray((11, 7), dtype, x, 24 * size + 1, (24 * size, size)),
    }
    for name, view in views.items():
        canary = rng.integers(0, 256, (24, 24 * size), np.uint8).view(dtype)
        touched = np.zeros(canary.nbytes, bool)
        index = np.arange(canary.nbytes).reshape(24, 24, size)
        if name == "misaligned":
            rows = np.arange(11)[:, None] * 24 * size + 24 * size + 1
            touched[(rows + np.arange(7 * size)).ravel()] = True
        else:
            touched[view(index).ravel()] = True
        before = canary.view("u1").ravel().copy()
        out = view(canary)
        falcon.gemm(a, b, out=out, scheme=scheme)
        np.testing.assert_array_equal(out, a @ b, err_msg=name)
        after = canary.view("u1").ravel()
        np.testing.assert_array_equal(after[~touched], before[~touched], err_msg=name)


def test_operands_may_be_read_only():
    rng = np.random.default_rng(6)
    a, b, c = (whole(rng, (9, 9)) for _ in range(3))
    for x in (a, b, c):
        x.flags.writeable = False
    for scheme in SCHEMES:
        found = falcon.gemm(a, b, c, beta=1, scheme=scheme)
        np.testing.assert_array_equal(found, a @ b + c)
        assert found.flags.writeable


@pytest.fixture
def on_numpy():
    """NumPy's allocations can be traced; what the compiled backend uses is checked in tests/cpu."""
    with falcon.config(backend="numpy"):
        yield


def peak(call):
    """The peak of the bytes that a call allocates."""
    call()
    tracemalloc.start()
    try:
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()


CASES = {
    "plain": lambda a, b, c, out: {},
    "alpha": lambda a, b, c, out: {"alpha": 2},
    "beta": lambda a, b, c, out: {"c": c, "beta": 2},
    "Fortran out": lambda a, b, c, out: {"out": np.asfortranarray(out)},
    "out reversed": lambda a, b, c, out: {"out": out[::-1]},
    "other out dtype": lambda a, b, c, out: {"out": out.astype("c16")},
}


@pytest.mark.parametrize("scheme", ["classical", "strassen", "4x3x4:38"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("layout", ["C", "every second", "other dtype"])
@pytest.mark.usefixtures("on_numpy")
def test_workspace_is_what_the_plan_says_and_keeps_the_limit(scheme, case, layout):
    m, k, n = 301, 283, 262
    rng = np.random.default_rng(7)
    a, b, c, out = (whole(rng, s) for s in ((m, k), (k, n), (m, n), (m, n)))
    if layout == "every second":
        a, b = np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2], np.repeat(b, 2, 0)[::2]
    elif layout == "other dtype":
        a = a.astype("i4")
    options = CASES[case](a, b, c, out)
    expected = options.get("alpha", 1) * (a @ b) + options.get("beta", 0) * c
    given = options.get("out")
    result = 0 if given is not None else m * n * 8
    for share in (None, 0.7, 0.4):
        limit = None
        planned = planned_workspace(a, b, options, scheme, None)
        if share is not None:
            limit = int(planned * share)
        try:
            planned = planned_workspace(a, b, options, scheme, limit)
        except ValueError as error:
            assert limit is not None and f"workspace_limit is {limit}" in str(error)
            assert scheme == "classical" or case in ("beta", "out reversed", "other out dtype")
            continue
        if limit is not None:
            assert planned <= limit

        def call(limit=limit):
            return falcon.gemm(a, b, scheme=scheme, workspace_limit=limit, **options)

        np.testing.assert_array_equal(call(), expected)
        used = peak(call) - result
        assert used <= planned + SLACK
        assert used >= planned - SLACK


def planned_workspace(a, b, options, scheme, limit):
    """The plan that gemm itself makes, buffers for beta and out included."""
    from falcon._front import calls, planner

    planner._plans.clear()
    calls._calls.clear()
    falcon.gemm(a, b, scheme=scheme, workspace_limit=limit, **options)
    (plan,) = planner._plans.values()
    assert plan.problem.buffered == ("c" in options or plan_needs_buffer(options))
    return plan.workspace


def plan_needs_buffer(options):
    out = options.get("out")
    return out is not None and (out.dtype != np.float64 or out.strides[0] < 0)


@pytest.mark.parametrize("scheme", ["classical", "strassen", "winograd"])
@pytest.mark.usefixtures("on_numpy")
def test_verify_and_the_classical_fallback_stay_within_the_plan(scheme):
    a, b = np.ones((2, 400, 400))
    poisoned = a.copy()
    poisoned[3, 5] = np.nan
    plan = falcon.plan(a, b, scheme=scheme)
    result = a.nbytes
    assert peak(lambda: falcon.gemm(poisoned, b, scheme=scheme)) - result < plan.workspace + SLACK
    # Strips of half a megabyte (in three steps of the arithmetic) and a few vectors.
    verified = peak(lambda: falcon.gemm(a, b, scheme=scheme, check="verify")) - result
    assert verified < plan.workspace + 2_500_000


@pytest.mark.usefixtures("on_numpy")
def test_a_limit_of_zero():
    a, b = np.ones((2, 64, 64))
    assert (falcon.gemm(a, b, workspace_limit=0, scheme="classical") == 64).all()
    assert (falcon.gemm(a[:, ::2], b[::2], workspace_limit=0) == 32).all()
    with pytest.raises(ValueError, match=r"workspace_limit is 0 bytes; scheme 'strassen' cannot"):
        falcon.gemm(a, b, scheme="strassen", workspace_limit=0)
    with pytest.raises(
        ValueError, match=r"workspace_limit is 0 bytes; classical .* at least 65536"
    ):
        falcon.gemm(a, b, out=a, workspace_limit=0)


@pytest.mark.parametrize("scheme", ["strassen", "3x4x4:38"])
def test_small_limits_cut_all_three_dimensions(scheme):
    """Ragged chunks in M, N and K; integers show any mistake."""
    rng = np.random.default_rng(8)
    a, b = whole(rng, (67, 93), "i8"), whole(rng, (93, 71), "i8")
    seen = set()
    for limit in (20_000, 40_000, 80_000, 150_000, 400_000):
        plan = falcon.plan(a, b, backend="numpy", scheme=scheme, workspace_limit=limit)
        assert plan.workspace <= limit
        seen.add(plan.option.chunks)
        found = falcon.gemm(a, b, backend="numpy", scheme=scheme, workspace_limit=limit)
        np.testing.assert_array_equal(found, a @ b)
        found = falcon.gemm(
            a, b, found, alpha=3, beta=-2, backend="numpy", scheme=scheme, workspace_limit=500_000
        )
        np.testing.assert_array_equal(found, a @ b)
    assert len(seen) >= 3
