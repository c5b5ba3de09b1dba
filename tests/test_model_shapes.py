"""Real sizes: layers of a language model through LCMAs, error within the bound, as planned."""

import numpy as np
import pytest

import falcon
from falcon.bench.errors import Sample
from falcon.bench.workloads import Shape, operands

SCHEMES = ["winograd", "strassen@strassen", "4x3x4:38"]


@pytest.mark.slow
def test_error_and_workspace():
    M, N, K = 2048, 4608, 3584
    a, b = operands(Shape(M, N, K), np.dtype("float32"), seed=M + N + K)
    rows = np.arange(0, M, M // 24)
    exact = a[rows].astype(float) @ b.astype(float)
    out = np.empty((M, N), np.float32)
    classical = Sample(a, b).error(np.matmul(a, b, out=out))
    for name in SCHEMES:
        plan = falcon.plan(a, b, scheme=name, workspace_limit=256 * 2**20)
        assert plan.workspace <= 256 * 2**20
        falcon.gemm(a, b, out=out, scheme=name, workspace_limit=256 * 2**20)
        error = abs(out[rows] - exact)
        assert (error <= plan.error_bound(a[rows], b, proved=True)).all(), name
        growth = Sample(a, b).error(out) / classical
        # Chunks of K are summed classically, so an LCMA may be better than its growth says.
        assert growth <= 2 * plan.growth, name
