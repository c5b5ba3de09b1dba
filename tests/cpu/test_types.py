"""Types without a BLAS: the engine through the binding, and falcon's own calls.

Integers bit for bit as NumPy wraps them; float16 and bfloat16 with sums in float32, rounded once.
"""

import ml_dtypes
import numpy as np
import pytest

import falcon
from falcon._core.dtypes import ENGINE, PAIRS, dtype_of
from falcon._cpu import _core, extension
from falcon._cpu.programs import engine_scheme
from falcon._cpu.rounding import coefficients, summable, why_classical_only
from falcon.schemes import get, names

from ..contract.places import laid
from . import emulated
from .support import gemm, layout, pack, run_script

BF16 = np.dtype(ml_dtypes.bfloat16)
TYPES = [x for x in ENGINE if not x.has_blas]
FLOATS = [x for x in TYPES if not x.is_exact]
INT64_BY_FLOAT64 = [x for x in TYPES if x.is_exact]
WIDE = [*(x for x in INT64_BY_FLOAT64 if x.wide), *PAIRS]
# Every kernel once: types with the instruction sets that have one of their own for them.
KERNELS = [
    pytest.param(x, isa, id=f"{isa}-{x}")
    for x in (*TYPES, *PAIRS)
    if x in PAIRS or x.engine == f"u{8 * x.itemsize}" or not x.is_unsigned  # wrap as signed ones
    for isa in _core.supported_isas()
    if _core.kernel_info(x.engine, isa)["isa"] == isa
]
EMULATED = [
    pytest.param(x, kind, id=f"{kind} kernels-{x}")
    for x in (*TYPES, *PAIRS)
    for kind in emulated.USED
    if x.engine in emulated.KINDS[kind]
]
KERNELS += EMULATED


def over(kernels):
    return pytest.mark.parametrize(("row", "isa"), kernels, indirect=["isa"])


every_kernel = over(KERNELS)
every_rounding_kernel = over([x for x in KERNELS if not x.values[0].is_exact])
# Integers by the best kernels, and by emulated ones.
every_integer = over(
    [pytest.param(x, None, id=str(x)) for x in INT64_BY_FLOAT64]
    + [x for x in EMULATED if x.values[0] in INT64_BY_FLOAT64]
)
SHAPES = [(1, 1, 1), (3, 5, 2), (37, 41, 67), (64, 1, 129), (1, 70, 33), (130, 97, 611)]
SHAPES += [(70, 1, 2000), (1, 300, 1500)]
INTEGRAL = [x for x in names() if get(x).is_integral]


def draw(rng, row, shape):
    """Small whole numbers, whose sums of products are exact; integers of all sizes, which wrap."""
    if row.is_exact:
        return rng.integers(0, 256, (*shape, row.itemsize), np.uint8).view(row.numpy)[..., 0]
    return rng.integers(-2, 3, shape).astype(row.numpy)


def whole_product(a, b):
    """The product modulo 2^64, or of small whole numbers."""
    return a.astype(np.int64) @ b.astype(np.int64)


def rounded(x, dtype):
    """Whole numbers converted to the dtype: wrapped, or by way of float32."""
    return x.astype(dtype) if dtype_of(dtype).is_exact else x.astype(np.float32).astype(dtype)


def multiply(a, b, c, *, packed=False, isa=None, scheme=None, **options):
    engine = engine_scheme(None if scheme is None else get(scheme))
    if packed:
        options["packed"] = pack(b, isa=isa, scheme=engine)
    gemm(a, b, c, isa=isa, scheme=engine, **options)
    return c


def wide(row):
    """The type of accumulators."""
    return np.dtype(np.int64 if row.itemsize == 8 else np.int32 if row.is_exact else np.float32)


