"""bfloat16 through the whole engine: panels, classical, LCMAs, packed B, vectors, both forms of C.

Through the binding, which sees bfloat16 as uint16.
"""

import ml_dtypes
import numpy as np
import pytest

from falcon.schemes import get, names

from .support import require_cpu

require_cpu()
from falcon._cpu import _core  # noqa: E402  (absent where the extension is)
from falcon._cpu.programs import engine_scheme  # noqa: E402

BF16 = ml_dtypes.bfloat16
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: np.asfortranarray(x),
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
}
every_isa = pytest.mark.parametrize("isa", _core.supported_isas())
SHAPES = [(1, 1, 1), (3, 5, 2), (37, 41, 67), (64, 1, 129), (1, 70, 33), (130, 97, 611)]


def bits(x):
    """As the binding takes it."""
    return x.view(np.uint16) if x.dtype == BF16 else x


def is_integer(scheme):
    return all((x == np.round(x)).all() for x in (scheme.U, scheme.V, scheme.W))


def multiply(a, b, c, *, packed=False, isa=None, scheme=None, **options):
    engine = engine_scheme(None if scheme is None else get(scheme))
    if packed:
        options["packed"] = _core.pack_b(bits(b), isa=isa, scheme=engine)
    _core.gemm(bits(a), None if packed else bits(b), bits(c), isa=isa, scheme=engine, **options)
    return c


def whole(rng, shape, layout="rows", most=2):
    return LAYOUTS[layout](rng.integers(-most, most + 1, shape).astype(BF16))


@every_isa
@pytest.mark.parametrize("c_type", [BF16, np.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_classical_rounds_exact_sums_once(isa, layout, c_type):
    rng = np.random.default_rng(5)
    for M, N, K in SHAPES:
        a, b = whole(rng, (M, K), layout), whole(rng, (K, N), layout)
        old = whole(rng, (M, N)).astype(c_type)
        exact = 2 * (a.astype(int) @ b.astype(int)) - old.astype(int)
        for packed in (False, True):
            c = LAYOUTS[layout](old.copy())
            multiply(a, b, c, alpha=2.0, beta=-1.0, threads=2, isa=isa, packed=packed)
            np.testing.assert_array_equal(c, exact.astype(np.float32).astype(c_type))


@pytest.mark.parametrize("scheme", [x for x in names() if is_integer(get(x))])
def test_integer_schemes_are_exact_on_small_integers(scheme):
    rng = np.random.default_rng(6)
    a, b = whole(rng, (61, 83), most=1), whole(rng, (83, 71), most=1)
    exact = a.astype(int) @ b.astype(int)
    for packed in (False, True):
        c = multiply(a, b, np.empty((61, 71), np.float32), scheme=scheme, packed=packed, threads=2)
        np.testing.assert_array_equal(c, exact)


@pytest.mark.parametrize("scheme", [None, "strassen", "winograd", "strassen@strassen"])
def test_sums_are_rounded_once_to_bfloat16(scheme):
    """As the oracle does it: sums in float32, rounded to bfloat16; products in float32."""
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(x).astype(BF16) for x in ((128, 192), (192, 160)))
    c = multiply(a, b, np.empty((128, 160), np.float32), scheme=scheme)
    exact = a.astype(float) @ b.astype(float)
    error = np.sqrt(np.mean((c - exact) ** 2) / np.mean(exact**2))
    if scheme is None:
        assert error < 1e-6  # nothing is rounded to bfloat16
    else:
        assert 2**-10 < error < 2**-8 * get(scheme).rms_growth


def test_c_is_rounded_once_however_long_k_is():
    """Passes over K would each round a C of bfloat16; a C of float32 may be cut."""
    rng = np.random.default_rng(8)
    M, N, K = 32, 48, 40_000
    cut = {"limit": 1 << 18, "threads": 1}
    narrow, _ = _core.plan(M, N, K, "bf16", **cut)
    wide, _ = _core.plan(M, N, K, "bf16", c_wide=True, **cut)
    assert narrow[2] == K > wide[2]
    a, b = (rng.standard_normal(x).astype(BF16) for x in ((M, K), (K, N)))
    c = multiply(a, b, np.empty((M, N), BF16), **cut)
    sums = multiply(a, b, np.empty((M, N), np.float32))
    np.testing.assert_array_equal(c, sums.astype(BF16))
    again = multiply(a, b, np.empty((M, N), np.float32), **cut)
    assert np.abs(again - sums).max() < 1e-5 * np.abs(sums).max()


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_is_not_finite_is_reported(value):
    a, b = np.ones((40, 50), BF16), np.ones((50, 30), BF16)
    assert _core.gemm(bits(a), bits(b), bits(np.empty((40, 30), BF16)), report=True)
    a[3, 4] = b[4, 5] = value
    assert not _core.gemm(bits(a), bits(b), bits(np.empty((40, 30), BF16)), report=True)


def test_the_instruction_set_is_chosen_per_type():
    for isa in _core.supported_isas():
        assert _core.kernel_info("f32", isa)["isa"] == isa
        assert _core.kernel_info("bf16", isa)["isa"] in _core.supported_isas()


def test_wrong_types_of_c_are_refused():
    a = bits(np.ones((4, 4), BF16))
    with pytest.raises(ValueError, match="c does not fit"):
        _core.gemm(a, a, np.empty((4, 4)))
