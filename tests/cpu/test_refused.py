"""What the engine refuses: schemes whose programs or steps are unsound, scales that do not fit."""

import numpy as np
import pytest

pytest.importorskip("falcon._cpu._core")

from falcon._cpu import _core

from .support import gemm


def test_a_scheme_that_is_unsound_is_refused_by_the_engine():
    """The engine checks every register and block index before it trusts a program."""
    store = "store"
    good, whole = ([(store, 0, 0, 0, 1.0)], 0), [[(0, -1, 1.0, True, True)]]
    _core.Scheme(1, 1, 1, 1, good, good, whole, 1)
    for u in (
        ([(store, 0, 1, 0, 1.0)], 0),
        ([(store, 1, 0, 0, 1.0)], 0),
        ([(store, 0, -2, 0, 1.0)], 0),
        ([("axpy", 0, 0, 0, 1.0)], 0),
        ([("add", 0, 0, 0, 1.0)], 0),
        ([], 0),
    ):
        with pytest.raises(ValueError, match="scheme <1,1,1;1>"):
            _core.Scheme(1, 1, 1, 1, u, good, whole, 1)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([[]], "not completed"),
        ([], "0 lists of steps"),
        ([[(2, -1, 1.0, True, True)]], "slot that does not exist"),
        ([[(-1, -1, 1.0, True, True)]], "slot that does not exist"),
        ([[(0, -1, 1.0, True, False)]], "not completed"),
        ([[(0, -1, 1.0, False, True)]], "begun"),
        ([[(0, -1, 1.0, True, False), (0, -1, 1.0, True, True)]], "begun"),
        ([[(0, -1, 1.0, True, True), (0, -1, 1.0, True, True)]], "complete"),
        ([[(0, 0, 1.0, True, True)]], "has not completed"),
        ([[(0, 1, 1.0, True, True)]], "has not completed"),
        ([[(1, -1, 1.0, True, False), (0, 1, 1.0, True, True)]], "has not completed"),
        ([[(0, -2, 1.0, True, True)]], "has not completed"),
        ([[(0, 2, 1.0, True, True)]], "has not completed"),
    ],
)
def test_steps_that_are_unsound_are_refused_by_the_engine(steps, why):
    """Slot 0 is the block of C, slot 1 a sum; a sum is read only after its last term."""
    good = ([("store", 0, 0, 0, 1.0)], 0)
    shared = [[(1, -1, 1.0, True, True), (0, 1, 1.0, True, True)]]
    _core.Scheme(1, 1, 1, 1, good, good, shared, 2)
    with pytest.raises(ValueError, match=why):
        _core.Scheme(1, 1, 1, 1, good, good, steps, 2)


def test_scales_of_another_shape_are_refused():
    a = np.ones((8, 8))
    for scales in (np.ones(7), np.ones(8, np.float32), np.ones((8, 1)), np.ones(16)[::2]):
        with pytest.raises((ValueError, BufferError), match=r"scales must|contiguous"):
            gemm(a, a, a.copy(), row_scales=scales)
