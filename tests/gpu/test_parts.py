"""float32 from parts of bfloat16 on the stand-in: Combine A and B split, cuBLAS multiplies."""

from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import BY_ARITHMETIC_ON_GPUS
from falcon._gpu import device, repaired
from reference.float16_split import float16_product
from reference.split import split_product

from ..doors import forget_calls
from .kinds import in_order
from .support import execute, norms_of, on_device, packed_by, whole

KINDS = ["fp16x3", "bf16x6"]


def by(arithmetic, **options):
    return {"arithmetic": arithmetic, "max_growth": 16, **options}


def operands(M, K, N, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(x).astype(np.float32) for x in ((M, K), (K, N)))


def error(c, a, b):
    exact = a.astype(float) @ b.astype(float)
    return np.sqrt(np.mean((c - exact) ** 2) / np.mean(exact**2))


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
@pytest.mark.parametrize("arithmetic", KINDS)
def test_as_accurate_as_predicted(cupy, arithmetic, scheme):
    a, b = operands(150, 300, 120)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    given = by(arithmetic, scheme=scheme)
    plan = falcon.plan(left, right, **given)
    assert plan.operand is BY_ARITHMETIC_ON_GPUS[arithmetic]
    assert plan.label == f"{arithmetic} {scheme}"
    c = cupy.asnumpy(falcon.gemm(left, right, **given))
    classical = error(cupy.asnumpy(falcon.gemm(left, right, scheme="classical")), a, b)
    assert error(c, a, b) < 1.5 * plan.growth * classical
    assert (abs(c - a.astype(float) @ b) <= plan.error_bound(a, b, proved=True)).all()
    np.testing.assert_array_equal(cupy.asnumpy(plan(left, right)), c)
    if arithmetic == "bf16x6" and scheme == "classical":
        np.testing.assert_allclose(c, split_product(a, b), rtol=0, atol=3e-5)
    if arithmetic == "fp16x3" and scheme == "classical":
        np.testing.assert_allclose(c, float16_product(a, b), rtol=0, atol=1e-4)
    assert error(c, a, b) > 0.01 * classical  # of parts: no product by float64 or the like


@pytest.mark.parametrize("scheme", ["classical", "2x4x2:14"])
@pytest.mark.parametrize(("arithmetic", "K"), [("bf16x6", 500), ("fp16x3", 500), ("fp16x3", 4000)])
def test_sums_of_tensor_cores_err_as_planned(cupy, state, arithmetic, K, scheme):
    """They are truncated, so that the largest products are cut along the inner dimension."""
    state.truncates = HOPPER
    a, b = operands(40, K, 40)
    plan = falcon.plan((40, K), (K, 40), "float32", backend="gpu", scheme=scheme, **by(arithmetic))
    c = cupy.asnumpy(plan(*(on_device(cupy, x, "float32") for x in (a, b))))
    assert error(c, a, b) < 1.2 * plan.growth * error(in_order(a, b), a, b)
    assert max(sizes[2] for sizes, *_ in state.products[-1:]) <= 1024
    assert plan.growth > 0.7


# How tensor cores add up, by compute capability: terms at a time, bits beyond float32.
HOPPER, AMPERE = (16, 2), (8, 1)
ADDERS = {(9, 0): HOPPER, (8, 0): AMPERE}


DATA = ["normal", "uniform", "exponential", "lognormal", "relu", "sorted", "sparse", "waves"]
DATA += ["mean", "whole"]


def data(kind, shape, rng):
    """Data that products meet; they change along the longer axis."""
    K, normal, uniform = max(shape), rng.standard_normal(shape), rng.random(shape)
    along = 1 if shape[1] == K else 0
    wave = np.expand_dims(np.sin(np.arange(K) * 2 * np.pi / 250), 1 - along)
    return {
        "normal": normal,
        "uniform": uniform,
        "exponential": rng.exponential(size=shape),
        "lognormal": np.exp(normal),
        "relu": np.maximum(normal, 0),
        "sorted": np.sort(uniform, axis=along),
        "sparse": uniform * (rng.random(shape) < 0.1),
        "waves": 3 * wave + normal,
        "mean": 1000 + normal,
        "whole": np.floor(2048 * uniform),
    }[kind].astype(np.float32)


