"""Layouts: what plan() works out, operands that lie otherwise than planned, what is refused."""

import itertools

import numpy as np
import pytest

import falcon
from falcon._cpu import _core
from falcon._cpu.programs import engine_scheme
from falcon.codegen.cpu_emit import operations
from falcon.codegen.program import Instruction, Op, Program
from falcon.codegen.update import Updates
from falcon.schemes import get

from .support import Operand, gemm, layout, run_script, same_bits, whole


@pytest.mark.parametrize("shape", [(3, 200, 300), (1, 70, 4000), (9, 1000, 80), (150, 140, 160)])
@pytest.mark.parametrize("scheme", [None, "strassen"])
def test_operands_may_lie_otherwise_than_planned(shape, scheme):
    """The workspace, of the planned size, grows where that needs more."""
    rng = np.random.default_rng(1)
    M, N, K = shape
    engine = engine_scheme(None if scheme is None else get(scheme))
    planned = _core.plan(M, N, K, "f32", scheme=engine, threads=2)
    for kinds in itertools.product(("C", "Fortran", "every second"), repeat=3):
        a, b, c = (
            Operand(*x, np.float32, kind)
            for x, kind in zip(((M, K), (K, N), (M, N)), kinds, strict=True)
        )
        x, y = a.fill(whole(rng, (M, K))), b.fill(whole(rng, (K, N)))
        _core.gemm(planned, x, y, c.array, workspace=_core.Workspace(planned.nbytes))
        np.testing.assert_array_equal(c.array, x.astype(int) @ y.astype(int), err_msg=str(kinds))
        assert c.gaps_untouched()


def test_other_strides_give_the_bits_of_a_plan_for_them():
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(x).astype("f4") for x in ((300, 2000), (2000, 310)))
    planned = _core.plan(300, 310, 2000, "f32", limit=1 << 20)
    for c in (np.empty((300, 310), "f4"), np.empty((310, 300), "f4").T):
        _core.gemm(planned, a, b, c)
        other = np.empty_like(c)
        gemm(a, b, other, limit=1 << 20)
        np.testing.assert_array_equal(c, other)


@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_a_plan_called_with_another_layout_gets_the_workspace_for_it(scheme):
    """By columns, C needs more than was planned; for which of the shapes depends on the kernels."""
    rng = np.random.default_rng(12)
    for M, K, N in ((100, 300, 1200), (600, 400, 500), (900, 150, 100)):
        a, b = (whole(rng, x).astype(float) for x in ((M, K), (K, N)))
        plan = falcon.plan(a, b, scheme=scheme, backend="cpu")
        falcon.release_workspace()  # the next call takes what was planned
        out = plan(np.asfortranarray(a), b, np.empty((M, N), order="F"))
        np.testing.assert_array_equal(out, a.astype(int) @ b.astype(int))


def test_layouts_are_equal_if_their_numbers_are():
    same = [_core.plan(300, 310, 320, "f32", threads=2) for _ in range(2)]
    assert same[0] == same[1] and len({*same}) == 1
    others = [
        _core.plan(300, 310, 320, "f32", threads=2, **more)
        for more in ({"limit": 1}, {"triangle": None, "c_by_columns": True})
    ]
    others += [_core.plan(300, 310, 320, "f64", threads=2), _core.plan(300, 310, 321, "f32")]
    assert len({*same, *others}) == 5 and same[0] != None  # noqa: E711


def test_a_given_blocking_is_kept_and_the_rest_is_chosen():
    made = _core.plan(500, 600, 700, "f32", blocking=(96, 128, 256, 64, 2, 1, 0, 0))
    assert made.blocking[:6] == (96, 128, 256, 64, 2, 1) and 0 not in made.blocking
    assert made.chunks == (96, 128, 256)
    for bad in ((-1, *[0] * 7), (0, 0, 0, 3, *[0] * 4)):
        with pytest.raises(ValueError, match="no negative numbers, kc a multiple of"):
            _core.plan(5, 6, 7, "f32", blocking=bad)


def test_a_profile_of_a_small_product_needs_blocks():
    a, c = np.ones((8, 8)), np.empty((8, 8))
    with pytest.raises(ValueError, match="is_blocked=True"):
        _core.gemm(layout(a, a, c), a, a, c, profile=True)
    assert gemm(a, a, c, profile=True)["kernel"]
    assert (c == 8).all()


