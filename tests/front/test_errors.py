"""Bad arguments of `gemm`, `matmul` and `plan`: each message names the operand and the value.

What is the same for all calls and types: tests/contract/test_errors.py.
"""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import falcon

A, B, C = np.ones((3, 4)), np.ones((4, 5)), np.ones((3, 5))
TEXT = np.dtypes.StringDType() if np.__version__ > "2" else "U"  # its dtype is of the new style
I, J = np.ones((3, 4), int), np.ones((4, 5), int)


class OnGpu:
    """Looks like an array of another library in GPU memory."""

    __cuda_array_interface__ = {"shape": (4, 5)}  # noqa: RUF012


class OnCpu:
    """Like a torch.Tensor: the class has the attribute, an object on the CPU raises."""

    @property
    def __cuda_array_interface__(self):
        raise AttributeError("not on a GPU")

    def __array__(self, dtype=None, copy=None):
        return B


GEMM = [  # positional, keywords, error, pattern
    ((A, B[None]), {}, ValueError, r"b has shape \(1, 4, 5\); expected a matrix"),
    ((A, B, C[0]), {}, ValueError, r"c has shape \(5,\); expected a matrix"),
    ((A > 0, B), {}, TypeError, "a has dtype bool; expected integers, .* [(]falcon.matmul counts"),
    ((A > 0, B), {"dtype": "f4"}, TypeError, "a has dtype bool; expected integers, floats"),
    ((A, B.astype(TEXT)), {}, TypeError, "b has dtype .*; expected integers"),
    ((A, B, C.astype("U1")), {}, TypeError, "c has dtype <U1"),
    (([[1, 2], [3]], B), {}, ValueError, "a cannot be converted to an array"),
    ((A, OnGpu()), {}, TypeError, "b is a OnGpu in GPU memory"),
    ((A, B, C), {"beta": np.complex64(1)}, TypeError, r"beta is .*1\+0j.*matrices are real"),
    ((A, B), {"alpha": 10**400}, ValueError, "alpha is too large for float64"),
    ((A, B), {"out": np.ma.array(C)}, TypeError, "out is a MaskedArray; expected a NumPy array"),
    ((A + 0j, B), {"out": C}, TypeError, "out has dtype float64, .* complex128 does not cast"),
    ((I, J), {"out": C.astype("u8")}, TypeError, "out has dtype uint64"),
]
OPTIONS = [
    ({"backend": "blas"}, ValueError, "backend is 'blas'; expected one of auto, .*numpy"),
    ({"backend": "gpu"}, ValueError, "backend 'gpu' is not available: "),
    ({"backend": 3}, TypeError, "backend is 3; expected a str"),
    ({"scheme": "strasen"}, ValueError, "there is no scheme 'strasen'; did you mean 'strassen'?"),
    ({"max_growth": 0.5}, ValueError, "max_growth is 0.5; expected a number >= 1.0"),
    ({"max_growth": "8"}, TypeError, "max_growth is '8'; expected a number"),
    ({"threads": 1.5}, TypeError, "threads is 1.5; expected an integer or None"),
    ({"threads": True}, TypeError, "threads is True; expected an integer or None"),
    ({"workspace_limit": -1}, ValueError, "workspace_limit is -1; expected an integer >= 0"),
    ({"workspace_limit": "1 parsec"}, ValueError, "limit is '1 parsec'; expected a number"),
    ({"workspace_limit": 1.5}, TypeError, "workspace_limit is 1.5; expected an integer, a size"),
    ({"check": "maybe"}, ValueError, "check is 'maybe'; expected one of 'none', 'finite'"),
]


@pytest.mark.parametrize("options, error, pattern", OPTIONS, ids=range(len(OPTIONS)))
def test_options(options, error, pattern):
    """Refused by all functions alike, for empty operands too, before anything is written."""
    calls = (falcon.gemm, falcon.matmul, falcon.plan)
    for call in calls[: 2 if "check" in options else 3]:
        for a in (A, A[:0]):
            out = np.full((len(a), 5), 7.0)
            with pytest.raises(error, match=pattern):
                call(a, B, **options, **({} if call is falcon.plan else {"out": out}))
            assert (out == 7).all()


def test_foreign_arrays_on_the_cpu_are_converted():
    np.testing.assert_array_equal(falcon.gemm(A, OnCpu()), A @ B)


def test_numbers_that_fit_are_taken():
    np.testing.assert_array_equal(falcon.gemm(I, J, alpha=2.0), 2 * (I @ J))
    np.testing.assert_array_equal(falcon.gemm(I, J, alpha=np.float32(2)), 2 * (I @ J))
    np.testing.assert_array_equal(falcon.gemm(I, J, alpha=2**64 + 3), 3 * (I @ J))
    np.testing.assert_array_equal(falcon.gemm(I, J, alpha=10**400), 0 * (I @ J))
    np.testing.assert_array_equal(falcon.gemm(A, B, alpha=np.longdouble(0.5)), A @ B / 2)
    np.testing.assert_array_equal(falcon.gemm(A, B, alpha=True), A @ B)
    np.testing.assert_array_equal(falcon.gemm(A.tolist(), B.tolist()), A @ B)


