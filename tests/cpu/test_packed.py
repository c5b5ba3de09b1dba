"""`falcon.pack`: one right operand, prepared once and used by many products and threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import falcon
from falcon import schemes
from falcon._cpu import _core, programs

from .support import gemm, pack, same_bits, whole


def test_one_packed_operand_from_many_threads():
    rng = np.random.default_rng(6)
    b = rng.standard_normal((300, 200))
    packed = falcon.pack(b, scheme="strassen", backend="cpu")
    lefts = [rng.standard_normal((M, 300)) for M in (1, 50, 170, 300, 433)] * 4
    expected = [falcon.gemm(a, packed, threads=1) for a in lefts]
    with ThreadPoolExecutor(8) as workers:
        for _ in range(3):
            got = list(workers.map(lambda a: falcon.gemm(a, packed, threads=2), lefts))
            assert all(same_bits(x, y) for x, y in zip(got, expected, strict=True))


def test_errors_name_what_does_not_fit():
    packed = falcon.pack(np.ones((6, 5)), scheme="strassen", backend="cpu")
    a = np.ones((4, 6))
    with pytest.raises(TypeError, match="would be float64, but b was packed for float32"):
        falcon.gemm(a, falcon.pack(np.ones((6, 5)), dtype="f4", backend="cpu"))
    with pytest.raises(TypeError, match="would be complex128, but b was packed for float64"):
        falcon.gemm(a.astype(complex), packed)
    with pytest.raises(TypeError, match="would be complex128"):
        falcon.gemm(a, packed, np.ones((4, 5), complex), beta=1.0)
    with pytest.raises(ValueError, match="backend is 'numpy', but b was packed for 'cpu'"):
        falcon.gemm(a, packed, backend="numpy")
    for scheme in ("classical", "winograd", schemes.get("3x3x3:23")):
        with pytest.raises(ValueError, match="for strassen on backend cpu"):
            falcon.gemm(a, packed, scheme=scheme)
    with pytest.raises(ValueError, match="nonsense"):
        falcon.gemm(a, packed, scheme="nonsense")
    with pytest.raises(ValueError, match="scalar"):
        falcon.matmul(np.float64(3), packed)
    with pytest.raises(ValueError, match="workspace_limit is 10 bytes"):
        falcon.gemm(np.ones((400, 6)), packed, workspace_limit=10)
    for rows in (0, -1, True, 2.5):
        with pytest.raises((ValueError, TypeError), match="rows is"):
            falcon.pack(np.ones((6, 5)), rows=rows)
    with pytest.raises(ValueError, match="b has shape"):
        falcon.pack(np.ones(5))
    with pytest.raises(TypeError, match="b has dtype bool"):
        falcon.pack(np.ones((5, 5), bool))
    with pytest.raises(TypeError, match="cannot multiply"):
        falcon.pack(np.ones((5, 5), np.longdouble), backend="cpu")
    with pytest.raises(ValueError, match="expected one of auto"):
        falcon.pack(np.ones((5, 5)), backend="tpu")
    # Options that agree with the packing may be given again.
    np.testing.assert_array_equal(falcon.gemm(a, packed, scheme="strassen", backend="cpu"), 6)
    np.testing.assert_array_equal(falcon.gemm(a, packed, scheme=packed.scheme), 6)


def test_the_second_try_converts_a_source_of_another_dtype():
    b = np.arange(40 * 30).reshape(40, 30) % 7
    a = np.ones((20, 40))
    a[1, 1] = np.nan
    packed = falcon.pack(b, dtype="f8", scheme="strassen", backend="cpu")
    got = falcon.gemm(a, packed)
    assert np.isnan(got[1]).all()
    np.testing.assert_array_equal(np.delete(got, 1, 0), np.ones((19, 40)) @ b)


def test_size_and_printing():
    b = np.ones((1024, 512), "f4")
    packed = falcon.pack(b, scheme="strassen", backend="cpu")
    assert 7 / 4 * b.nbytes <= packed.nbytes <= 2 * b.nbytes
    assert packed.nbytes == packed.payload.nbytes
    size = f"{packed.nbytes / 2**20:.1f} MiB"
    text = f"<PackedOperand 1024 x 512 float32 for strassen on backend cpu, {size}>"
    assert repr(packed) == str(packed) == text
    classical = falcon.pack(b, scheme="classical", backend="cpu")
    assert b.nbytes <= classical.nbytes <= 1.1 * b.nbytes
    assert "for classical on" in repr(classical)


# --- without its source ---------------------------------------------------------------------


def test_what_needs_the_source_is_refused_without_it():
    rng = np.random.default_rng(11)
    a, b = (whole(rng, x).astype("f8") for x in ((97, 101), (101, 89)))
    packed = falcon.pack(b, scheme="strassen", backend="cpu", keep_source=False)
    bad = a.copy()
    bad[5, 6] = np.nan
    for product in (falcon.gemm, falcon.matmul):
        with pytest.raises(ValueError, match=r"keep_source=False: a NaN or Inf came up .*'none'"):
            product(bad, packed)
        assert np.isnan(product(bad, packed, check="none")).any()
        with pytest.raises(ValueError, match="keep_source=False: check='verify' takes b itself"):
            product(a, packed, check="verify")
    np.testing.assert_array_equal(falcon.gemm(a, packed), a @ b)  # the workspace was given back
    expected = falcon.gemm(bad, b, scheme="classical")
    # The classical algorithm has no fallback, and NumPy's backend keeps b anyway.
    for scheme, backend in (("classical", "cpu"), ("strassen", "numpy")):
        packed = falcon.pack(b, scheme=scheme, backend=backend, keep_source=False)
        np.testing.assert_array_equal(falcon.gemm(bad, packed), expected)
    with pytest.raises(TypeError, match="keep_source is 0; expected True or False"):
        falcon.pack(b, keep_source=0)


def test_without_its_source_b_may_change_and_is_of_the_dtype_of_the_arithmetic():
    b = np.arange(40 * 30).reshape(40, 30) % 7
    packed = falcon.pack(b, dtype="f4", scheme="strassen", backend="cpu", keep_source=False)
    expected = np.ones((20, 40)) @ b
    b[...] = 0
    got = falcon.gemm(np.ones((20, 40), "f4"), packed)
    assert got.dtype == "f4"
    np.testing.assert_array_equal(got, expected)


def test_the_engine_refuses_a_packed_b_of_another_kind():
    b = np.ones((64, 48))
    one = programs.engine_scheme(schemes.get("strassen"))
    packed = pack(b, scheme=one)
    c = np.zeros((10, 48))
    for a, right, options in (
        (np.ones((10, 64)), b, {}),  # no scheme
        (np.ones((10, 63)), b[:63], {"scheme": one}),
        (np.ones((10, 64), "f4"), b.astype("f4"), {"scheme": one}),
        (np.ones((10, 64)), b, {"scheme": one, "isa": _core.supported_isas()[-1]}),
    ):
        if options.get("isa") == packed.isa:
            continue
        with pytest.raises(ValueError, match="packed B is for another"):
            gemm(a, right, c.astype(a.dtype), packed=packed, **options)
    a, planned = np.ones((10, 64)), _core.plan(10, 48, 64, "f64", scheme=one)
    with pytest.raises(ValueError, match="b is packed and the layout is not"):
        _core.gemm(planned, a, None, c, packed=packed)
    with pytest.raises(ValueError, match="for a b that is not packed"):
        _core.pack_b(planned, b)
    other = _core.plan(10, 48, 64, "f64", scheme=one, is_packed=True, blocking=(0, 24, *[0] * 6))
    with pytest.raises(ValueError, match="cut otherwise"):
        _core.gemm(other, a, None, c, packed=packed)


def test_a_packed_operand_keeps_the_engines_form_of_its_scheme():
    programs.converted.cache_clear()
    b = np.eye(32)
    packed = falcon.pack(b, scheme="strassen", backend="cpu")
    programs.converted.cache_clear()
    strassen = schemes.get("strassen")
    equal = schemes.Scheme(strassen.U, strassen.V, strassen.W, "another object")
    for scheme in (strassen, equal):
        np.testing.assert_allclose(falcon.gemm(b, packed, scheme=scheme), b, atol=1e-12)
