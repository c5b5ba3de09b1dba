"""The classical driver on every instruction set that runs here, through the binding itself.

Shapes, strides, alpha and beta bit for bit on whole numbers; Netlib's gate on random ones; every
operand ends at an unreadable page, C's gaps hold canaries, the workspace holds NaN.
"""

import json
import mmap

import numpy as np
import pytest

from .support import (
    DTYPES,
    KINDS,
    WRITABLE,
    Guarded,
    Operand,
    gemm,
    layout,
    require_cpu,
    run_script,
    same_bits,
    whole,
)

require_cpu()
from falcon._cpu import _core  # noqa: E402  (absent where the extension is)

# Those with float32 kernels of their own.
ISAS = [x for x in _core.supported_isas() if _core.kernel_info("f32", x)["isa"] == x]
everywhere = pytest.mark.parametrize("isa", ISAS)
both = pytest.mark.parametrize("name", DTYPES)
SCALARS = [(1, 0), (1, 1), (-1, 0), (2, -3), (1, 0), (0, 2), (0, 0), (3, 1)]


def sizes(isa, name):
    """What the reliability checklist names, with this kernel's own tile."""
    kernel = _core.kernel_info(name, isa)
    found = {*range(10), 15, 16, 17, 31, 32, 33, 37, 61, 101}
    for tile in (kernel["mr"], kernel["nr"], kernel["vlen"]):
        found.update(factor * tile + step for factor in (1, 2) for step in (-1, 0, 1))
    return sorted(found)


def check_case(isa, name, shape, rng, *, engine):
    """Multiply whole numbers in guarded memory; everything else is drawn at random."""
    M, N, K = shape
    dtype = DTYPES[name]
    kinds = [str(rng.choice(list(x))) for x in (KINDS, KINDS, WRITABLE)]
    ends = rng.integers(0, 2, 3).astype(bool)
    alpha, beta = SCALARS[rng.integers(len(SCALARS))]
    a, b, c = (
        Operand(*extents, dtype, kind, bool(end))
        for extents, kind, end in zip(((M, K), (K, N), (M, N)), kinds, ends, strict=True)
    )
    x, y = a.fill(whole(rng, (M, K))), b.fill(whole(rng, (K, N)))
    expected = alpha * (x.astype(np.int64) @ y.astype(np.int64)) if K else 0
    if beta:  # else C keeps its NaN
        expected = expected + beta * c.fill(whole(rng, (M, N))).astype(np.int64)
    before = x.copy(), y.copy()
    options = {"threads": int(rng.integers(1, 4)), "isa": isa}
    if engine:
        need = layout(x, y, c.array, is_blocked=True, **options).nbytes
        options |= {"workspace": Guarded(max(need, 64)).bytes, "profile": True}
    gemm(x, y, c.array, alpha, beta, **options)
    case = f"{isa} {name} M, N, K = {shape}, {kinds}, alpha {alpha}, beta {beta}, {options.keys()}"
    np.testing.assert_array_equal(c.array, np.broadcast_to(expected, (M, N)), err_msg=case)
    assert c.gaps_untouched(), case
    assert same_bits(x, before[0]) and same_bits(y, before[1]), case


LONG = [(1, 300, 700), (300, 1, 700), (700, 300, 1), (1, 1, 3001), (257, 131, 397), (2003, 3, 41),
        (3, 2003, 41), (41, 43, 3001), (13, 600, 600), (25, 33, 1031), (1200, 17, 90)]  # fmt: skip


@everywhere
@both
@pytest.mark.parametrize("engine", [False, True], ids=["as called", "blocked"])
def test_shapes_bit_for_bit(isa, name, engine):
    """Tiny ones, those around tiles, and tall, flat and long ones."""
    rng = np.random.default_rng(1)
    tiny = [x for x in np.ndindex(10, 10, 10) if rng.integers(5) == 0 or min(x) < 2]
    around = rng.choice(sizes(isa, name), (150, 3)).tolist()
    for shape in (*tiny, *map(tuple, around), *LONG, *LONG):
        check_case(isa, name, shape, rng, engine=engine)


@everywhere
@both
@pytest.mark.parametrize("shape", [(7, 5, 3), (150, 160, 170)], ids=str)
def test_alpha_zero_never_reads_a_or_b(isa, name, shape):
    M, N, K = shape
    a, b, c = (Operand(*x, DTYPES[name]) for x in ((M, K), (K, N), (M, N)))
    for beta in (0, 1, -2):
        c.array[...] = 3 if beta else np.nan
        a.memory.forbid()
        b.memory.forbid()
        gemm(a.array, b.array, c.array, 0.0, beta, isa=isa)
        a.memory.allow()
        b.memory.allow()
        np.testing.assert_array_equal(c.array, np.full((M, N), 3.0 * beta))


