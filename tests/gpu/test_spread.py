"""Badly scaled operands on the stand-in: lines are multiplied by powers of two, as on the host."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._core.scaling import Lines
from falcon._gpu import kernels, repaired
from falcon._gpu.geometry import UNIT, Tables
from falcon._gpu.steps import run

from .support import DTYPES, execute, kind, matrix, norms_of, on_device, packed_by

M, N, K = 70, 150, 90


def operands(dtype, uneven=None):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((M, K)), random.standard_normal((K, N))
    if uneven == "row":
        a[3] *= 300
    if uneven == "column":
        b[:, 5] *= 1e-3
    if uneven == "zeros":
        a[69] = 0
    if uneven == "both":
        a *= np.exp2(random.integers(-6, 6, (M, 1)))
        b *= np.exp2(random.integers(-6, 6, (1, N)))
    if uneven == "not finite":
        b[4, 4] = np.inf
    return a.astype(kind(dtype)), b.astype(kind(dtype))


def tables_of(cupy, found, lines, itemsize=8):
    """Powers of lines (0: of zeros, -1: unknown); the tables beside their reciprocals agree."""
    tables = cupy.asnumpy(found)[2:].view(f"f{itemsize}")
    units, repeated = -(-lines // UNIT) * UNIT, 16 // itemsize
    reciprocals, factors = tables[:lines], tables[units : units + lines]
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(factors, np.where(reciprocals > 0, 1 / reciprocals, 1))
    wide = tables[2 * units :][: repeated * lines].reshape(lines, repeated)
    np.testing.assert_array_equal(wide, np.tile(factors[:, None], repeated))
    return np.where(reciprocals > 0, factors, reciprocals)


def guarded(a, b, scheme, check="finite", adds=False):
    """The plan that "auto" would make, had it chosen that scheme; `adds`: to out in place."""
    with falcon.config(check=check):
        plan = falcon.plan(a, b, scheme=scheme)
    if adds:
        problem = replace(plan.problem, buffered=True)
        (method,) = plan.backend.candidates(problem, [plan.scheme], None)
        plan = replace(plan, problem=problem, method=method)
    return replace(plan, guarded=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uneven", ["row", "column", "zeros", "both", "not finite"])
@pytest.mark.parametrize("orders", ["CCC", "FCF", "SSC", "CFF"])
def test_uneven_operands_are_scaled(cupy, dtype, uneven, orders):
    """Only where values are not finite, a classical product replaces that of the scheme."""
    a, b = operands(dtype, uneven)
    left, right = (on_device(cupy, x, dtype, o) for x, o in zip((a, b), orders, strict=False))
    c = np.ones((M, N))
    out = on_device(cupy, c, dtype, orders[2])
    check = "none" if orders == "CFF" and uneven != "not finite" else "finite"
    plan = guarded(left, right, "strassen", check, adds=True)
    execute(plan, left, right, out, out, alpha=2.0, beta=-1.0)
    with np.errstate(all="ignore"):
        exact = 2 * (a.astype(float) @ b.astype(float)) - c
    found = cupy.asnumpy(out).astype(float)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    entrywise = norms_of(a, np.where(np.isfinite(b), b, 0))
    unit = {"float64": 2e-15, "float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    error = np.abs(found[finite] - exact[finite])
    assert (error <= unit * (1 + entrywise[finite])).all()
    if uneven == "zeros":
        assert (found[69] == -1).all()
    assert repaired.flag_of(plan).take() == (uneven == "not finite")


def powers_of_two(dtype, M, K, N):
    """Signs times powers of two, one for each row of A and column of B; a line of zeros in both.

    Once their powers are undone, all sums are exact: the product is, in every type.
    """
    most = {"float64": 20, "float16": 4}.get(dtype, 6)
    random = np.random.default_rng(M)
    a, b = (np.where(random.random(shape) < 0.5, -1.0, 1.0) for shape in ((M, K), (K, N)))
    a *= np.exp2(random.integers(-most, most + 1, (M, 1)))
    b *= np.exp2(random.integers(-most, most + 1, (1, N)))
    a[M // 2 + 1], b[:, 9] = 0, 0
    return a, b


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("orders", ["CCC", "FFF", "CFC", "FCF"])
@pytest.mark.parametrize("scheme", ["strassen", "2x3x3:15", "2x4x2:14"])
def test_every_line_takes_its_own_power(cupy, dtype, orders, scheme):
    """Exactly, by vectors and by elements, in blocks that vectors fill and that end before them."""
    for M, K, N in ((64, 144, 528), (61, 131, 289)):
        a, b = powers_of_two(dtype, M, K, N)
        for gap in (0, 8, 1):  # the last one: no access of more than an element is aligned
            pairs = zip((a, b, np.zeros((M, N))), orders, strict=True)
            left, right, out = (on_device(cupy, x, dtype, order, gap) for x, order in pairs)
            plan = guarded(left, right, scheme, check="none")
            execute(plan, left, right, None, out, alpha=2.0)
            np.testing.assert_array_equal(cupy.asnumpy(out).astype(float), 2 * (a @ b))
        if dtype != "float16":  # sums of unscaled lines are rounded
            found = cupy.asnumpy(replace(plan, guarded=False)(left, right)).astype(float)
            assert (found != a @ b).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_line_of_a_chunk_takes_its_own_power(cupy, dtype, packed):
    M, K, N = 61, 131, 289
    a, b = powers_of_two(dtype, M, K, N)
    left, right = (on_device(cupy, x, dtype) for x in (a, b))
    scheme = "strassen@strassen"
    limit = falcon.plan(left, right, scheme=scheme).workspace // 3
    with falcon.config(check="none", workspace_limit=limit):
        plan = replace(falcon.plan(left, right, scheme=scheme), guarded=True)
    layout = plan.method.layout
    assert layout.chunk[0] < layout.block[0] or layout.chunk[1] < layout.block[1]
    if packed:
        made = packed_by(plan, right)
        layout = falcon.plan(left, made, workspace_limit=limit).method.layout
        assert layout.chunk[0] < layout.block[0] or layout.chunk[1] < layout.block[1]
        found = falcon.gemm(left, made, workspace_limit=limit)
    else:
        found = plan(left, right)
    np.testing.assert_array_equal(cupy.asnumpy(found).astype(float), a @ b)


def test_a_problem_that_is_repaired_is_classical_while_its_data_are_so(cupy, state):
    """Eight calls, then nearly twice as many, and again the scheme when the data are good."""
    a, b = operands("float32", "not finite")
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    plan, asked = guarded(left, right, "strassen"), falcon.plan(left, right, scheme="strassen")

    def repairs(plan, *operands):
        state.launches.clear()
        found = plan(*operands)
        return bool(state.launches), cupy.asnumpy(found)

    for scheme in (asked, asked, plan):  # one by name is always what was asked for
        assert repairs(scheme, left, right)[0]
    even = [on_device(cupy, x, "float32") for x in operands("float32")]
    native = cupy.asnumpy(falcon.gemm(*even, scheme="classical"))
    for calls in (8, 14):
        for _ in range(calls):
            by_scheme, found = repairs(plan, *even)
            assert not by_scheme
            np.testing.assert_array_equal(found, native)
        assert repairs(plan, left, right)[0]
    for _ in range(100):
        repairs(plan, *even)
    assert all(repairs(plan, *even)[0] for _ in range(20))


def test_a_few_lines_that_are_repaired_do_not_make_a_problem_classical(cupy, state):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(x).astype(np.float32) for x in ((3200, 40), (40, 300)))
    a[5, 7] = np.nan
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    for _ in range(3):
        state.launches.clear()
        found = falcon.gemm(left, right, arithmetic="fp16x3", scheme="classical", max_growth=16)
        assert any("repair" in name for name in state.launches)
        np.testing.assert_allclose(cupy.asnumpy(found), a @ b, rtol=1e-4, atol=1e-4)


def test_flags_are_of_one_problem_each(cupy, state, monkeypatch, doors):
    """Also with more problems than are remembered, and many threads at once."""
    doors.numbers(flags=50)
    shapes = [(M, 64, 64) for M in range(1, 100)]
    plans = [falcon.plan((M, K), (K, N), "float32", backend="gpu") for M, K, N in shapes]
    plans = [replace(x, guarded=True) for x in plans]
    with ThreadPoolExecutor(16) as pool:
        flags = list(pool.map(repaired.flag_of, plans * 4))
    pointers = [x.pointer for x in set(flags) if x is not None]
    assert len(pointers) == len(set(pointers)) == 50
    assert max(pointers) - min(pointers) == 4 * 49
    flag = next(x for x in flags if x is not None)
    flag._most, last = 2, []
    for count in (1, 1, 3, 3, 0):  # few, then many, of which some were started before
        flag._count.value = count
        last.append((flag.take(), flag._last))
    assert last == [(False, 0), (False, 0), (True, 8), (True, 8), (True, 8)]
    for plan, flag in zip(plans * 4, flags, strict=True):
        assert repaired.flag_of(plan) is flag or flag is None
    monkeypatch.setattr(repaired, "_memory", None)
    repaired._flags.clear()
    state.capturing = True
    assert repaired.flag_of(plans[0]) is None
    state.capturing = False


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("check", ["finite", "none"])
def test_even_operands_keep_the_scheme(cupy, state, dtype, check):
    left, right = (on_device(cupy, x, dtype) for x in operands(dtype))
    plan = guarded(left, right, "2x3x2:11", check)
    out, asked = (on_device(cupy, np.zeros((M, N)), dtype) for _ in range(2))
    execute(plan, left, right, None, out)
    execute(replace(plan, guarded=False), left, right, None, asked)
    np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(asked))
    for name in ("norms", "powers"):  # of A and B together
        assert sum(name in x for x in state.launches) == 1


@pytest.mark.parametrize("uneven", [None, "row", "column", "not finite"])
def test_packed_operands(cupy, uneven):
    """Columns are scaled when B is packed; its source serves the classical product."""
    a, b = operands("float32", uneven)
    left, right = (on_device(cupy, x, "float32") for x in (a, b))
    plan = guarded(left, right, "strassen")
    packed = falcon.pack(right, scheme="strassen")
    assert packed.column_norms is None
    scheme = cupy.asnumpy(falcon.gemm(left, packed))
    packed = packed_by(plan, right)
    for name in ("auto", packed.scheme):  # columns stay scaled where rows are not looked at
        found = cupy.asnumpy(falcon.gemm(left, packed, scheme=name))
        with np.errstate(all="ignore"):
            exact = a.astype(float) @ b
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(np.isfinite(found), finite)
        norms = norms_of(a, b)
        if uneven != "row" or name == "auto":
            assert (np.abs(found[finite] - exact[finite]) <= 1e-6 * norms[finite]).all()
        scaled = uneven == "column" or (uneven == "row" and name == "auto")
        assert (found == scheme)[finite].all() == (not scaled)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("room", [64 * 8 * M, 0])
def test_powers_are_the_hosts(cupy, order, parts, room):
    """They leave the same range of norms; lines of zeros have none. With no room for parts, too."""
    random = np.random.default_rng(2)
    x = np.exp(3 * random.standard_normal((M, 1))) * operands("float64")[0]
    x[7] = x[M - 1] = 0
    on_gpu, block = on_device(cupy, x, "float64", order), -(-M // parts)
    memory = cupy.empty((64 * M,), np.float64)
    scale = cupy.empty((Tables(M, 8).nbytes // 8,), np.float64)
    lines = kernels.Lines(matrix(on_gpu), block, int(scale.data.ptr))
    run(*kernels.powers([lines], int(memory.data.ptr), room))
    assert cupy.asnumpy(scale)[:1].view(np.uint32)[0] == 2
    squares, powers = (x * x).sum(1), tables_of(cupy, scale, M)
    expected = Lines(squares, parts, M, block).powers
    np.testing.assert_array_equal(powers == 0, expected == 0)
    for place in range(block):
        group = slice(place, None, block)
        present = expected[group] > 0
        found, host = powers[group][present], expected[group][present]
        assert found.min() == 1
        if Lines(squares[group][present], 2, 9, 1).spread > 1.5:
            # Where two gaps of the circle are equal, either may be cut.
            levels = np.rint(32 * np.log2(squares[group][present]))
            assert np.ptp(levels + 64 * np.log2(found)) == np.ptp(levels + 64 * np.log2(host))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_norms_that_are_hard_to_measure(cupy, dtype):
    """Squares that the sums' type cannot hold; what a double cannot hold either is unknown."""
    small, large = (1e-30, 1e30) if dtype == "float32" else (1e-170, 1e170)
    x = operands(dtype)[0]
    x[1] *= small
    x[2] *= small
    x[M // 2 + 2] *= small
    x[3] *= large
    x[4, 3] = np.nan
    on_gpu = on_device(cupy, x, dtype)
    itemsize = 4 if dtype == "float32" else 8
    scale = cupy.empty((Tables(M, itemsize).nbytes // 8,), np.float64)
    lines = kernels.Lines(matrix(on_gpu), M // 2, int(scale.data.ptr))
    run(*kernels.powers([lines], 0, 0))
    found = tables_of(cupy, scale, M, itemsize).reshape(2, -1)[:, :6]
    assert (found[:, 4] == -1).all()
    assert (found[:, [0, 5]] == 1).all()
    # Even groups are as they were; 2^100 between two lines is too much for float32.
    assert (found[:, 2] == (1 if dtype == "float32" else -1)).all()
    assert (found[:, [1, 3]] == -1).all()
