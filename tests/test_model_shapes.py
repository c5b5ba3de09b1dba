"""Real sizes: layers of a language model through LCMAs, error within the bound, as planned."""

import numpy as np
import pytest

import falcon
from falcon.bench.errors import sampled_error
from falcon.bench.workloads import Shape, operands

CASES = [
    ((2048, 4608, 3584), "float32"),
    ((2048, 4608, 3584), "float64"),
]
SCHEMES = ["strassen", "winograd", "strassen@strassen", "3x3x3:23", "4x3x4:38"]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_error_and_workspace(shape, dtype):
    M, N, K = shape
    a, b = operands(Shape(M, N, K), np.dtype(dtype), seed=M + N + K)
    rows = np.arange(0, M, M // (24 if dtype == "float32" else 6))
    wide = np.float64 if dtype == "float32" else np.longdouble
    columns = slice(None) if dtype == "float32" else slice(0, 64)  # long double has no BLAS
    exact = a[rows].astype(wide) @ b[:, columns].astype(wide)
    out = np.empty((M, N), dtype)
    classical = sampled_error(a, b, np.matmul(a, b, out=out))
    for name in SCHEMES:
        plan = falcon.plan(a, b, scheme=name, workspace_limit=256 * 2**20)
        assert plan.workspace <= 256 * 2**20
        falcon.gemm(a, b, out=out, scheme=name, workspace_limit=256 * 2**20)
        error = abs(out[rows, columns] - exact)
        assert (error <= plan.error_bound(a[rows], b[:, columns], proved=True)).all(), name
        growth = sampled_error(a, b, out) / classical
        # Chunks of K are summed classically, so an LCMA may be better than its growth says.
        assert growth <= 2 * plan.growth, name
