"""The classical driver on every instruction set that runs here, through the binding itself.

Netlib's gate on random numbers, subnormals, workspaces, offsets beyond 31 bits, FALCON_ISA. Shapes,
strides, alpha and beta bit for bit, where operands end at unreadable pages: the C driver, and for
every scheme test_lcma.py.
"""

import json
import mmap

import numpy as np
import pytest

from falcon._cpu import _core

from .support import (
    DTYPES,
    Guarded,
    gemm,
    layout,
    run_script,
    whole,
)

# Those with float32 kernels of their own.
ISAS = [x for x in _core.supported_isas() if _core.kernel_info("f32", x)["isa"] == x]
everywhere = pytest.mark.parametrize("isa", ISAS)
both = pytest.mark.parametrize("name", DTYPES)


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
    a, b, c = (np.ones(x, DTYPES[name]) for x in ((300, 1100), (1100, 300), (300, 300)))
    need = layout(a, b, c, isa=isa).nbytes
    assert need > 0
    for bad in (Guarded(need - 64).bytes, Guarded(need + 64).bytes[8:-56]):  # small, misaligned
        with pytest.raises(ValueError, match=f"must hold {need} bytes"):
            gemm(a, b, c, isa=isa, workspace=bad)


def test_a_workspace_grows_unless_arrays_view_it():
    a, b, c = np.ones((200, 1300)), np.ones((1300, 400)), np.empty((200, 400))
    need = layout(a, b, c).nbytes
    room = _core.Workspace(64)
    view = np.frombuffer(room, np.uint8)
    with pytest.raises(BufferError, match="cannot grow while arrays view it"):
        gemm(a, b, c, workspace=room)
    del view
    c[:] = 0
    gemm(a, b, c, workspace=room)
    assert room.nbytes == need
    np.testing.assert_array_equal(c, 1300)


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
from falcon._core.dtypes import dtype_of
from falcon._core.problem import Problem
from falcon._cpu import _core
from falcon._cpu.extension import isa
found = []
for name, engine in (("float32", "f32"), ("float64", "f64")):
    for M in range(2, 17):
        problem = Problem(M, 1024, 1024, dtype_of(name))
        planned = BACKENDS["cpu"].candidates(problem, (None,), None)[0].b_in_place
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
