"""A plan says what a call allocates, a limit is kept, and the result stays the same."""

import tracemalloc

from .support import limits, over

SHAPE = (150, 170, 130)
# Python's objects, masks and buffers of NumPy's loops.
SLACK = 400_000


@over(lambda x: x.door in ("gemm", "packed", "matmul"))
def test_results_within_a_limit(subject):
    """Chunks along all dimensions; of operands that are copied, or converted in blocks."""
    M, K, N = SHAPE
    for layout in ("rows", "swapped strided" if subject.library == "numpy" else "strided"):
        a, b = subject.operands((M, K), (K, N), layout=layout)
        how = {"alpha": 3} if subject.takes_scalars else {}
        exact = subject.expected(*map(subject.host, (a, b)), **how)
        kept = 0
        for limit, plan in limits(subject, a, b):
            assert plan.workspace <= limit
            kept += 1
            try:
                subject.check(subject(a, b, workspace_limit=limit, **how), exact)
            except ValueError as error:  # what a packed operand needs depends on how it was packed
                assert subject.door == "packed" and "workspace_limit" in str(error)
        assert kept


@over(lambda x: x.library == "cupy" and x.door == "gemm" and x.scheme != "auto")
def test_what_a_gpu_allocates(subject, state):
    M, K, N = SHAPE
    a, b, out = subject.operands((M, K), (K, N), (M, N), layout="columns")
    if subject.result.is_complex:  # one by columns takes a copy, of which a plan does not know
        out = subject.operands((M, K), (K, N), (M, N))[2]
    for limit, plan in limits(subject, a, b):
        before = state.allocated
        subject(a, b, out=out, workspace_limit=limit)
        assert state.allocated - before <= plan.workspace <= limit


@over(lambda x: x.backend == "numpy" and x.door == "gemm" and x.scheme != "auto"
      and x.row.name in ("float32", "float64", "int32") and x.cast is None)  # fmt: skip
def test_what_numpy_allocates(subject):
    """With c, or an out that BLAS cannot write, a call needs more, or the limit is refused."""
    M, K, N = 301, 283, 262
    shapes = (M, K), (K, N), (M, N)
    a, b, out = subject.operands(*shapes)
    c = subject.operands(*shapes, layout="strided")[2]
    product = subject.expected(a, b)
    for how in ({}, {"c": c, "beta": 2}, {"out": c}, {"out": out[::-1]}):
        refused, exact = 0, product + how.get("beta", 0) * c
        for limit, plan in limits(subject, a, b):
            how = {"out": out, **how, "workspace_limit": limit}
            tracemalloc.start()
            try:
                subject(a, b, **how)
                assert tracemalloc.get_traced_memory()[1] <= plan.workspace + SLACK
                if subject.arithmetic == "auto":
                    subject.check(how["out"], exact)
            except ValueError as error:
                refused += 1
                assert f"workspace_limit is {limit}" in str(error)
            finally:
                tracemalloc.stop()
        assert refused < 4 or subject.scheme == "classical"
