"""NaN and Inf spread no further than classically, and sums that overflow are no reason for more."""

import numpy as np
import pytest

from .support import limits, over
from .values import whole

# Of a, b and c: where values are not finite.
PLACES = {"a": (5, 6), "b": (7, 8), "both": (0, 66), "c": (9, 10)}
VALUES = {np.nan: "rows", np.inf: "columns", -np.inf: "strided"}


def spoilt(subject, where, value, layout):
    """Operands with a value at a place, and as host arrays."""
    made = []
    for name, shape in zip("abc", ((61, 67), (67, 53), (61, 53)), strict=True):
        x = whole(subject.row.name, shape, ord(name)).copy()
        if where == name:
            x[PLACES[where]] = value
        if where == "both" and name != "c":
            x[(0, 66) if name == "a" else (66, 52)] = value
        made.append(x)
    return [subject.place(x, layout) for x in made], made


def check_spread(subject, found, expected):
    """The same finite elements; where others are, NaN stays NaN and Inf stays Inf."""
    found = subject.host(found)
    wide = complex if subject.row.is_complex else float
    found, expected = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_array_equal(found[finite], expected[finite])
    if not subject.row.is_complex:  # whose products have several NaN, or Inf and NaN
        np.testing.assert_array_equal(found, expected)


@over(lambda x: x.is_float)
@pytest.mark.parametrize("where", PLACES)
def test_values_spread_as_classically(subject, where):
    for value, layout in VALUES.items():
        (a, b, c), host = spoilt(subject, where, value, layout)
        if where != "c":
            with np.errstate(all="raise"):
                found = subject(a, b)
            check_spread(subject, found, subject.expected(*host[:2]))
        if subject.takes_scalars:
            with np.errstate(all="raise"):
                found = subject(a, b, c, alpha=2, beta=1)
            expected = subject.expected(*host, 2, 1)
            check_spread(subject, found, expected)
            if subject.arrays.is_written:
                subject(a, b, c, alpha=2, beta=1, out=c)
                check_spread(subject, c, expected)


@over(lambda x: x.is_float and x.door == "gemm" and x.scheme == "strassen")
def test_values_spread_as_classically_within_a_limit(subject):
    (a, b, _), host = spoilt(subject, "both", np.nan, "columns")
    expected = subject.expected(*host[:2])
    for limit, _ in limits(subject, a, b):
        check_spread(subject, subject(a, b, workspace_limit=limit), expected)


@over(lambda x: x.is_float and not x.row.is_complex)
def test_sums_that_overflow(subject):
    """a11 + a22 overflows, and the product does not."""
    big = np.full((48, 48), 0.75, subject.row.numpy) * subject.row.finfo.max
    half = (0.5 * np.eye(48)).astype(subject.row.numpy)
    a, b = subject.place(big.astype(subject.row.numpy)), subject.place(half)
    with np.errstate(all="raise"):
        found = subject(a, b)
    subject.check(found, (big / 2).astype(subject.row.numpy))


@over(lambda x: x.is_float and x.scheme not in ("classical", "auto") and x.arithmetic == "auto"
      and x.door in ("gemm", "packed", "matmul"))  # fmt: skip
def test_without_a_check_they_spread(subject):
    """Else the tests above would show nothing."""
    (a, b, _), host = spoilt(subject, "a", np.nan, "rows")
    found = subject.host(subject(a, b, check="none")).astype(complex)
    assert np.isnan(found).sum() > np.isnan(subject.expected(*host[:2]).astype(complex)).sum()
