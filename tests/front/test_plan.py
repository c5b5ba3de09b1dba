"""`falcon.plan` plans exactly the Problem that `falcon.gemm` runs."""

import pickle
from itertools import product

import numpy as np
import pytest

import falcon

from ..contract.places import LAYOUTS, laid

M, K, N = 20, 30, 25


def operands(a_dtype, b_dtype, sizes=(M, K, N)):
    m, k, n = sizes
    return np.ones((m, k), a_dtype), np.ones((k, n), b_dtype)


@pytest.fixture
def planned(doors):
    """The problems that `gemm` and `matmul` multiply."""
    return doors.multiplied(lambda plan, _: plan.problem)


@pytest.mark.parametrize(("left", "right"), [*product(LAYOUTS, LAYOUTS)])
def test_over_layouts(planned, left, right):
    a, b = operands("f4", "f4")
    a, b = laid(a, left), laid(b, right)
    for scheme in ("auto", "strassen"):
        falcon.gemm(a, b, scheme=scheme, alpha=2.0)  # not recalled
        falcon.matmul(a[None], b, scheme="strassen")
        plan = falcon.plan(a, b, scheme=scheme)
        assert {*planned, plan.problem} == {plan.problem}


@pytest.mark.parametrize("dtypes", [*product(("f4", "f8", "i4", "f2"), repeat=2)])
@pytest.mark.parametrize("sizes", [(M, K, N), (1, K, N), (M, K, 1), (M, 1, N), (1, 1, 1)])
def test_over_dtypes_and_sizes(planned, dtypes, sizes):
    a, b = operands(*dtypes, sizes)
    falcon.gemm(a, b, alpha=2)
    falcon.gemm(a, b, alpha=2, out=np.empty((sizes[0], sizes[2]), np.result_type(a, b)))
    assert planned == [falcon.plan(a, b).problem] * 2
    if dtypes[0] == dtypes[1]:
        assert planned[0] == falcon.plan(a.shape, b.shape, dtypes[0]).problem


def test_over_options(planned):
    a, b = operands("f8", "f8")
    for options in ({"threads": 3}, {"workspace_limit": 2**20}, {"backend": "numpy"}):
        falcon.gemm(a, b, alpha=2.0, **options)
        assert planned[-1] == falcon.plan(a, b, **options).problem
    with falcon.config(threads=5):
        falcon.gemm(a, b, alpha=2.0)
        assert planned[-1] == falcon.plan(a, b).problem
        assert planned[-1].threads == 5


def test_packed_operands_are_planned_for_their_rows(caplog):
    caplog.set_level("INFO", "falcon")
    with falcon.config(verbose=True):
        falcon.pack(np.ones((K, N)), rows=7)
    assert f"7 x {K} @ {K} x {N} float64" in caplog.text


@pytest.mark.parametrize("kind", ["f8", "f4", "i4"])
def test_a_packed_operand_is_planned_as_it_is_multiplied(planned, kind):
    a, b = operands(kind, kind, (60, 70, 80))
    for scheme in ("classical", "strassen"):
        packed = falcon.pack(b, scheme=scheme)
        falcon.gemm(a, packed)
        for left in (a, a.shape):
            plan = falcon.plan(left, packed)
            assert plan.problem == planned[-1]
            assert plan.method.label == scheme
            assert "not packed" in plan.why
            assert [x.method.label.endswith("not packed") for x in plan.candidates] == [False, True]
        with pytest.raises(ValueError, match="this plan is for a packed operand"):
            plan(a, b)
    with pytest.raises(ValueError, match=r"a has shape \(60, 71\) and b \(70, 80\)"):
        falcon.plan((60, 71), packed)
    with pytest.raises(ValueError, match="scheme is 'classical', but b is"):
        falcon.plan((60, 70), packed, scheme="classical")