@pytest.fixture(params=[(9, 0), (8, 0)], ids=["H200", "A100"])
def tensor_cores(request, state):
    """That cut off as a device's do."""
    state.capability, state.truncates = request.param, ADDERS[request.param]
    device.properties.cache_clear()


@pytest.mark.parametrize("K", [300, 1000, 2000])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
@pytest.mark.parametrize("kind", DATA)
def test_data_of_all_kinds_err_as_in_float32(cupy, tensor_cores, kind, K, scheme):
    """At most twice, and without a bias: A's rows are centred."""
    rng = np.random.default_rng(7)
    a, b = data(kind, (24, K), rng), data(kind, (K, 20), rng)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    c = cupy.asnumpy(falcon.gemm(left, right, **by("fp16x3", scheme=scheme)))
    exact = a.astype(float) @ b.astype(float)
    # Schemes add up what is sparse (H200: 2.7 at K = 1024); "auto" takes them from 2048 on.
    most = 2.8 if (kind, scheme) == ("sparse", "strassen") and K < 2000 else 2.0
    assert error(c, a, b) <= most * error(in_order(a, b), a, b)
    bias = np.mean((c - exact) * np.sign(exact)) / np.sqrt(np.mean(exact**2))
    assert abs(bias) < 1e-6


@pytest.mark.parametrize("K", [250, 1000, 2000])
@pytest.mark.parametrize("call", ["gram", "matmul", "gemm", "complex gram"])
@pytest.mark.parametrize("kind", ["normal", "orthonormal"])
def test_sums_of_squares_err_as_in_float32(cupy, tensor_cores, kind, call, K):
    """And without a bias: centring does not shorten those on the diagonal, short pieces do."""
    x = np.random.default_rng(1).standard_normal((K, 24))
    x = (np.linalg.qr(x)[0] if kind == "orthonormal" else x).astype(np.float32)
    array, how = cupy.asarray(x), by("fp16x3")
    if call == "matmul":
        found = falcon.matmul(array.T, array, **how, scheme="strassen")
    elif call == "gemm":
        added = cupy.asarray(np.zeros((24, 24), np.float32))
        found = falcon.gemm(array.T, array, added, beta=1, **how)
    else:  # of complex numbers, the parts are summed as twice as many real ones
        array = array if call == "gram" else cupy.asarray(x[::2] + 1j * x[1::2])
        found = falcon.gram(array, **how)
    exact = (x.astype(float) ** 2).sum(0)
    of_float32, errors = (
        (diagonal - exact) / exact
        for diagonal in (in_order(x.T, x).diagonal(), cupy.asnumpy(found).diagonal().real)
    )
    usual = np.sqrt(np.mean(of_float32**2))
    assert np.sqrt(np.mean(errors**2)) <= 2.0 * usual
    assert abs(errors.mean()) < 1e-6


