"""Metrics against published numbers and against a plain evaluation of their definitions."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import Scheme, metrics

# name: nnz, naive additions, after sharing, RMS growth, growth factor, e_max
CLASSICS = {
    "strassen": ((12, 12, 12), 18, 18, 2.00, 14.83, 12),
    "winograd": ((14, 14, 14), 24, 15, 2.65, 17.85, 18),
    "1x1x1:1": ((1, 1, 1), 0, 0, 1.00, 1.00, 1),
    "2x2x2:8": ((8, 8, 8), 4, 4, 1.00, 8.00, 2),
    "3x4x5:60": ((60, 60, 60), 45, 45, 1.00, 60.00, 4),
}


@pytest.mark.parametrize("name", CLASSICS)
def test_published_numbers(name):
    nnz, naive, shared, rms, factor, e_max = CLASSICS[name]
    scheme = schemes.get(name)
    assert scheme.nnz == nnz
    assert scheme.additions == (naive, shared)
    assert round(scheme.rms_growth, 2) == rms
    assert round(scheme.growth_factor, 2) == factor
    assert scheme.e_max == e_max


def by_definition(s):
    """Every metric, written out."""
    phi = total = Fraction(0)
    factor = 0.0
    per_output = [Fraction(0)] * (s.m * s.n)
    for u, v, w in zip(s.U, s.V, s.W, strict=True):
        u, v, w = ([Fraction(x) for x in y.ravel().tolist()] for y in (u, v, w))
        squares = [sum(x * x for x in y) for y in (u, v, w)]
        phi += squares[0] * squares[1] * squares[2]
        factor += sqrt(squares[0]) * sqrt(squares[1]) * sqrt(squares[2])
        total = sum(map(abs, u)) * sum(map(abs, v))
        per_output = [old + abs(c) * total for old, c in zip(per_output, w, strict=True)]
    return phi, factor, max(per_output)


@pytest.mark.parametrize("name", [*schemes.names(), "halved"])
def test_definitions(name):
    if name == "halved":
        s = schemes.get("winograd")
        s = Scheme(s.U * Fraction(1, 2), s.V * Fraction(1, 5), s.W * 10)
    else:
        s = schemes.get(name)
    phi, factor, e_max = by_definition(s)
    assert s.phi == phi
    assert s.rms_growth == pytest.approx(sqrt(phi / (s.m * s.k * s.n)))
    assert s.growth_factor == pytest.approx(factor)
    assert s.e_max == e_max
    assert s.nnz == tuple(int(np.count_nonzero(x)) for x in (s.U, s.V, s.W))


def test_scaling_changes_growth_only_where_it_must():
    """Powers of two moved from one factor to another change no product."""
    s = schemes.get("strassen")
    assert metrics.phi(s.U * 2, s.V, s.W) == 4 * s.phi
    assert Scheme(s.U * 2, s.V * 0.5, s.W).phi == s.phi