def ratio(isa, a, b, c, alpha, beta, threads):
    """Netlib's ratio: the largest error over the error bound of a classical sum of that entry."""
    dtype = a.dtype
    wide = np.float64 if dtype == np.float32 else np.longdouble
    x, y, z = (v.astype(wide) for v in (a, b, c))
    exact = wide(dtype.type(alpha)) * (x @ y) + wide(dtype.type(beta)) * z
    scale = abs(alpha) * (abs(x) @ abs(y)) + abs(beta * z)
    got = c.copy()
    gemm(a, b, got, alpha, beta, isa=isa, threads=threads)
    lost, allowed = abs(got - exact), scale * (np.finfo(dtype).eps / 2)
    assert (lost[allowed == 0] == 0).all()
    return float((lost[allowed > 0] / allowed[allowed > 0]).max(initial=0))


@everywhere
@both
def test_netlib_gate(isa, name):
    rng = np.random.default_rng(5)
    dtype = DTYPES[name]
    for M, N, K in ((17, 19, 23), (67, 71, 301), (130, 90, 150), (5, 7, 1501), (1, 64, 500)):
        for alpha, beta in ((1, 0), (-0.7, 1.3), (1e-3, 0.1)):
            a, b, c = (rng.standard_normal(x) for x in ((M, K), (K, N), (M, N)))
            badly = a * 10.0 ** rng.integers(-6, 7, (M, 1)), b * 10.0 ** rng.integers(-6, 7, (1, N))
            cancelling = np.hstack([a, -a]), np.vstack([b, b * (1 + 1e-4)])
            positive = (abs(a), abs(b)) if K < 200 else (a, b)  # errors add up with sqrt(K)
            for x, y in ((a, b), badly, positive, cancelling):
                found = ratio(
                    isa, x.astype(dtype), y.astype(dtype), c.astype(dtype), alpha, beta, 2
                )
                assert found < 16, (found, M, N, K, alpha, beta)


@everywhere
@both
def test_subnormals_infinities_and_signed_zeros(isa, name):
    dtype = DTYPES[name]
    tiny = np.finfo(dtype).smallest_subnormal
    for shape in ((3, 4, 5), (110, 110, 110)):
        M, N, K = shape
        a, b, c = np.zeros((M, K), dtype), np.ones((K, N), dtype), np.empty((M, N), dtype)
        a[:, 0] = tiny
        gemm(a, b, c, isa=isa)
        assert (c == tiny).all()  # not flushed to zero
        a[0, 0] = np.inf
        a[1, 1] = np.nan
        gemm(a, b, c, isa=isa)
        assert (c[0] == np.inf).all() and np.isnan(c[1]).all() and (c[2:] == tiny).all()


@everywhere
@both
def test_a_workspace_that_is_too_small_is_refused(isa, name):
    a, b, c = (np.ones((200, 200), DTYPES[name]) for _ in range(3))
    need = layout(a, b, c, isa=isa).nbytes
    assert need > 0
    for bad in (Guarded(need - 64).bytes, Guarded(need + 64).bytes[8:-56]):  # small, misaligned
        with pytest.raises(ValueError, match=f"must hold {need} bytes"):
            gemm(a, b, c, isa=isa, workspace=bad)


def test_a_workspace_grows_unless_arrays_view_it():
    a, b, c = np.ones((200, 300)), np.ones((300, 400)), np.empty((200, 400))
    need = layout(a, b, c).nbytes
    room = _core.Workspace(64)
    view = np.frombuffer(room, np.uint8)
    with pytest.raises(BufferError, match="cannot grow while arrays view it"):
        gemm(a, b, c, workspace=room)
    del view
    c[:] = 0
    gemm(a, b, c, workspace=room)
    assert room.nbytes == need
    np.testing.assert_array_equal(c, 300)


def test_what_does_not_fit_is_refused():
    a = np.ones((3, 4))
    good, c = np.ones((4, 5)), np.ones((3, 5))
    planned = layout(a, good, c)
    frozen = c.copy()
    frozen.flags.writeable = False
    for bad in (
        (a, good.astype("f4"), c),
        (a, good[:3], c),
        (a, good, c[:2]),
        (a, good, c[:, :4]),
        (good, a, c),
        (a, good[0], c),
        (a, good, c[0]),
        (a, good, frozen),
    ):
        with pytest.raises((ValueError, TypeError, BufferError)):
            _core.gemm(planned, *bad)
    np.testing.assert_array_equal(c, 1)