@every_kernel
@pytest.mark.parametrize("is_wide", [False, True], ids=["C", "C of accumulators"])
@pytest.mark.parametrize("layout", ["rows", "columns", "strided", "reversed"])
def test_classical_is_exact_and_rounds_once(row, isa, layout, is_wide):
    rng = np.random.default_rng(5)
    c_type = wide(row) if is_wide else row.result.numpy
    pick = extremes if row in PAIRS and is_wide else draw
    for M, N, K in SHAPES:
        a, b = (laid(pick(rng, *x), layout) for x in ((row.left, (M, K)), (row.right, (K, N))))
        old = rng.integers(0, 3, (M, N)).astype(c_type)
        exact = 2 * whole_product(a, b) - old.astype(np.int64)
        for packed in (False, True):  # by the kernel of the right type
            c = laid(old, layout)
            multiply(a, b, c, alpha=2.0, beta=-1.0, threads=2, isa=isa, packed=packed)
            np.testing.assert_array_equal(c, rounded(exact, c_type))


@every_rounding_kernel
def test_every_value_is_converted_and_rounded_to_nearest_even(row, isa):
    """Products by 1 and by a factor that needs rounding; subnormals are 0 for bfloat16's own
    instructions alone."""
    every = np.arange(2**16, dtype=np.uint16).view(row.numpy).reshape(-1, 1)
    one, c = np.ones((1, 33), row.numpy), np.empty((2**16, 33), row.numpy)
    alpha = np.float32(1.2345678)
    multiply(every, one, c, alpha=float(alpha), isa=isa)
    with np.errstate(all="ignore"):
        value = every.astype(np.float32)[:, 0]
        want = (value * alpha).astype(row.numpy)
    flushed = (abs(value) < np.finfo(np.float32).tiny) & isa.endswith("_bf16")
    for column in (0, 32):
        got = c[:, column].astype(np.float32)
        np.testing.assert_array_equal(got[~flushed], want[~flushed].astype(np.float32))
        assert (got[flushed] == 0).all()


@pytest.mark.parametrize("scheme", INTEGRAL)
@every_integer
def test_integer_schemes_wrap_as_numpy_does(row, isa, scheme):
    rng = np.random.default_rng(6)
    a, b = draw(rng, row, (61, 83)), draw(rng, row, (83, 71))
    exact = rounded(whole_product(a, b), row.numpy)
    for packed in (False, True):
        c = np.empty((61, 71), row.numpy)
        multiply(a, b, c, scheme=scheme, packed=packed, threads=2, isa=isa)
        np.testing.assert_array_equal(c, exact)


def extremes(rng, row, shape):
    """The least and the largest number of a type, in any mixture."""
    info = np.iinfo(row.numpy)
    return np.where(rng.integers(0, 2, shape, bool), info.min, info.max).astype(row.numpy)


@pytest.mark.parametrize("scheme", INTEGRAL)
@pytest.mark.parametrize("row", WIDE, ids=str)
def test_accumulators_are_exact_with_every_scheme_that_has_room(row, scheme):
    """Of 8 bits in panels of 16; where sums do not fit, the front casts the operands instead."""
    rng = np.random.default_rng(14)
    a, b = extremes(rng, row.left, (61, 83)), extremes(rng, row.right, (83, 71))
    exact = whole_product(a, b).astype(np.int32)
    here, known = _core.supported_isas(), get(scheme)
    found = [isa for isa in here if why_classical_only(row, known, isa) is None]
    assert bool(found) == (row.itemsize == 1)  # the portable kernels have panels of 16 bits
    for isa in found:
        for packed in (False, True):
            c = np.empty((61, 71), np.int32)
            multiply(a, b, c, scheme=scheme, isa=isa, packed=packed, threads=2)
            np.testing.assert_array_equal(c, exact)


@pytest.mark.parametrize("row", WIDE, ids=str)
def test_the_room_for_sums_is_what_panels_hold(row):
    info = [np.iinfo(x.numpy) for x in (row.left, row.right)]
    ends = [end for x in info for end in (x.min, x.max)]
    for isa in _core.supported_isas():
        room, bits = summable(row, isa), 8 * _core.kernel_info(row.engine, isa)["panel"]
        if room == 1:
            assert bits == 8 * row.itemsize  # elements alone
            continue
        for end in ends:
            assert all(-(2 ** (bits - 1)) <= x < 2 ** (bits - 1) for x in (room * end, -room * end))
        assert room >= max(coefficients(get(x)) for x in INTEGRAL)


