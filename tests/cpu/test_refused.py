"""What the engine refuses: schemes that name what does not exist, scales that do not fit."""

import numpy as np
import pytest

pytest.importorskip("falcon._cpu._core")

from falcon._cpu import _core
from falcon.codegen.program import Instruction, Op, Program
from falcon.codegen.update import Updates

from .support import gemm

COPY = Program(1, 0, 1, (Instruction(Op.SCALE, 1, 0),))


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
            engine_form(Program(*slots, tuple(Instruction(*x) for x in steps)), whole, 1)


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
