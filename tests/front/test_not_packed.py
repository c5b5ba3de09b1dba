"""`falcon.pack` keeps B as it is where panels gain nothing; it is then an operand as any other."""

import copy
import pickle

import numpy as np
import pytest

import falcon
from falcon._backends import available_backends

from ..doors import PACKED, compared_seconds, compared_seconds_of


@pytest.fixture
def never(doors):
    """A plan without panels counts as faster."""
    doors.packs(False)


def whole(*shape, dtype="f8", seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


# --- the choice -----------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 512, 2048, 60_000])
@pytest.mark.parametrize("copies", [None, 1, 1.7, 4])
def test_panels_are_made_if_they_are_worth_their_price(rows, copies):
    b = np.ones((1536, 1920), "f4")
    limit = None if copies is None else int(copies * b.nbytes)
    packed = falcon.pack(b, rows=rows, memory_limit=limit)
    assert packed.nbytes <= (2.5 if copies is None else copies) * b.nbytes * 1.02  # padding
    plan = falcon.plan((rows, 1536), packed)
    plain = falcon.plan((rows, 1536), b.shape, "f4")
    if packed.is_packed:
        assert compared_seconds(plan.candidates[0], PACKED) <= compared_seconds_of(plain)
    else:
        assert not plan.problem.packed
        assert plan.label == f"{plain.label}, not packed"
        assert plan.scheme is plain.scheme


def test_a_choice_by_name_is_always_packed(never):
    b = np.ones((64, 48))
    assert falcon.pack(b, scheme="strassen").is_packed
    assert falcon.pack(b, scheme="classical").is_packed
    assert not falcon.pack(b).is_packed


# --- what it is -----------------------------------------------------------------------------


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize("keep_source", [True, False])
def test_later_changes_of_b_do_not_count(keep_source):
    a, b = whole(40, 60), whole(60, 50, seed=1)
    packed = falcon.pack(b, keep_source=keep_source)
    expected = a @ b
    for _ in range(2):  # the second call is recalled
        np.testing.assert_array_equal(falcon.gemm(a, packed), expected)
    b[...] = 1
    for _ in range(2):
        np.testing.assert_array_equal(falcon.gemm(a, packed), expected)
    again = pickle.loads(pickle.dumps(packed))
    np.testing.assert_array_equal(copy.deepcopy(again).__rmatmul__(a), expected)


@pytest.mark.usefixtures("never")
def test_all_that_panels_can_do():
    a, b, c = whole(40, 60), whole(60, 50, seed=1), whole(40, 50, seed=2)
    packed, out = falcon.pack(b), np.empty((40, 50))
    exact = a @ b
    assert (packed.shape, packed.dtype, packed.scheme) == ((60, 50), np.float64, None)
    assert packed.nbytes == b.nbytes
    assert repr(packed) == "<PackedOperand 60 x 50 float64 not packed, 0.0 MiB>"
    np.testing.assert_array_equal(a @ packed, exact)
    np.testing.assert_array_equal(falcon.gemm(a, packed, c, alpha=2.0, beta=-1.0), 2 * exact - c)
    np.testing.assert_array_equal(falcon.gemm(a, packed, c, beta=1.0, out=c.copy()), exact + c)
    assert falcon.gemm(a, packed, out=out) is out
    np.testing.assert_array_equal(out, exact)
    np.testing.assert_array_equal(falcon.matmul(a[3], packed), exact[3])
    np.testing.assert_array_equal(falcon.matmul(a.reshape(2, 20, 60), packed)[1], exact[20:])
    for options in (
        {"scheme": "strassen"},
        {"check": "verify"},
        {"backend": "numpy"},
        {"threads": 1, "workspace_limit": 2**22},
        {"reproducible": any(x.name == "cpu" for x in available_backends())},
    ):
        np.testing.assert_array_equal(falcon.gemm(a, packed, **options), exact)
    with pytest.raises(TypeError, match="would be complex128, but b was packed for float64"):
        falcon.gemm(a.astype(complex), packed)
    with pytest.raises(ValueError, match="a's columns"):
        falcon.gemm(a.T, packed)


@pytest.mark.usefixtures("never")
def test_what_is_not_finite_stays_where_it_is():
    a, b = whole(300, 300), whole(300, 280, seed=1)
    a[7, 8] = np.nan
    got = falcon.gemm(a, falcon.pack(b, keep_source=False), scheme="strassen")
    assert np.isnan(got[7]).all()
    np.testing.assert_array_equal(np.delete(got, 7, 0), np.delete(a, 7, 0) @ b)


@pytest.mark.usefixtures("never")
def test_types():
    a, b = whole(30, 40, dtype="i1"), whole(40, 20, dtype="i1", seed=1)
    packed = falcon.pack(b, dtype="i4")
    exact = a.astype("i4") @ b.astype("i4")
    if packed.panels is not None:  # int8 to int32 in falcon's kernels
        got = falcon.gemm(a, packed)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, exact)
    wide = falcon.pack(b.astype("f8"), dtype="f4")
    assert (wide.dtype, wide.source.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(falcon.gemm(a.astype("f4"), wide), exact)
    view = falcon.pack(whole(50, 40).T)  # as it lies
    assert view.source.flags.f_contiguous


@pytest.mark.usefixtures("never")
def test_options_of_pack_hold_for_products():
    b = np.ones((300, 300), "f4")
    packed = falcon.pack(b, backend="numpy", max_growth=1.0)
    found = falcon.plan((600, 300), packed)
    assert (found.backend.name, found.options.max_growth) == ("numpy", 1.0)
    assert found.label == "classical, not packed"
    assert falcon.plan((600, 300), packed, max_growth=8.0).options.max_growth == 8.0
    with falcon.config(scheme="strassen"):  # a setting is no name for the scheme of an operand
        assert falcon.plan((600, 300), packed).scheme is None
        assert falcon.pack(b).is_packed
