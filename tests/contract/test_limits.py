"""A plan says what a call allocates, a limit is kept, and the result stays the same."""

import tracemalloc

import numpy as np
import pytest

import falcon

from .support import over

SHAPE = (150, 170, 130)
SHARES = (1, 0.7, 0.4, 0.2)
# Python's objects, masks and buffers of NumPy's loops.
SLACK = 400_000


def limits(subject, a, b):
    """Limits that the subject's algorithm can keep, with the plans that keep them."""
    most = falcon.plan(a, b, **subject.options).workspace
    for share in SHARES:
        limit = int(most * share)
        try:
            yield limit, falcon.plan(a, b, workspace_limit=limit, **subject.options)
        except ValueError as error:
            assert f"workspace_limit is {limit}" in str(error)
            assert share < 1


@over(lambda x: x.door in ("gemm", "packed", "matmul"))
def test_results_within_a_limit(subject):
    """Chunks along all dimensions."""
    M, K, N = SHAPE
    a, b = subject.operands((M, K), (K, N))
    exact = subject.expected(*map(subject.host, (a, b)))
    kept = 0
    for limit, plan in limits(subject, a, b):
        assert plan.workspace <= limit
        kept += 1
        try:
            subject.check(subject(a, b, workspace_limit=limit), exact)
        except ValueError as error:  # what a packed operand needs depends on how it was packed
            assert subject.door == "packed" and "workspace_limit" in str(error)
    assert kept


@pytest.fixture
def state(cupy):
    from ..gpu import fake_cupy

    return fake_cupy.STATE


@over(lambda x: x.library == "cupy" and x.door == "gemm" and x.scheme != "auto")
def test_what_a_gpu_allocates(subject, state):
    M, K, N = SHAPE
    a, b, out = subject.operands((M, K), (K, N), (M, N))
    for limit, plan in limits(subject, a, b):
        before = state.allocated
        subject(a, b, out=out, workspace_limit=limit)
        assert state.allocated - before <= plan.workspace <= limit


@over(lambda x: x.backend == "numpy" and x.door == "gemm" and x.scheme != "auto"
      and x.row.name in ("float32", "float64", "int32"))  # fmt: skip
def test_what_numpy_allocates(subject):
    M, K, N = 301, 283, 262
    a, b, out = subject.operands((M, K), (K, N), (M, N))
    for limit, plan in limits(subject, a, b):
        how = {"out": out, "workspace_limit": limit}
        subject(a, b, **how)
        tracemalloc.start()
        try:
            subject(a, b, **how)
            used = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert used <= plan.workspace + SLACK
    np.testing.assert_array_equal(subject.host(out), subject.host(subject(a, b)))
