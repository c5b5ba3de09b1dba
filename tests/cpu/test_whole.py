"""Integers of 64 bits: alpha and beta of all bits, and products by kernels for float64."""

from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon._core.dtypes import BY_FLOAT, INT64, UINT64
from falcon._cpu import _core
from falcon._cpu.programs import engine_scheme
from falcon._cpu.rounding import _largest, largest_sums
from falcon.codegen import combine_a, combine_b
from falcon.codegen.program import Instruction, Op, Program
from falcon.schemes import get, names

from .support import gemm

KIND = BY_FLOAT[INT64].engine
INTEGRAL = [x for x in names() if get(x).is_integral]
SHAPES = [(1, 1, 1), (3, 5, 2), (37, 41, 67), (64, 1, 129), (130, 97, 611), (1, 300, 1500)]
every_isa = pytest.mark.parametrize("isa", _core.supported_isas())
both_types = pytest.mark.parametrize("row", [INT64, UINT64], ids=str)


def whole(rng, shape, most=1000):
    return rng.integers(-most, most, shape, np.int64, endpoint=True)


@every_isa
@pytest.mark.parametrize("strided", [False, True])
def test_float64_kernels_multiply_whole_numbers(isa, strided):
    rng = np.random.default_rng(1)
    for M, N, K in SHAPES:
        a, b, old = whole(rng, (M, 2 * K)), whole(rng, (N, K)).T, whole(rng, (M, N), 2**50)
        a = a[:, ::2] if strided else np.asfortranarray(a[:, :K])
        for scheme in (None, "strassen", "winograd@3x3x3:23"):
            c = np.array(old, order="F" if strided else "C")
            how = {"scheme": engine_scheme(None if scheme is None else get(scheme)), "threads": 2}
            gemm(a, b, c, alpha=-3, beta=2, isa=isa, kind=KIND, **how)
            np.testing.assert_array_equal(c, 2 * old - 3 * (a @ b))


@pytest.mark.parametrize("scheme", INTEGRAL)
def test_numbers_that_a_scheme_forms_are_bounded(scheme):
    """All operations of the engine on the signs that make each output as large as possible."""
    factors = get(scheme)
    of_a, of_b, of_c = largest_sums(factors)
    rank = factors.rank
    for program, rows, bound in (
        (combine_a(factors), factors.U.reshape(rank, -1), of_a),
        (combine_b(factors), factors.V.reshape(rank, -1), of_b),
    ):
        for signs in np.sign(rows).astype(int):
            values = dict(enumerate(map(int, signs)))
            for x in program.instructions:
                if x.op is Op.SCALE:
                    values[x.dst] = x.coefficient * values[x.x]
                else:
                    values[x.dst] = values[x.x] + (-1 if x.op is Op.SUB else 1) * values[x.y]
                assert abs(values[x.dst]) <= bound
    sums = [abs(x).reshape(rank, -1).sum(axis=1) for x in (factors.U, factors.V)]
    largest = (abs(factors.W).reshape(rank, -1).T @ (sums[0] * sums[1])).max()
    assert of_c >= largest


def test_a_multiple_of_a_sum_is_bounded():
    """4 (x + y) is 8; half of an input is 1/2, but the inputs themselves are 1."""
    add, scale = Instruction(Op.ADD, 2, 0, 1), Instruction(Op.SCALE, 3, 2, coefficient=4)
    assert _largest(Program(2, 1, 1, (add, scale))) == (8.0, [8.0])
    half = Instruction(Op.SCALE, 1, 0, coefficient=Fraction(1, 2))
    assert _largest(Program(1, 0, 1, (half,))) == (1.0, [0.5])


@pytest.mark.parametrize("scheme", ["classical", *INTEGRAL])
def test_whole_numbers_up_to_the_bound_and_beyond(scheme):
    """Numbers that just fit, and larger ones, for which 53 bits are too few."""
    rng = np.random.default_rng(3)
    shapes = (190, 170), (170, 181)
    factor = largest_sums(None if scheme == "classical" else get(scheme))[2]
    fits = int((2**53 / factor / 170) ** 0.5 * 0.99)
    for most in (fits, 2 * fits, 2**30, 2**62):
        a, b = (rng.choice([-most, most, most - 1], x) for x in shapes)
        a[:5], b[:, :7] = most, most
        np.testing.assert_array_equal(falcon.gemm(a, b, scheme=scheme), a @ b)


@both_types
@pytest.mark.parametrize("most", [9, 2**22, 2**31, 2**63 - 1])
@pytest.mark.parametrize("scheme", ["auto", "classical", "strassen"])
def test_alpha_and_beta_have_all_bits(row, most, scheme):
    rng = np.random.default_rng(4)
    a, b = (whole(rng, x, most).astype(row.numpy) for x in ((171, 163), (163, 199)))
    c = whole(rng, (171, 199), 2**63 - 1).astype(row.numpy)
    product = a @ b
    with np.errstate(over="ignore"):
        for alpha in (1, -1, 3, 2**53 + 1, -(2**62) + 5, 2**63 + 1):
            for beta in (0, 1, -2, 2**53 + 1, -(2**63) + 9, 2**64 - 3):
                x, y = (np.array(s % 2**64, np.uint64).astype(row.numpy) for s in (alpha, beta))
                found = falcon.gemm(a, b, c, alpha=alpha, beta=beta, scheme=scheme)
                np.testing.assert_array_equal(found, x * product + y * c)
    for x, y in ((a[:9, :9], b[:9, :9]), (a[:1], b), (a, b[:, :1])):
        found = falcon.gemm(x, y, alpha=2**53 + 1)
        np.testing.assert_array_equal(found, (x @ y) * row.numpy.type(2**53 + 1))


@both_types
def test_the_plan_says_what_decides(row):
    a = np.full((256, 256), 3, row.numpy)
    plan = falcon.plan(a, a)
    assert plan.operand is BY_FLOAT[row]
    assert "float64 classical" in str(plan) and "where a sum may exceed 53 bits" in str(plan)
    np.testing.assert_array_equal(plan(a, a), a @ a)
    large = a << 60
    np.testing.assert_array_equal(plan(large, large), large @ large)
    for given in ({"arithmetic": "native"}, {"backend": "numpy"}):
        assert falcon.plan(a, a, **given).operand is row
    assert falcon.plan(a[:16], a).operand is row


@both_types
def test_batches_and_packed_operands(row):
    rng = np.random.default_rng(5)
    for most in (1000, 2**62):
        a, b = (whole(rng, x, most).astype(row.numpy) for x in ((3, 170, 160), (3, 160, 180)))
        np.testing.assert_array_equal(falcon.matmul(a, b), a @ b)
        np.testing.assert_array_equal(falcon.gemm(a[0], falcon.pack(b[0])), a[0] @ b[0])
        np.testing.assert_array_equal(falcon.gram(a[0]), a[0].T @ a[0])
        swapped = a.astype(a.dtype.newbyteorder())
        np.testing.assert_array_equal(falcon.matmul(swapped, b), a @ b)


@both_types
def test_a_limit_that_only_the_kernels_for_64_bits_keep(row):
    a = np.full((300, 300), 3, row.numpy)
    found = set()
    for limit in range(3_000, 90_000, 3_000):  # panels differ between instruction sets
        try:
            plan = falcon.plan(a, a, workspace_limit=limit)
        except ValueError:
            continue
        assert plan.workspace <= limit
        found.add(plan.operand)
        np.testing.assert_array_equal(falcon.gemm(a, a, workspace_limit=limit), a @ a)
    assert found == {row, BY_FLOAT[row]}
