"""The whole backend on the stand-in: every kernel that is launched is the generated CUDA source.

Whole numbers make every scheme exact, so results must match the reference bit for bit.
"""

import gc
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon._gpu import cublas, geometry, kernels, layout
from falcon.codegen.cuda_plan import products
from reference.lcma import lcma

from .support import DTYPES, kind, on_device, whole

# A scheme with fractional coefficients: Strassen with its first product halved and doubled.
STRASSEN = falcon.schemes.get("strassen")
U, W = STRASSEN.U.astype(object), STRASSEN.W.astype(object)
U[0], W[0] = U[0] * Fraction(1, 2), W[0] * 2
HALVES = falcon.Scheme(U, STRASSEN.V, W, "strassen-halves")

SCHEMES = ["winograd", "2x5x3:25", "3x3x3:23", "strassen@strassen", HALVES]


def scheme_of(x):
    return falcon.schemes.get(x) if isinstance(x, str) else x


def unrepaired(scheme):
    """Options without repair: NaN stays where a kernel wrote nothing or read outside."""
    return {"scheme": scheme, "check": "none"}


def expected(a, b, scheme, dtype):
    """By the readable reference, in float64; rounded once, as Combine H does."""
    return lcma(*(x.astype(float) for x in (a, b)), scheme.U, scheme.V, scheme.W).astype(
        kind(dtype)
    )


