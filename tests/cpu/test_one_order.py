"""What every kernel promises in one order of sums, and with weights on the steps of K."""

import ml_dtypes
import numpy as np
import pytest

from falcon._core.dtypes import FLOAT64
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon._cpu import _core, blocking

from .emulated import KINDS, USED
from .support import DTYPES, Operand, gemm, whole

BF16 = np.dtype(ml_dtypes.bfloat16)
ISAS = [*_core.supported_isas(), *USED]


def made(shape, dtype, seed):
    x = np.random.default_rng(seed).standard_normal(shape)
    return x.astype(BF16).view(np.uint16) if dtype == "bf16" else x.astype(DTYPES[dtype])


@pytest.mark.parametrize("isa", ISAS, indirect=True)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("sizes", [(1, 1), (700, 3), (1500, 70)], ids=str)
def test_entries_do_not_depend_on_rows_and_columns(isa, dtype, sizes):
    if isa in KINDS and dtype != "bf16":
        pytest.skip("kernels of floats are not emulated")
    (K, N), M = sizes, 75
    a, b = made((M, K), dtype, 0), made((K, N), dtype, 1)
    first = None
    for m in (M, 1, 2, 3, 7, 12, 13, 33, 64):
        for n, order, threads in ((N, "C", 1), (N, "C", 5), (N, "F", 2), (1, "C", 1), (1, "F", 5)):
            c = np.zeros((m, n), a.dtype, order)
            y = np.asarray(b[:, :n], order=order)
            gemm(a[:m], y, c, isa=isa, threads=threads, one_order=True)
            first = c if first is None else first
            np.testing.assert_array_equal(c, first[:m, :n])


def test_k_is_not_cut_whatever_the_room():
    for isa in _core.supported_isas():
        for dtype in ("f32", "f64"):
            sizes, how = (300, 300, 50000), {"isa": isa, "limit": 2**20}
            assert _core.plan(*sizes, dtype, **how).chunks[2] < 50000
            assert _core.plan(*sizes, dtype, one_order=True, **how).chunks[2] == 50000
    for reproducible in (True, "rows"):
        options = Options(reproducible=reproducible)
        problem = Problem.of_sizes((9, 3000, 10**8), FLOAT64, options, packed=True)
        packed = blocking.to_pack(problem, None, None)
        assert (packed.chunks[2] == 10**8) == (reproducible == "rows")


@pytest.mark.parametrize("isa", _core.supported_isas(), indirect=True)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u4", "i8"])
@pytest.mark.parametrize("kind", ["C", "Fortran", "padded rows", "every second", "reversed"])
def test_weights(isa, dtype, kind):
    """In guarded memory, whole triangles and products, of all sizes and cuts."""
    rng = np.random.default_rng(0)
    for K, M, limit in ((1, 1, 0), (5, 37, 0), (300, 70, 0), (1100, 40, 1), (700, 130, 1)):
        x = Operand(K, M, dtype, kind)
        x.fill(whole(rng, (K, M)).astype(dtype))
        y = x.array.copy()
        weights = whole(rng, K).astype(dtype)
        wanted = y.T @ (weights[:, None] * y)
        how = {"weights": weights, "weighted": True, "isa": isa, "limit": limit}
        for order in "CF":
            for threads in (1, 5):
                c = np.zeros((M, M), dtype, order)
                gemm(x.array.T, x.array, c, threads=threads, **how)
                np.testing.assert_array_equal(c, wanted)
                c[...] = 0
                gemm(x.array.T, x.array, c, triangle="lower", threads=threads, **how)
                np.testing.assert_array_equal(c, np.tril(wanted))
        assert x.gaps_untouched()


def test_weights_that_do_not_fit():
    x, c, w = np.ones((50, 40)), np.ones((40, 40)), np.ones(50)
    for wrong in (w[:9], np.ones(50, "f4"), None):
        with pytest.raises(ValueError, match="weights"):
            gemm(x.T, x, c, weights=wrong, weighted=True)
    with pytest.raises(ValueError, match="weights"):
        gemm(x.T, x, c, weights=w)
    with pytest.raises(ValueError, match="weigh no steps"):
        _core.plan(40, 40, 50, "bf16", weighted=True)
    with pytest.raises(ValueError, match="weigh no steps"):
        _core.plan(40, 40, 50, "f64", weighted=True, is_packed=True)
