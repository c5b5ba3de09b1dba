"""What a product is: bit for bit on whole numbers, within the plan's bound on others."""

import numpy as np
import pytest

import falcon

from .support import DOORS, SIZE, Subject, dtype_of, over
from .values import normal, whole

SHAPES = [SIZE, (1, 70, 33), (64, 1, 48), (40, 66, 1), (2, 3, 2), (1, 1, 1)]
EMPTY = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)]


@over()
def test_whole_numbers_bit_for_bit(subject):
    """Integers wrap; operands stay as they are; a result is a new array by rows."""
    shapes = [subject.size] if subject.size != SIZE else SHAPES
    for M, K, N in shapes:
        a, b = subject.operands((M, K), (K, N))
        left, right = (x.copy() for x in map(subject.host, (a, b)))
        found = subject(a, b)
        assert isinstance(found, subject.arrays.result)
        subject.check(found, subject.expected(left, right))
        if subject.door != "einsum":
            host = subject.host(found)
            assert host.flags.c_contiguous and host.flags.writeable
        subject.check(a, left)
        subject.check(b, right)


@over(lambda x: x.is_float and "longdouble" not in x.row.numpy.type.__name__)
def test_errors_are_within_the_bound(subject):
    a, b = subject.operands(values=normal)[:2]
    plan = falcon.plan(a, b, **subject.options)
    x, y = (subject.host(z).astype(complex if subject.row.is_complex else float) for z in (a, b))
    wide = np.clongdouble if subject.row.is_complex else np.longdouble
    error = abs(subject.host(subject(a, b)).astype(x.dtype) - x.astype(wide) @ y)
    assert error.max() > 0
    assert (error <= plan.error_bound(x, y, proved=True)).all()


@over(lambda x: x.size == SIZE)
def test_layouts(subject):
    """Each of a with some of b, and the other way round."""
    M, K, N = 21, 27, 18
    layouts = subject.layouts
    n = len(layouts)
    for i, layout in enumerate(layouts):
        for other in (layouts[0], layouts[(i + 1) % n], layouts[(7 * i + 2) % n]):
            for first, second in {(layout, other), (other, layout)}:
                a = subject.place(whole(subject.row.name, (M, K)), first)
                b = subject.place(whole(subject.rows[1].name, (K, N), 1), second)
                left, right = (x.copy() for x in map(subject.host, (a, b)))
                expected = subject.expected(left, right)
                found = subject.host(subject(a, b, check="none"))  # which would repair it
                about = f"a: {first.name}, b: {second.name}"
                np.testing.assert_array_equal(found, expected, err_msg=about)
                np.testing.assert_array_equal(subject.host(a), left, err_msg=about)
                np.testing.assert_array_equal(subject.host(b), right, err_msg=about)


@over(lambda x: x.size == SIZE)
def test_empty(subject):
    for M, K, N in EMPTY:
        a, b, c = subject.operands((M, K), (K, N), (M, N))
        zeros = np.zeros((M, N), subject.result.numpy)
        subject.check(subject(a, b), zeros)
        if subject.takes_scalars:
            found = subject(a, b, c, alpha=3, beta=2)
            subject.check(found, subject.expected(zeros[:, :0], zeros[:0], subject.host(c), 1, 2))
            if subject.arrays.is_written:
                assert subject(a, b, c, beta=1, out=c) is c
        if subject.door == "plan":
            assert falcon.plan(a, b, **subject.options).explain()
            subject.check(subject(a, b, out=c), zeros)


@over(lambda x: x.arrays.is_written)
def test_repeated_calls_read_their_operands(subject):
    """Calls that are known multiply what the arrays hold now, and other arrays like them."""
    a, b = subject.operands()[:2]
    first = subject.host(subject(a, b)).copy()
    for seed in (7, 8):
        values = whole(subject.row.name, tuple(a.shape), seed)
        for x in (subject.place(values), a):
            if x is a:
                a[...] = subject.place(values)
            found = subject(x, b)
            subject.check(found, subject.expected(values, subject.host(b)))
    a[...] = subject.place(whole(subject.row.name, tuple(a.shape)))
    subject.check(subject(a, b), first)


@over(lambda x: x.is_float)
def test_bits_do_not_depend_on_the_call(subject):
    """Nor, by falcon's own kernels, on the number of threads."""
    a, b = subject.operands(values=normal)[:2]
    first = subject.host(subject(a, b)).copy()
    for threads in (1, 2, 3) if subject.backend == "cpu" else (None,):
        for x in (a, subject.operands(values=normal)[0]):
            for _ in range(2):
                subject.check(subject(x, b, threads=threads), first)


@pytest.mark.parametrize("door", [x for x in DOORS if x != "gemm"])
def test_every_door_leads_to_the_same_bits(door):
    """As `gemm` with the same scheme."""
    for backend in ("cpu", "numpy"):
        one = Subject(backend, dtype_of("float32"), "strassen")
        if one.why_absent() is None:
            a, b = one.operands(values=normal)[:2]
            other = Subject(backend, one.row, "strassen", door=door)
            np.testing.assert_array_equal(other(a, b), one(a, b))