@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [
        *((x, y) for x in ("strassen", "2x4x2:14") for y in DTYPES),
        *((x, y) for x in SCHEMES for y in ("float32", "bfloat16")),
        # Programs without shared sums, and narrow vectors.
        *((x, "bfloat16") for x in ("5x5x5:93", "4x4x4:49")),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_matches_the_reference(cupy, scheme, dtype):
    scheme = scheme_of(scheme)
    m, k, n = scheme.format
    # One size leaves an edge in every dimension, the other one divides into whole sectors.
    for M, K, N in ((9 * m + 1, 9 * k + 1, 21 * n + 1), (16 * m, 16 * k, 144 * n)):
        a, b = whole((M, K), M), whole((K, N), N)
        c = falcon.gemm(*(on_device(cupy, x, dtype) for x in (a, b)), **unrepaired(scheme))
        assert c.dtype == kind(dtype)
        np.testing.assert_array_equal(cupy.asnumpy(c), expected(a, b, scheme, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("name", falcon.schemes.names())
def test_whole_catalogue(cupy, name):
    """Edges guarded, and a part that vectors reach."""
    scheme = falcon.schemes.get(name)
    m, k, n = scheme.format
    a, b = whole((5 * m + 1, 33 * k + 1), 1), whole((33 * k + 1, 132 * n), 2)
    c = falcon.gemm(*(on_device(cupy, x, "float32") for x in (a, b)), **unrepaired(scheme))
    np.testing.assert_array_equal(cupy.asnumpy(c), expected(a, b, scheme, "float32"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_stop_where_the_last_blocks_do(cupy, dtype, order):
    """Tiles that fit in a block but not in the last one; NaN between the rows stay."""
    ld = 512 if kind(dtype).itemsize == 2 else 256
    size = ld - 8
    a, b = whole((size, size), 1), whole((size, size), 2)
    memory = cupy.empty((size, ld), kind(dtype))
    out = memory[:, :size] if order == "C" else memory[:, :size].T
    operands = (on_device(cupy, x, dtype, order, gap=ld - size) for x in (a, b))
    falcon.gemm(*operands, out=out, **unrepaired("strassen"))
    np.testing.assert_array_equal(cupy.asnumpy(out), (a @ b).astype(kind(dtype)))
    gap = np.ascontiguousarray(cupy.asnumpy(memory)[:, size:])
    assert (gap.view(np.uint8) == 0xFF).all()


@pytest.mark.parametrize(
    ("shape", "order"),
    [((64, 64, 1600), "C"), ((64, 1600, 64), "C"), ((64, 1600, 64), "F"), ((1600, 64, 64), "F")],
)
def test_vectors_stop_where_a_chunk_does(cupy, shape, order):
    """Chunks of 400 of every block's 800 elements: the last tile of 128 would leave the chunk."""
    M, K, N = shape
    a, b = whole((M, K), 1), whole((K, N), 2)
    left, right = (on_device(cupy, x, "float32", order) for x in (a, b))
    out = on_device(cupy, np.zeros((M, N)), "float32", order)
    limit = falcon.plan(left, right, scheme="strassen").workspace * 2 // 3
    plan = falcon.plan(left, right, scheme="strassen", workspace_limit=limit)
    assert sorted(plan.method.layout.chunk) == [32, 32, 400]
    falcon.gemm(left, right, out=out, workspace_limit=limit, **unrepaired("strassen"))
    np.testing.assert_array_equal(cupy.asnumpy(out), a @ b)


def test_products_that_share_a_plane(cupy, state):
    """<2,4,2;14> is Strassen twice along K: seven planes, one product call with twice the K."""
    scheme = falcon.schemes.get("2x4x2:14")
    assert [x.length for x in products(scheme).groups] == [2]
    a, b = whole((64, 64), 1), whole((64, 64), 2)
    falcon.gemm(*(on_device(cupy, x, "float32") for x in (a, b)), scheme=scheme)
    assert state.products == [((32, 32, 32), 7, 0.0, "32F")]


def test_compute_types(cupy, state):
    def multiply(dtype):
        operands = [on_device(cupy, whole((32, 32), x), dtype) for x in (1, 2)]
        falcon.gemm(*operands, scheme="strassen")
        return state.products[-1][3]

    assert multiply("float32") == multiply("float16") == multiply("bfloat16") == "32F"
    assert multiply("float64") == "64F"
    with falcon.config(arithmetic="tf32"):
        assert multiply("float32") == "32F_FAST_TF32"
        assert multiply("float64") == "64F"
        assert multiply("bfloat16") == "32F"


def test_handles_are_falcons_own_and_used_again(cupy, state):
    """One for a thread and device: of the copy of cuBLAS that is called, whoever loaded it."""
    given = [on_device(cupy, whole((32, 32), x), "float32") for x in (1, 2)]

    def multiply():
        falcon.gemm(*given, scheme="strassen")

    for _ in range(3):
        thread = threading.Thread(target=multiply)
        thread.start()
        thread.join()
    multiply()
    multiply()
    assert state.handles in (1, 2)  # that of a thread that has ended is taken again


def test_errors_of_cublas_are_told(cupy, monkeypatch):
    a = on_device(cupy, whole((32, 32), 1), "float32")
    falcon.gemm(a, a, scheme="classical")
    monkeypatch.setattr(cublas._of_thread.of_device[0], "pointer", 5)
    with pytest.raises(RuntimeError, match="cuBLAS failed: the library was not init"):
        falcon.gemm(a, a, scheme="classical")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("resident", [1, 2**20])
def test_each_region_has_its_mark(cupy, doors, order, resident):
    """Blocks of several regions along both axes; non-finite values are in the later ones."""
    doors.numbers(resident=resident)
    M, K, N = 300, 20, 310
    a, b = whole((M, K), 1).astype(float), whole((K, N), 2).astype(float)
    a[140, 3], b[5, 300] = np.nan, np.inf
    block = layout.block_sizes(M, N, K, STRASSEN)
    assert block[0] > 2 * geometry.REGION_MAJOR
    assert block[1] > geometry.REGION_MINOR
    with np.errstate(all="ignore"):
        exact = a @ b
    out = on_device(cupy, np.zeros((M, N)), "float32", order)
    falcon.gemm(*(on_device(cupy, x, "float32", order) for x in (a, b)), out=out, scheme=STRASSEN)
    np.testing.assert_array_equal(cupy.asnumpy(out), exact)


def test_packed_operands(cupy, monkeypatch):
    """Products combine A alone."""
    combine = kernels.combine
    b = whole((90, 110), 2)
    for scheme in ("strassen", "2x5x3:25", "classical"):
        for order in "CFS":
            right = on_device(cupy, b, "bfloat16", order)
            packed = falcon.pack(right, scheme=scheme)
            assert (packed.nbytes > 0) == (scheme != "classical")
            with monkeypatch.context() as m:
                m.setattr(kernels, "combine", lambda *x: combine(*x) if x[3] is None else 1 / 0)
                for M, limit in ((70, None), (33, 60000), (1, None)):
                    a = whole((M, 90), M)
                    left = on_device(cupy, a, "bfloat16")
                    c = falcon.gemm(left, packed, workspace_limit=limit, check="none")
                    np.testing.assert_array_equal(cupy.asnumpy(c), (a @ b).astype(kind("bfloat16")))
    stacked = on_device(cupy, whole((6, 90), 4), "bfloat16").reshape(2, 3, 90)
    assert falcon.matmul(stacked, packed).shape == (2, 3, 110)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_packed_operand_is_freed_behind_its_uses(cupy, state, elsewhere):
    """Pools hand memory out again in the order of the stream in which it was allocated."""
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    packed = falcon.pack(b, scheme="strassen")
    state.current = 8 if elsewhere else 7
    for _ in range(2):
        falcon.gemm(a, packed)
    assert state.waits == []
    state.device = 1  # the null stream is that of the current device
    del packed
    gc.collect()
    assert (state.waits, state.device) == ([(0, 7, 8)] if elsewhere else [], 1)


def test_alpha_overflows_no_sum(cupy):
    """Alpha times A would leave float16; alpha times the product does not."""
    a, b = np.full((40, 40), 3000.0), np.zeros((40, 40))
    np.fill_diagonal(b, 2.0**-6)
    operands = [on_device(cupy, x, "float16") for x in (a, b)]
    for scheme in ("strassen", "classical"):
        c = falcon.gemm(*operands, alpha=64.0, scheme=scheme)
        np.testing.assert_array_equal(cupy.asnumpy(c), np.float16(3000))


def test_random_data_rounds_as_predicted(cupy):
    """RMS errors against float64 stay near the predicted growth over the classical product."""
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 256, 256))
    for dtype in ("float32", "bfloat16"):
        left, right = (on_device(cupy, x, dtype) for x in (a, b))
        exact = cupy.asnumpy(left).astype(float) @ cupy.asnumpy(right).astype(float)

        def error(scheme, left=left, right=right, exact=exact):
            found = cupy.asnumpy(falcon.gemm(left, right, scheme=scheme)).astype(float)
            return np.sqrt(np.mean((found - exact) ** 2))

        growth = falcon.plan(left, right, scheme="strassen").growth
        assert error("strassen") < 1.6 * growth * error("classical"), dtype


def test_launches_are_few(cupy, state):
    a, b = (on_device(cupy, whole((64, 64), x), "float32") for x in (1, 2))
    falcon.gemm(a, b, scheme="strassen")
    names = [name.removeprefix("falcon_").rsplit("_strassen")[0] for name in state.launches]
    assert names == ["combine", "combine_h", "repair_float32_float32"]
    state.launches.clear()
    falcon.gemm(a, b, scheme="strassen", check="none")
    assert len(state.launches) == 2
    for x in (state.launches, state.fills, state.products):
        x.clear()
    replace(falcon.plan(a, b, scheme="strassen"), guarded=True)(a, b)
    assert [len(x) for x in (state.launches, state.fills, state.products)] == [6, 1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_below_the_least_size_a_call_is_one_product(cupy, state, dtype):
    """ "auto" measures nothing there, and neither looks at norms nor takes a workspace."""
    a = on_device(cupy, whole((1023, 1024), 1), dtype)
    b = on_device(cupy, whole((1024, 1023), 2), dtype)
    out = cupy.empty((1023, 1023), kind(dtype))
    held = state.allocated
    for _ in range(2):  # planned, then from the record
        state.products.clear()
        falcon.gemm(a, b, out=out)
        assert [batch for _, batch, *_ in state.products] == [1]
    assert (state.launches, state.fills, state.timed) == ([], [], set())
    assert state.allocated == held


@pytest.mark.parametrize("gap", [0, 1, 3])
def test_c_is_added_to_a_single_row_by_columns(cupy, gap):
    """It is copied without gaps, and its entries are then neighbours both ways."""
    a, b, c = whole((1, 7), 1, 9), whole((7, 5), 2, 9), whole((1, 5), 3, 9)
    out = on_device(cupy, c, "float32", "F", gap=gap)
    operands = (on_device(cupy, x, "float32") for x in (a, b))
    falcon.gemm(*operands, out, beta=-3.0, out=out, scheme=STRASSEN)
    np.testing.assert_array_equal(cupy.asnumpy(out), a @ b - 3 * c)