@pytest.mark.parametrize("order", ["C", "F", "S"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_whole_numbers_stay_exact(cupy, scheme, order):
    """Small ones, whose means are no whole numbers, too."""
    for most, offset, K in ((1, 1, 700), (3, 0, 700), (40, 40, 300), (250, 250, 70)):
        a, b = whole((40, K), 1, most) + offset, whole((K, 30), 2, most) + offset
        left, right = (on_device(cupy, x, "float32", order, 3, 1) for x in (a, b))
        want = a @ b
        c = whole((40, 30), 3, 5)
        packed = falcon.pack(right, **by("fp16x3", scheme=scheme))
        for factor, how in ((right, by("fp16x3", scheme=scheme)), (packed, {})):
            found = falcon.gemm(left, factor, on_device(cupy, c, "float32"), alpha=2, beta=3, **how)
            np.testing.assert_array_equal(cupy.asnumpy(found), 2 * want + 3 * c)
        out = on_device(cupy, c, "float32", "F")
        falcon.gemm(left, right, out, out=out, beta=-1, **by("fp16x3", scheme=scheme))
        np.testing.assert_array_equal(cupy.asnumpy(out), want - c)


def test_sums_that_norms_bound_to_24_bits_are_not_centred(cupy):
    """Means of zeros and ones are fractions, and sums of such products had 7 bits less."""
    a, b = whole((40, 700), 1) % 2, 1000 + whole((700, 30), 2, 1000)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    for factor in (right, falcon.pack(right, **by("fp16x3", scheme="classical"))):
        how = by("fp16x3", scheme="classical") if factor is right else {}
        np.testing.assert_array_equal(cupy.asnumpy(falcon.gemm(left, factor, **how)), a @ b)


def spike(shape, rng):
    x = np.full(shape, 1e-3) * (1 + rng.random(shape))
    x[:, 5] = 1e6
    return x


@pytest.mark.parametrize("case", ["spike", "permutation", "identity", "one-hot"])
def test_lines_that_parts_do_not_hold_are_native(cupy, state, case):
    """Entry by entry: a number that stands for itself keeps its 24 bits."""
    rng, K = np.random.default_rng(3), 200
    a, b = np.eye(K), np.exp(3 * rng.standard_normal((K, 40)))
    if case == "spike":
        a, b = spike((K, K), rng), rng.standard_normal((K, 40))
        b[5] = 0
    elif case == "permutation":
        a = a[rng.permutation(K)]
    elif case == "identity":
        b[5] *= 1e6
    else:
        a, b = a[rng.integers(0, K, 300)], rng.integers(0, 2**24, (K, 40))
    a, b = a.astype(np.float32), b.astype(np.float32)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    found = cupy.asnumpy(falcon.gemm(left, right, **by("fp16x3", scheme="classical")))
    bound = 1e-5 * (abs(a).astype(float) @ abs(b)) if case == "spike" else 0
    assert (abs(found - a.astype(float) @ b) <= bound).all()
    state.products.clear()  # the next products are native
    falcon.gemm(left, right, **by("fp16x3", scheme="classical"))
    assert len(state.products) == 1


@pytest.mark.parametrize("arithmetic", KINDS)
def test_products_of_one_magnitude_are_one_product(cupy, state, arithmetic):
    """The parts lie along the inner dimension; the means are the first, then the smallest."""
    parts = BY_ARITHMETIC_ON_GPUS[arithmetic].splits
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    for scheme, batch, inner in (("classical", 1, 64), ("strassen", 7, 32)):
        state.products.clear()
        falcon.gemm(a, b, scheme=scheme, **by(arithmetic))
        shapes = [((n, n, s * inner), batch) for s in range(parts, 0, -1) for n in (inner,)]
        assert [x[:2] for x in state.products] == [((64, 64, 1), 1), *shapes]
        assert [beta for *_, beta, _ in state.products] == [0.0, 0.0, *[1.0] * (parts - 1)]


@pytest.mark.parametrize("arithmetic", KINDS)
@pytest.mark.parametrize("check", ["finite", "none"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_values_that_parts_cannot_hold(cupy, state, scheme, check, arithmetic):
    """They are repaired, and the problem is native from then on."""
    for value in (np.inf, np.nan, np.finfo(np.float32).max):
        a, b = operands(60, 70, 50)
        a[5, 6] = value
        left, right = (on_device(cupy, x, "float32") for x in (a, b))
        with np.errstate(all="ignore"):
            want = (a.astype(float) @ b.astype(float)).astype(np.float32)
        for native in (False, True):
            state.products.clear()
            found = falcon.gemm(left, right, scheme=scheme, check=check, **by(arithmetic))
            np.testing.assert_allclose(cupy.asnumpy(found), want, rtol=1e-3, atol=1e-3)
            assert (len(state.products) == 1) == native
        repaired._flags.clear()
        forget_calls()


def test_repairs_of_many_chunks_count_together(cupy, state):
    """None of 64 chunks has a 32nd of C; a graph that is captured then does what its plan says."""
    a, b = operands(1024, 16, 1024)
    a[:] = np.nan
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    how = by("fp16x3", scheme="classical", workspace_limit=220_000)
    rows, columns, _ = falcon.plan(left, right, **how).method.layout.chunks
    assert len(rows) * len(columns) >= 64
    counts = []
    for state.capturing in (False, False, True, False):
        state.products.clear()
        assert np.isnan(cupy.asnumpy(falcon.gemm(left, right, **how))).all()
        counts.append(len(state.products))
    assert counts == [counts[0], 1, counts[0], 1]


@pytest.mark.parametrize("packed", [False, True])
def test_sums_of_large_coefficients_are_in_the_range_of_float16(cupy, packed):
    """None overflows, after which it would be repaired, slowly."""
    repaired._flags.clear()
    strassen = falcon.schemes.get("strassen")
    for size in (64, 4096):
        scheme = falcon.Scheme(strassen.U * size, strassen.V * size, strassen.W / size**2, "large")
        a, b = operands(60, 70, 50)
        a[:, 3] *= 1e4  # nearly the norm of its line
        left, right = (on_device(cupy, x, "float32") for x in (a, b))
        given = by("fp16x3", scheme=scheme)
        factor = falcon.pack(right, **given) if packed else right
        found = cupy.asnumpy(falcon.gemm(left, factor, **({} if packed else given)))
        assert (np.abs(found - a.astype(float) @ b) <= 1e-6 * norms_of(a, b).max()).all()
        assert not any(x.take() for x in repaired._flags.values())


@pytest.mark.parametrize("arithmetic", KINDS)
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_lines_of_any_norm_are_multiplied_by_powers_of_two(cupy, state, scheme, arithmetic):
    """Also of norms that would need larger powers: they are repaired."""
    a, b = operands(60, 70, 50)
    every = slice(None)
    for rows, of_a, of_b in ((every, -40, -45), (every, 50, 45), (every, -62, -62),
                             (every, -120, 10), (every, 90, -90), (5, -110, 0)):  # fmt: skip
        x, y = a.copy(), np.ldexp(b, of_b).astype(np.float32)
        x[rows] = np.ldexp(x[rows], of_a)
        if rows == 5 and scheme != "classical":
            continue  # by name, a scheme's error is relative to the largest line
        exact = x.astype(float) @ y.astype(float)
        left, right = (on_device(cupy, z, "float32") for z in (x, y))
        packed = falcon.pack(right, scheme=scheme, **by(arithmetic))
        state.launches.clear()
        for factor in (right, packed):
            how = {} if factor is packed else by(arithmetic, scheme=scheme)
            found = cupy.asnumpy(falcon.gemm(left, factor, **how))
            limit = 3e-6 * np.abs(exact).max(1, keepdims=True)
            assert (np.abs(found - exact) <= limit).all()
    (a, _) = operands(20, 20, 20)
    a[7] = 0
    left = on_device(cupy, a, "float32")
    assert (cupy.asnumpy(falcon.gemm(left, left, **by(arithmetic, scheme=scheme)))[7] == 0).all()


@pytest.mark.parametrize("arithmetic", KINDS)
@pytest.mark.parametrize("tiny", [0, -40])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_uneven_norms_are_scaled_as_for_native_schemes(cupy, tiny, packed, arithmetic):
    """Entry by entry, where "auto" chose the scheme; all lines may be tiny, too."""
    random = np.random.default_rng(0)
    a, b = operands(70, 90, 150)
    a = (a * np.exp2(random.integers(-6, 6, (70, 1)) + tiny)).astype(np.float32)
    b = (b * np.exp2(random.integers(-6, 6, (1, 150)))).astype(np.float32)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    given = by(arithmetic, scheme="strassen@strassen")
    plan = replace(falcon.plan(left, right, **given), guarded=True)
    out = cupy.empty((70, 150), np.float32)
    factor = packed_by(plan, right, **by(arithmetic)) if packed else right
    execute(plan, left, factor, None, out)
    assert (np.abs(cupy.asnumpy(out) - a.astype(float) @ b) <= 1e-6 * norms_of(a, b)).all()
    assert not any(x.take() for x in repaired._flags.values())


@pytest.mark.parametrize("spread", [3, 8])
def test_numbers_of_very_different_size_in_a_line(cupy, spread):
    """What float16 cannot hold beside large numbers is far below the error of the line's norm."""
    random = np.random.default_rng(0)
    a, b = (x * np.exp(spread * random.standard_normal(x.shape)) for x in operands(60, 300, 50))
    a, b = a.astype(np.float32), b.astype(np.float32)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    found = cupy.asnumpy(falcon.gemm(left, right, **by("fp16x3", scheme="classical")))
    exact = a.astype(float) @ b.astype(float)
    assert (np.abs(found - exact) <= 2.0**-20 * norms_of(a, b)).all()


@pytest.mark.parametrize("scheme", ["classical", "strassen", "2x4x2:14"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_packed_operands_hold_parts(cupy, scheme, order):
    b = whole((90, 110), 2, 9)
    packed = falcon.pack(on_device(cupy, b, "float32", order), scheme=scheme, **by("bf16x6"))
    assert packed.arithmetic == "bf16x6"
    assert packed.nbytes >= 6 * 90 * 110
    for M, limit in ((70, None), (33, 120000), (1, None)):
        a = whole((M, 90), M, 9)
        c = falcon.gemm(on_device(cupy, a, "float32"), packed, workspace_limit=limit)
        np.testing.assert_array_equal(cupy.asnumpy(c), a @ b)
    with falcon.config(arithmetic="bf16x6"):  # a setting is not for what was packed without it
        native = falcon.pack(on_device(cupy, b, "float32"), scheme=scheme, arithmetic="native")
        found = falcon.gemm(on_device(cupy, a, "float32"), native)
    np.testing.assert_array_equal(cupy.asnumpy(found), a @ b)


def test_batches_are_multiplied_one_by_one(cupy):
    a, b = whole((3, 20, 30), 1, 9), whole((30, 10), 2, 9)
    left, right = (cupy.asarray(x.astype(np.float32)) for x in (a, b))
    with falcon.config(arithmetic="bf16x6"):
        np.testing.assert_array_equal(cupy.asnumpy(falcon.matmul(left, right)), a @ b)


def test_what_it_does_not_fit_is_said(cupy):
    a = on_device(cupy, whole((20, 20), 1), "float64")
    for name in ("bf16x6", "fp16x3", "tf32"):
        with pytest.raises(TypeError, match=f"'{name}' multiplies float32 to float32, not float64"):
            falcon.gemm(a, a, arithmetic=name)
        with falcon.config(arithmetic=name):  # a setting is for the products that it fits
            assert falcon.plan(a, a).method.arithmetic is None
    x = on_device(cupy, whole((20, 20), 1), "float32")
    with pytest.raises(TypeError, match="'bf16x3' is for matrices in host memory"):
        falcon.gemm(x, x, arithmetic="bf16x3")
    with pytest.raises(ValueError, match="workspace_limit is 1000 bytes"):
        falcon.gemm(x, x, arithmetic="bf16x6", workspace_limit=1000)


def test_an_error_that_is_named_allows_tf32(cupy):
    for error, is_able in ((1e-2, True), (1e-4, False)):
        plan = falcon.plan((600, 600), (600, 600), "float32", backend="gpu", error=error)
        names = {x.method.arithmetic.name for x in plan.candidates if x.method.arithmetic}
        assert ("tf32" in names) is is_able
        assert "tf32" in plan.explain()
    x = on_device(cupy, whole((600, 600), 1), "float32")
    with pytest.raises(ValueError, match="error is 1e-09; the largest of"):
        falcon.gemm(x, x, error=1e-9)
    with falcon.config(error=1e-9):
        assert falcon.plan(x, x).method.arithmetic is None
