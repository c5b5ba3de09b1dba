"""alpha, beta and c: alpha a b + beta c, as in BLAS."""

import numpy as np
import pytest

from .support import over
from .values import whole

PAIRS = [(1, 0), (2, 0), (-1, 0), (1, 1), (2, -1), (-1, 3), (0, 2), (0, 0)]


@over(lambda x: x.takes_scalars)
def test_alpha_and_beta(subject):
    a, b, c = subject.operands()
    x, y, z = map(subject.host, (a, b, c))
    old = z.copy()
    numbers = [*PAIRS, *([(5, 2**40 + 3)] if subject.result.is_exact else [(0.5, -0.25)])]
    numbers += [(2 - 1j, 1j)] if subject.result.is_complex else []
    for alpha, beta in numbers:
        expected = subject.expected(x, y, old, alpha, beta)
        subject.check(subject(a, b, c, alpha=alpha, beta=beta), expected)
        subject.check(c, old)
        if subject.arrays.is_written:  # in place
            out = subject.place(old, "columns" if alpha == 2 else "rows")
            assert subject(a, b, out, alpha=alpha, beta=beta, out=out) is out
            subject.check(out, expected)


@over(lambda x: x.takes_scalars)
def test_c_of_any_layout(subject):
    a, b = subject.operands((21, 27), (27, 18))
    for layout in subject.layouts:
        c = subject.place(whole(subject.result.name, (21, 18), 2), layout)
        expected = subject.expected(*map(subject.host, (a, b, c)), 1, -2)
        subject.check(subject(a, b, c, beta=-2), expected)


@over(lambda x: x.takes_scalars and x.is_float)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_a_factor_of_zero_forbids_to_read(subject, bad):
    a, b, c = subject.operands()
    x, y, z = map(subject.host, (a, b, c))
    poison = [subject.place(np.full(v.shape, bad, v.dtype)) for v in (x, y, z)]
    expected = subject.expected(x, y)
    subject.check(subject(a, b, poison[2]), expected)
    if subject.arrays.is_written:
        out = subject.place(np.full(z.shape, bad, z.dtype))
        subject.check(subject(a, b, out, out=out), expected)
    for beta in (0, 3):
        found = subject(*poison[:2], c, alpha=0, beta=beta)
        subject.check(found, subject.expected(x, y, z, 0, beta))
    zeros = np.zeros(z.shape, z.dtype)
    subject.check(subject(a, b, poison[2], alpha=0), zeros)
    read = subject.host(subject(a, b, poison[2], alpha=0, beta=1)).astype(complex)
    assert not np.isfinite(read).any()