@pytest.mark.parametrize("operand", range(3))
def test_vectors_and_stacks_are_no_operands(operand):
    planned, frozen = _core.plan(4, 4, 4, "f64"), np.ones((4, 4))
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match="read-only"):
        _core.gemm(planned, frozen, frozen, frozen)
    for wrong in (np.ones(4), np.ones((4, 4, 4)), np.ones((4, 4), np.float32), np.ones((4, 5))):
        given = [np.ones((4, 4)) for _ in range(3)]
        given[operand] = wrong
        with pytest.raises(ValueError, match=f"^{'abc'[operand]} does not fit: "):
            _core.gemm(planned, *given)


def test_a_layout_that_is_planned_before_a_fork_of_openmps_team():
    script = """
import os
import numpy as np
from falcon._cpu import _core
_core.threading("openmp")
a, c = np.ones((600, 600)), np.empty((600, 600))
planned = _core.plan(600, 600, 600, "f64", threads=3)
workspace = _core.Workspace(planned.nbytes)
_core.gemm(planned, a, a, c, workspace=workspace)
child = os.fork()
if child == 0:
    c[:] = 0
    _core.gemm(planned, a, a, c, workspace=workspace)
    os._exit(0 if (c == 600).all() else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run_script(script) == "0"


def test_what_is_read_in_place():
    """Operands that fit into the caches, if threads can share them; a B by columns is in panels."""
    few = 2 * _core.kernel_info("f32")["mr"]  # rows of A beside which a larger B is read in place
    cases = {
        (300, 300, 300): True,
        (440, 440, 440): True,
        (450, 450, 450): False,
        (300, 300, 1025): False,
        (few, 1000, 300): True,
        (few + 1, 1000, 300): False,
        (1000, 20, 300): True,
        (20, 20, 3000): False,
    }
    found = {x: _core.plan(*x, "f32", threads=2).in_place for x in cases}
    assert found == cases
    assert not _core.plan(1000, 20, 300, "f32", threads=2, b_by_rows=False).in_place
    assert not _core.plan(300, 300, 300, "i8", threads=2).in_place


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("isa", _core.supported_isas())
def test_products_read_in_place_have_the_same_bits_on_any_threads(isa, dtype):
    rng = np.random.default_rng(3)
    for M, N, K in ((130, 260, 70), (260, 130, 70), (150, 150, 300), (20, 700, 100)):
        a, b = (rng.integers(-999, 999, x).astype(dtype) / 7 for x in ((M, K), (K, N)))
        a, b = a.astype(dtype), b.astype(dtype)
        for x, y in itertools.product((a, np.asfortranarray(a)), (b, np.asfortranarray(b))):
            found = []
            for threads in (1, 2, 3, 16):
                found.append(np.empty((M, N), dtype))
                gemm(x, y, found[-1], isa=isa, threads=threads)
            assert all(np.array_equal(found[0], z) for z in found)
            np.testing.assert_allclose(found[0], a @ b, rtol=0, atol=0.01 * K)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_tiles_are_as_high_as_c_where_b_would_go_to_memory(kind):
    """Tiles then pack B themselves: it takes no workspace. No bit depends on tiles."""
    M, N, K, l3 = 256, 8192, 1024, min(_core.cache_sizes()["l3"], 32 << 20)
    info, dtype = _core.kernel_info(kind), np.dtype({"f32": "f4", "f64": "f8"}[kind])
    panels = -(-M // info["mr"])
    chosen = _core.plan(M, N, K, kind)
    slice_of_a = panels * info["mr"] * chosen.blocking[3] * dtype.itemsize
    of_b = K * N * dtype.itemsize
    is_high = of_b > l3 / 2 and slice_of_a <= min(1600 << 10, l3 / 8)
    low = _core.plan(M, N, K, kind, blocking=(0, 0, 0, 0, max(1, panels // 3), 0, 0, 0))
    if is_high:
        assert chosen.blocking[4] == panels and chosen.nbytes < low.nbytes - of_b / 2
        many = _core.plan(M, N, K, kind, threads=64)
        panels_b = -(-N // info["nr"])
        assert many.blocking[4] == panels and many.blocking[5] <= -(-panels_b // 64)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(x).astype(dtype) for x in ((M, K), (K, N)))
    found = [np.empty((M, N), dtype) for _ in range(2)]
    for planned, c in zip((chosen, low), found, strict=True):
        _core.gemm(planned, a, b, c)
    assert same_bits(*found)
    assert _core.plan(M, N, K, kind, is_packed=True).blocking[4] < panels or panels < 25


NARROW = [(1663, 120, 4116), (105, 5571, 7783), (229, 134, 6837), (5707, 113, 2556)]


@pytest.mark.parametrize("isa", _core.supported_isas())
def test_classical_layouts_keep_a_limit(isa):
    """Narrow matrices too, whose tiles share panels although that takes more memory than usual."""
    rng = np.random.default_rng(1)
    drawn = [tuple(int(2 ** rng.uniform(5, 13)) for _ in "MNK") for _ in range(1000)]
    for shape in NARROW + drawn:
        for kind, threads, limit in (("f64", 8, 4 << 20), ("f64", 2, 8 << 20), ("f32", 3, 4 << 20)):
            by = {"c_by_columns": shape[0] % 3 == 0, "b_by_rows": shape[1] % 3 > 0}
            made = _core.plan(*shape, kind, threads=threads, limit=limit, isa=isa, **by)
            assert made.nbytes <= limit, (shape, kind, threads, limit, by, made.blocking)


# --- what the engine refuses -----------------------------------------------------------------


PLACE = {0: 0, 1: 1}
COPY = operations(Program(1, 0, 1, (Instruction(Op.SCALE, 1, 0),)), PLACE)


def engine_form(left, steps, n_slots):
    """A scheme <1,1,1;1>."""
    return _core.Scheme(1, 1, 1, left, COPY, Updates((0,), steps, n_slots))


def test_a_register_that_does_not_exist_is_refused_by_the_engine():
    """The engine checks every register and block index before it trusts a program."""
    whole = [[(0, -1, 1.0, True, True)]]
    engine_form(COPY, whole, 1)
    for slots, steps in (
        ((1, 0, 1), [(Op.SCALE, 1, 2)]),
        ((1, 0, 1), [(Op.SCALE, 2, 0)]),
        ((1, 0, 1), [(Op.SCALE, 1, -2)]),
        ((1, 0, 1), [(Op.SCALE, 0, 0)]),
        ((1, 0, 1), [(Op.ADD, 1, 0, 2)]),
        ((1, 0, 1), [(Op.ADD, 1, 0)]),
        ((2, 0, 1), [(Op.SCALE, 2, 0)]),
        ((1, 0, 2), [(Op.SCALE, 1, 0), (Op.SCALE, 2, 0)]),
    ):
        with pytest.raises(ValueError, match="scheme <1,1,1;1>"):
            left = Program(*slots, tuple(Instruction(*x) for x in steps))
            engine_form(operations(left, PLACE), whole, 1)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([], "0 lists of steps"),
        ([[(2, -1, 1.0, True, True)]], "slot that does not exist"),
        ([[(-1, -1, 1.0, True, True)]], "slot that does not exist"),
        ([[(0, 0, 1.0, True, True)]], "sum that does not exist"),
        ([[(0, -2, 1.0, True, True)]], "sum that does not exist"),
        ([[(0, 2, 1.0, True, True)]], "sum that does not exist"),
    ],
)
def test_slots_that_do_not_exist_are_refused_by_the_engine(steps, why):
    """Slot 0 is the block of C, slot 1 a sum."""
    shared = [[(1, -1, 1.0, True, True), (0, 1, 1.0, True, True)]]
    engine_form(COPY, shared, 2)
    with pytest.raises(ValueError, match=why):
        engine_form(COPY, steps, 2)


def test_scales_of_another_shape_are_refused():
    a = np.ones((8, 8))
    for scales in (np.ones(7), np.ones(8, np.float32), np.ones((8, 1)), np.ones(16)[::2]):
        with pytest.raises((ValueError, BufferError), match=r"scales must|contiguous"):
            gemm(a, a, a.copy(), row_scales=scales)
