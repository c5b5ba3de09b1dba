"""Properties of falcon.gemm on backend "cpu", over shapes and settings that hypothesis makes up."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import falcon

from .support import DTYPES, require_cpu

require_cpu()

SCHEMES = ["classical", "strassen", "winograd", "3x2x3:15", "2x3x4:20", "strassen@2x2x3:11"]
ORDERS = ["C", "F", "transposed view", "every second"]
sizes = st.integers(0, 150)


@st.composite
def products(draw):
    """Return integer-valued a, b, c (or None) and the other arguments of a call."""
    m, n, k = draw(sizes), draw(sizes), draw(sizes)
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    a, b, c = (lie(whole(rng, s, dtype), draw(st.sampled_from(ORDERS)))
               for s in ((m, k), (k, n), (m, n)))  # fmt: skip
    beta = draw(st.sampled_from([0, 1, -2, 3]))
    call = {
        "alpha": draw(st.sampled_from([0, 1, -1, 2])),
        "beta": beta,
        "scheme": draw(st.sampled_from(SCHEMES)),
        "threads": draw(st.integers(1, 3)),
        "max_growth": np.inf,
    }
    return a, b, c if beta else None, call


def whole(rng, shape, dtype):
    """Small integers: every sum of these sizes is exact in float32."""
    return rng.integers(-3, 4, shape).astype(dtype)


def lie(x, order):
    """Return the same values at other strides."""
    if order == "transposed view":
        return x.T.copy().T
    if order == "every second":
        wide = np.full((2 * x.shape[0], 2 * x.shape[1]), np.nan, x.dtype)
        wide[::2, ::2] = x
        return wide[::2, ::2]
    return np.array(x, order=order)


@settings(max_examples=100, deadline=None)
@given(products())
def test_integers_come_out_exact(product):
    a, b, c, call = product
    expected = call["alpha"] * (a.astype(np.int64) @ b.astype(np.int64))
    if c is not None:
        expected += call["beta"] * c.astype(np.int64)
    kept = [None if x is None else x.copy() for x in (a, b, c)]
    got = falcon.gemm(a, b, c, backend="cpu", **call)
    np.testing.assert_array_equal(got, expected)
    for x, before in zip((a, b, c), kept, strict=True):  # operands are left alone
        np.testing.assert_array_equal(x, before)


@settings(max_examples=50, deadline=None)
@given(products(), st.sampled_from(ORDERS))
def test_out_of_any_strides_gets_the_same_bits_and_nothing_else_is_written(product, order):
    a, b, c, call = product
    new = falcon.gemm(a, b, c, backend="cpu", **call)
    frame = np.full((a.shape[0] + 2, b.shape[1] + 2), 7, a.dtype)
    out = lie(frame, order)[1:-1, 1:-1]
    base = out.base
    before = base.copy()
    assert falcon.gemm(a, b, c, out=out, backend="cpu", **call) is out
    np.testing.assert_array_equal(out, new)
    out[...] = 7
    np.testing.assert_array_equal(base, before)
