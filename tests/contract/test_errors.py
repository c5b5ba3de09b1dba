"""What does not fit is refused by a message that names the operand, before anything is written."""

import numpy as np
import pytest

from .support import SOME, over
from .values import whole

# Calls for matrices alone; vectors, batches and arrays without numbers have rules of their own in
# the others (tests/front).
MATRICES = ("gemm", "packed", "plan")


def usual(subject):
    return subject.row.name in SOME and subject.cast is None


def refused(subject, a, b, c=None, *, match, kind=ValueError, **how):
    """An out that is an array keeps its values."""
    out = how.get("out")
    before = subject.host(out).copy() if hasattr(out, "shape") else None
    with pytest.raises(kind, match=match):
        subject(a, b, c, **how)
    if before is not None:
        np.testing.assert_array_equal(subject.host(out), before)


@over(lambda x: usual(x))
def test_shapes(subject):
    a, b, other = subject.operands((6, 8), (8, 5), (7, 5))
    refused(subject, a, other, match=r"6, 8\).*7, 5\)|Size of label 'j'")
    if subject.arrays.is_written:
        if subject.door in MATRICES:
            refused(subject, a[0], b, match=r"a has shape \(8,\); expected a matrix")
        for shape in ((6, 4), (5, 6), (1, 5)):
            (out,) = subject.operands(shape)
            refused(subject, a, b, out=out, match="out (has shape|is) .*(expected|this plan)")
    if subject.takes_scalars:
        refused(subject, a, b, other, beta=1, match=r"c has shape \(7, 5\); expected \(6, 5\)")
        refused(subject, a, b, beta=2, match="beta is 2 but c is missing")


@over(lambda x: usual(x) and x.arrays.is_written)
def test_out_whose_elements_share_memory(subject):
    a, b = subject.operands((6, 8), (8, 5))
    for layout in (x for x in subject.layouts if x.kind == "broadcast"):
        out, _ = subject.arrays.place(whole(subject.result.name, (6, 5), 5), layout)
        refused(subject, a, b, out=out, match="share memory|out is read-only")


@over(lambda x: usual(x) and x.takes_scalars)
def test_factors_that_are_no_numbers(subject):
    a, b, c = subject.operands((6, 8), (8, 5), (6, 5))
    wrong = [("alpha", "2"), ("beta", None), ("alpha", a)]
    wrong += [] if subject.row.is_complex else [("alpha", 1j), ("beta", 1j)]
    wrong += [("alpha", 0.5), ("beta", np.nan)] if subject.row.is_exact else []
    for name, value in wrong:
        refused(subject, a, b, c, match=f"^{name} is ", kind=TypeError, **{name: value})


@over(lambda x: usual(x) and x.library == "numpy" and x.door in MATRICES)
def test_operands_that_are_no_arrays_of_numbers(subject):
    a, b = subject.operands((6, 8), (8, 5))
    for wrong in (None, a > 0, a.astype(object), np.full((6, 8), "x"), np.ma.array(a)):
        refused(subject, wrong, b, match="^a (is|has) ", kind=TypeError)
    for wrong in (None, b > 0, b.astype(object), np.full((8, 5), "x"), np.ma.array(b)):
        refused(subject, a, wrong, match="^b (is|has) ", kind=TypeError)


@over(lambda x: usual(x) and x.arrays.is_written and x.door != "plan")
def test_an_out_that_cannot_take_the_result(subject):
    a, b = subject.operands((6, 8), (8, 5))
    if subject.library != "cupy" and subject.row.name != "int8":
        out = subject.place(np.ones((6, 5), "float32" if subject.row.is_complex else "int8"))
        if not subject.row.is_exact:
            refused(subject, a, b, out=out, match="^out has dtype ", kind=TypeError)
    if subject.library == "numpy":
        out = np.ones((6, 5), subject.row.numpy)
        out.flags.writeable = False
        refused(subject, a, b, out=out, match="^out is read-only")
    if subject.takes_scalars:
        refused(subject, a, b, out=[[0]], match="^out is a list", kind=TypeError)


@over(lambda x: x.door == "plan")
def test_a_plan_refuses_an_out_that_overlaps(subject):
    (memory,) = subject.operands((24, 12))
    a, b = memory[:12], memory[12:]
    for out in (a, b, memory[6:18]):
        refused(subject, a, b, out=out, match="out overlaps an operand")