def test_schemes_by_name_with_wide_results():
    """Where the range is not proved the operands are cast: exact with any instruction set."""
    code = """
import numpy as np, falcon
rng = np.random.default_rng(0)
for kind in ("int8", "uint8", "int16", "uint8 x int8", "int8 x uint8"):
    kinds = (kind.split(" x ") * 2)[:2]
    a, b = (rng.integers(np.iinfo(x).min, np.iinfo(x).max, (90, 90), x, endpoint=True)
            for x in kinds)
    exact = (a.astype("i8") @ b.astype("i8")).astype("i4")
    for scheme in ("strassen", "winograd", "3x3x3:23", "strassen@strassen"):
        found = falcon.gemm(a, b, scheme=scheme, dtype="int32")
        np.testing.assert_array_equal(found, exact)
        plan = falcon.plan(a, b, "int32", scheme=scheme)
        assert plan.scheme is not None
        print(kind, "as", plan.problem.operand)
"""
    for forced in _core.supported_isas():
        said = run_script(code, FALCON_ISA=forced).split("\n")
        for row in WIDE:
            operand = row if summable(row, forced) > 1 else "int32"
            assert said.count(f"{row} as {operand}") == 4


@pytest.mark.parametrize("row", FLOATS, ids=str)
@pytest.mark.parametrize("is_wide", [False, True], ids=["", "float32"])
@pytest.mark.parametrize("scheme", [None, "strassen", "winograd", "strassen@strassen"])
def test_growth_is_predicted_within_a_factor_of_two(row, scheme, is_wide):
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(x).astype(row.numpy) for x in ((1024, 1024), (1024, 1024)))
    exact = a.astype(float) @ b.astype(float)
    given = {"backend": "cpu", "dtype": np.float32 if is_wide else None}

    def error(c):
        return np.sqrt(np.mean((c.astype(float) - exact) ** 2))

    plan = falcon.plan(a, b, scheme=scheme or "classical", **given)
    run_as = plan.problem.operand.numpy  # float32 for sums of bfloat16 that must not be rounded
    classical = error(falcon.gemm(a.astype(run_as), b.astype(run_as), scheme="classical", **given))
    found = error(falcon.gemm(a, b, scheme=scheme or "classical", **given)) / classical
    assert plan.growth / 2 < found < 2 * plan.growth, (found, plan.growth)


def test_sums_beyond_float16_overflow_at_the_end_alone():
    """They are formed in float32; an element of C overflows when it is written."""
    large = np.full((40, 64), 256, np.float16)
    signs = np.where(np.arange(64) < 32, 256, -256).astype(np.float16)[:, None]
    there_and_back = falcon.gemm(large, np.repeat(signs, 40, 1), backend="cpu")
    np.testing.assert_array_equal(there_and_back, 0)
    for scheme in ("classical", "strassen"):
        given = {"backend": "cpu", "scheme": scheme}
        assert np.isposinf(falcon.gemm(large, large.T, **given)).all()
        wide = falcon.gemm(large, large.T, dtype=np.float32, **given)
        np.testing.assert_array_equal(wide, 64 * 2.0**16)
        less = falcon.gemm(large, large.T, alpha=2.0**-8, **given)
        np.testing.assert_array_equal(less, 64 * 2.0**8)


@pytest.mark.parametrize("row", FLOATS, ids=str)
def test_subnormals(row):
    """Kept, except by VDPBF16PS, which takes them for 0; so do schemes."""
    tiny, one = row.finfo.smallest_subnormal, np.ones((48, 40), row.numpy)
    a = np.full((50, 48), 3 * float(tiny)).astype(row.numpy)
    flushed = _core.kernel_info(row.engine, extension.isa())["isa"].endswith("_bf16")
    for scheme in ("classical", "strassen"):
        found = falcon.gemm(a, one, scheme=scheme, dtype=np.float32, backend="cpu")
        want = 0 if flushed and scheme == "classical" else 48 * 3 * float(tiny)
        np.testing.assert_array_equal(found.astype(float), want)