@pytest.mark.usefixtures("engine")
def test_memory_limit_of_packed_operands():
    b = np.ones((2048, 3072))
    how = {"rows": 4096, "backend": "numpy"}
    assert falcon.pack(b, **how).nbytes <= 2 * b.nbytes
    for copies in (1, 1.65, 3):
        with falcon.config(memory_limit=int(copies * b.nbytes)):
            assert falcon.pack(b, **how).nbytes <= copies * b.nbytes
    limit = 7 * b.nbytes // 4
    assert falcon.pack(b, scheme="strassen", memory_limit=limit).nbytes >= limit
    with pytest.raises(ValueError, match="the panels of b for strassen"):
        falcon.pack(b, scheme="strassen", memory_limit=limit - 1)
    with pytest.raises(ValueError, match="memory_limit is 'much'"):
        falcon.pack(b, memory_limit="much")


# --- plans as values ------------------------------------------------------------------------


def test_repr_is_one_line():
    plan = falcon.plan((60, 70), (70, 80), "float32", scheme="strassen", backend="numpy")
    assert repr(plan) == "<Plan 60 x 70 @ 70 x 80 float32: strassen on backend numpy>"


@pytest.mark.parametrize("scheme", ["classical", "strassen", "auto"])
@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_plans_pickle(scheme, backend):
    a, b = operands("f4", "f4", (1100, 1200, 1100))
    with falcon.config(check="none"):
        plan = falcon.plan(a, b, scheme=scheme, backend=backend)
    again = pickle.loads(pickle.dumps(plan))
    assert again.problem == plan.problem
    assert again.method == plan.method
    assert again.options == plan.options
    assert (again.why, again.guarded, again.backend.name) == (
        *(plan.why, plan.guarded),
        plan.backend.name,
    )
    assert str(again) == str(plan)
    np.testing.assert_array_equal(again(a, b), plan(a, b))


def test_plans_that_cannot_run_where_they_are_loaded(doors):
    plan = falcon.plan((60, 70), (70, 80), backend="numpy")
    text = pickle.dumps(plan)
    doors.without("numpy", "it is not here")
    with pytest.raises(ValueError, match="backend 'numpy' cannot be loaded here: it is not here"):
        pickle.loads(text)


def test_sizes_in_place_of_shapes():
    with pytest.raises(TypeError, match=r"falcon.plan\(\(M, K\), \(K, N\)\); got a = 60 and b = 7"):
        falcon.plan(60, 70, 80)


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, 2**63, 2**200])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_sizes_that_no_array_has(size, dtype):
    for scheme in ("auto", "strassen", "classical"):
        for shapes in (((size, size), (size, size)), ((4, size), (size, size))):
            with pytest.raises(ValueError, match=rf"{dtype} matrices have at most \d+ entries"):
                falcon.plan(*shapes, dtype, scheme=scheme)


def test_sizes_that_an_array_could_have():
    plan = falcon.plan((2**20, 2**20), (2**20, 2**20), "float32", scheme="classical")
    assert plan.problem.flops == 2**61
    assert falcon.plan((2, 2**40), (2**40, 2), "float32").problem.K == 2**40


BATCHES = [((5, 30, 40), (40, 50)), ((5, 30, 40), (5, 40, 50)), ((2, 1, 90, 80), (3, 80, 70)),
           ((300, 16, 16), (300, 16, 16)), ((2, 600, 700), (2, 700, 600))]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c16"])
@pytest.mark.parametrize("shapes", BATCHES, ids=str)
def test_a_batch_is_planned_as_it_is_multiplied(planned, shapes, dtype):
    a, b = (np.ones(x, dtype) for x in shapes)
    falcon.matmul(a, b)
    plan = falcon.plan(a, b)
    assert [plan.problem] == planned
    assert falcon.plan(*shapes, dtype).problem.count == plan.problem.count
    if plan.problem.count > 1:
        with pytest.raises(ValueError, match=r"for a batch: multiply by falcon\.matmul"):
            plan(a, b)
        if plan.seconds:
            one = falcon.plan(a[0], b[0], backend=plan.backend.name)
            assert sum(dict(plan.seconds).values()) > 1.5 * sum(dict(one.seconds).values())


def test_equal_schemes_keep_their_names():
    mine = falcon.schemes.get("strassen").renamed("mine", "a copy")
    labels = [falcon.plan((700, 700), (700, 700), scheme=x).label for x in (mine, "strassen", mine)]
    assert labels == ["mine", "strassen", "mine"]