def huge_strides(rows, columns, stride, dtype):
    """Rows that are 8 GiB apart; only the pages in use take memory."""
    nbytes = ((rows - 1) * stride + columns) * np.dtype(dtype).itemsize
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's; in the module from 3.13
    try:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    except (OSError, ValueError, MemoryError) as error:
        pytest.skip(f"no {nbytes / 2**30:.0f} GiB of address space: {error}")
    size = np.dtype(dtype).itemsize
    flat = np.frombuffer(memory, dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (stride * size, size))


@everywhere
@pytest.mark.parametrize("which", range(3), ids=["a", "b", "c"])
def test_offsets_beyond_31_bits(isa, which):
    rng = np.random.default_rng(7)
    shapes = ((3, 4), (4, 5), (3, 5))
    operands = [np.empty(x, np.float32) for x in shapes]
    operands[which] = huge_strides(*shapes[which], 2**31 + 40, np.float32)
    a, b, c = operands
    a[...], b[...] = whole(rng, a.shape), whole(rng, b.shape)
    for x, y, z in ((a, b, c), (b.T, a.T, c.T)):
        z[...] = 0
        for profile in (False, True):
            gemm(x, y, z, isa=isa, profile=profile)
            np.testing.assert_array_equal(z, x.astype(int) @ y.astype(int))


FORCED = """
import json, numpy as np, falcon
found = falcon.show_config("dict")
a = np.arange(35.0 * 45).reshape(35, 45) % 7
try:
    c = falcon.gemm(a, a.T, backend="cpu", scheme="strassen")
    right = bool((c == a @ a.T).all())
except ValueError as error:
    right = str(error)
auto = bool((falcon.gemm(a, a.T, scheme="strassen") == a @ a.T).all())
print(json.dumps([found["backends"]["cpu"], found["cpu kernels"], right, auto]))
"""


@everywhere
def test_falcon_isa_forces_an_instruction_set(isa):
    state, kernels, right, auto = json.loads(run_script(FORCED, FALCON_ISA=isa))
    assert state == "available"
    assert kernels["in use"] == isa
    assert kernels["f32 kernel"].startswith(f"{isa}_f32_ukr_")
    assert kernels["f64 kernel"].startswith(f"{isa}_f64_ukr_")
    assert right is True and auto is True


@pytest.mark.parametrize(
    "isa", [*(x for x in _core.ISA_NAMES if x not in _core.supported_isas()), "mmx"]
)
def test_an_unsupported_instruction_set_is_a_reason(isa):
    state, kernels, refusal, auto = json.loads(run_script(FORCED, FALCON_ISA=isa))
    assert f"FALCON_ISA is {isa!r}" in state and ISAS[0] in state
    assert kernels["in use"] == "none"
    assert "backend 'cpu' is not available" in refusal and isa in refusal
    assert auto is True  # by NumPy
    with pytest.raises(ValueError, match=f"instruction set '{isa}' is not"):
        _core.kernel_info("f32", isa)
    one = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"instruction set .* is not"):
        gemm(one, one, one.copy(), isa=isa)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@everywhere
def test_which_panels_are_kept_in_l1(isa, dtype):
    """B's on AVX2 with several slices of K, else A's."""
    kc = _core.kernel_info(dtype, isa)["kc"]
    for K, several in ((kc, False), (kc + 1, True), (4 * kc, True)):
        a, b, c = (np.ones(x, DTYPES[dtype]) for x in ((40, K), (K, 50), (40, 50)))
        profile = gemm(a, b, c, isa=isa, profile=True)
        assert profile["b_kept"] is (several and isa == "avx2")
        assert (c == K).all()


@everywhere
def test_few_rows_are_planned_where_the_engine_reads_b_in_place(isa):
    """A plan for few rows makes no copy of B; with a B by columns the same problem copies it."""
    script = """
import json
from falcon._backends import BACKENDS
from falcon._core.dtypes import of
from falcon._core.problem import Problem
from falcon._cpu import _core
from falcon._cpu.extension import isa
found = []
for name, engine in (("float32", "f32"), ("float64", "f64")):
    for M in range(2, 17):
        problem = Problem(M, 1024, 1024, of(name))
        planned = BACKENDS["cpu"].candidates(problem, (None,), None)[0].few_rows
        room = [
            _core.plan(M, 1024, 1024, engine, isa=isa(), b_by_rows=x).nbytes for x in (True, False)
        ]
        found.append((name, M, planned, room[0] < room[1]))
print(json.dumps(found))
"""
    found = json.loads(run_script(script, FALCON_ISA=isa))
    assert [x for x in found if x[2] != x[3]] == []
    for name, engine in (("float32", "f32"), ("float64", "f64")):
        rows = [M for dtype, M, planned, _ in found if dtype == name and planned]
        most = min(16, 2 * _core.kernel_info(engine, isa)["mr"])
        assert rows == list(range(2, most + 1))