def test_c_is_rounded_once_however_long_k_is():
    """Passes over K would each round a C of bfloat16; a C of float32 may be cut."""
    rng = np.random.default_rng(8)
    M, N, K = 32, 48, 40_000
    cut = {"limit": 1 << 18, "threads": 1}
    narrow, wider = (_core.plan(M, N, K, "bf16", c_wide=x, **cut) for x in (False, True))
    assert narrow.chunks[2] == K > wider.chunks[2]
    a, b = (rng.standard_normal(x).astype(BF16) for x in ((M, K), (K, N)))
    c = multiply(a, b, np.empty((M, N), BF16), **cut)
    sums = multiply(a, b, np.empty((M, N), np.float32))
    np.testing.assert_array_equal(c, sums.astype(BF16))
    again = multiply(a, b, np.empty((M, N), np.float32), **cut)
    assert np.abs(again - sums).max() < 1e-5 * np.abs(sums).max()


def test_the_instruction_set_is_chosen_per_type():
    for isa in _core.supported_isas():
        for row in ENGINE:
            found = _core.kernel_info(row.engine, isa)["isa"]
            assert _core.ISA_NAMES.index(found) <= _core.ISA_NAMES.index(isa)


# --- falcon's own calls ---------------------------------------------------------------------------


@pytest.mark.parametrize("row", TYPES, ids=str)
def test_falcons_kernels_are_the_plan_at_any_size(row):
    for size in (8, 64, 200):
        assert falcon.plan((size, size), (size, size), row.numpy).backend.name == "cpu"


# --- uint8 by int8, and int8 by uint8 --------------------------------------------------------


@over([x for x in KERNELS if x.values[0] in PAIRS])
def test_panels_of_two_types_are_those_of_bs_own(row, isa):
    own, found = _core.kernel_info(row.right.engine, isa), _core.kernel_info(row.engine, isa)
    for what in ("isa", "nr", "vlen", "kr", "kc", "panel", "acc"):
        assert found[what] == own[what]


@pytest.mark.parametrize("row", PAIRS, ids=str)
def test_a_c_of_elements_of_two_types_is_refused(row):
    a, b = np.ones((4, 4), row.left.numpy), np.ones((4, 4), row.right.numpy)
    planned = layout(a, b, np.ones((4, 4), np.int32))
    for c in (a.copy(), b.copy(), np.ones((4, 4))):
        with pytest.raises(ValueError, match="c does not fit"):
            _core.gemm(planned, a, b, c)
    with pytest.raises(ValueError, match="b does not fit"):
        _core.gemm(planned, a, np.ones((4, 4), np.int16), np.ones((4, 4), np.int32))
    with pytest.raises(ValueError, match="write their accumulators alone"):
        _core.plan(4, 4, 4, row.engine)


def test_a_packed_scheme_without_room_for_the_other_type_is_refused():
    """Sums of 142 elements of int8 fit 16 bits, of uint8 they do not."""
    code = """
import numpy as np, falcon
from falcon.schemes import Scheme, get
s, p = get("strassen"), np.array([[1, 70], [0, 1]])
inverse = np.array([[1, -70], [0, 1]])
steep = Scheme(s.U @ p.T, inverse.T @ s.V, s.W, "steep")
rng = np.random.default_rng(0)
a, b = rng.integers(0, 256, (40, 40), np.uint8), rng.integers(-128, 128, (40, 40), np.int8)
packed = falcon.pack(b, dtype="int32", scheme=steep)
assert packed.panels == np.int8, packed
exact = b.astype("i4") @ b.astype("i4")
np.testing.assert_array_equal(falcon.gemm(b, packed), exact)
try:
    falcon.gemm(a, packed)
except TypeError as error:
    print(error)
np.testing.assert_array_equal(
    falcon.gemm(a, b, dtype="int32", scheme=steep), a.astype("i4") @ b.astype("i4"))
"""
    said = run_script(code, FALCON_ISA="generic")
    for words in ("a has dtype uint8", "products of int8 in int32", "steep adds up", "pack a b"):
        assert words in said