PLAN = [
    (((3, 4), (3, 4)), {}, ValueError, r"a has shape \(3, 4\) and b \(3, 4\): a's columns must"),
    (((3,), (4, 5)), {}, ValueError, r"a is the shape \(3,\); expected at least two sizes >= 0"),
    (((3, 4, 5), (2, 5, 6)), {}, ValueError, r"batch axes of a \(3, 4, 5\) and b \(2, 5, 6\)"),
    (((3, -4), (-4, 5)), {}, ValueError, r"a is the shape \(3, -4\)"),
    (((3, 4), A[0]), {}, ValueError, r"b has shape \(4,\); expected a matrix"),
    (((3, 4), (4, 5), bool), {}, TypeError, "dtype is <class 'bool'>; expected integers, floats"),
    (((3, 4), (4, 5), "e"), {"scheme": "strassen", "backend": "numpy"}, TypeError,
     r"'strassen' cannot .*float16"),
]  # fmt: skip


MATMUL = [
    ((A, A), {}, ValueError, r"a has shape \(3, 4\) and b \(3, 4\): the inner dimensions 4 and 3"),
    ((A[0], A[0][:2]), {}, ValueError, r"a has shape \(4,\) and b \(2,\): the inner dimensions 4"),
    ((np.ones((2, 3, 4)), np.ones((3, 4, 5))), {}, ValueError, r"axes of a \(2, 3, 4\) and b"),
    ((A, B), {"out": C.astype(int)}, TypeError, "out has dtype int64"),
    ((A > 0, B > 0), {"scheme": "strassen"}, TypeError, "strassen.* needs plain numeric .* bool"),
    ((A, np.float64(2)), {"scheme": "strassen"}, TypeError, "needs plain numeric arrays of at"),
    ((A, B), {"scheme": "strassen", "out": (C, C)}, TypeError, "got a ndarray .*, out tuple"),
]


REFUSED = [(falcon.gemm, *x) for x in GEMM]
REFUSED += [(falcon.plan, *x) for x in PLAN] + [(falcon.matmul, *x) for x in MATMUL]


@pytest.mark.parametrize("call, given, options, error, pattern", REFUSED)
def test_refused(call, given, options, error, pattern):
    with pytest.raises(error, match=pattern):
        call(*given, **options)


def test_a_packed_operand_is_b_alone():
    packed = falcon.pack(np.ones((4, 4)))
    for call in (
        lambda: falcon.gemm(packed, np.ones((4, 4))),
        lambda: falcon.gemm(np.ones((4, 4)), np.ones((4, 4)), packed, beta=1.0),
        lambda: falcon.plan(packed, packed),
        lambda: falcon.pack(packed),
    ):
        with pytest.raises(TypeError, match="a PackedOperand, which gemm, matmul and plan take"):
            call()


DOORS = [
    lambda out: falcon.gemm(A, B, out=out()), lambda out: falcon.matmul(A, B, out=out()),
    lambda out: falcon.matmul(A, falcon.pack(B), out=out()), lambda out: falcon.dot(A, B, out()),
    lambda out: falcon.matmul(A > 0, B > 0, out("?")), lambda out: falcon.plan(A, B)(A, B, out()),
    lambda out: falcon.matmul(A[None], B, out=out()[None]), lambda out: falcon.gram(B.T, out=out()),
    lambda out: falcon.matmul(A.astype(object), B.astype(object), out(object)),
    lambda out: falcon.einsum("ij,jk", A, B, out=out()),
    lambda out: falcon.multi_dot([A, B], out=out()),
    lambda out: falcon.matmul(I, J, out("i8")[None], modulus=[7]),
    lambda out: falcon.scaled_matmul(A.astype("f4"), B.astype("f4"), out=out("f4")),
]  # fmt: skip


@pytest.mark.parametrize("call", DOORS)
@pytest.mark.parametrize("steps", [(0, 1), (1, 0), (0, 0), (1, 1), (2, 1), (-3, 2)])
def test_an_out_whose_elements_share_memory(call, steps):
    """Of each entry the last write would win."""
    memory = []

    def out(kind="f8"):
        memory.append(np.zeros(99, kind))
        size = memory[0].itemsize
        return as_strided(memory[0][50:], (3, 5), [x * size for x in steps])

    with pytest.raises(ValueError, match=r"out has shape .* its elements share memory"):
        call(out)
    assert not memory[0].any()


def test_an_out_whose_rows_lie_between_one_another():
    out = as_strided(np.zeros(99), (3, 5), (16, 24))
    assert (falcon.gemm(A, B, out=out) == 4).all()


class OfMpmath(list):
    """Like a mpmath.matrix: `np.asarray` makes a vector of its entries, whose product is wrong."""

    __module__ = "mpmath.matrices.matrices"
    tolist = list.copy


@pytest.mark.parametrize("call", [falcon.gemm, falcon.matmul, falcon.plan, falcon.dot, falcon.gram])
def test_matrices_of_mpmath(call):
    x = OfMpmath([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(
        TypeError, match=r"a matrix of mpmath, .*: use numpy.array\(.\.tolist\(\), f"
    ):
        call(x) if call is falcon.gram else call(x, x)
