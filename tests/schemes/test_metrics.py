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

# format: lowest rank; fewest non-zeros, RMS growth of that scheme, least RMS growth, e_max of the
# sparsest, fewest additions
SEARCHED = {
    "2x2x2": (7, 36, 2.00, 2.00, 12, 15),
    "2x2x3": (11, 48, 1.74, 1.74, 12, 17),
    "2x2x4": (14, 72, 2.00, 2.00, 12, 26),
    "2x2x5": (18, 84, 1.85, 1.85, 12, 33),
    "2x2x6": (21, 108, 2.00, 2.00, 12, 37),
    "2x2x7": (25, 120, 1.89, 1.89, 12, 39),
    "2x2x8": (28, 144, 2.00, 2.00, 12, 48),
    "2x3x3": (15, 94, 2.52, 2.52, 23, 44),
    "2x3x4": (20, 130, 2.77, 2.77, 43, 54),
    "2x3x5": (25, 160, 2.77, 2.77, 37, 70),
    "2x3x6": (30, 178, 2.35, 2.35, 27, 77),
    "2x3x7": (35, 224, 2.67, 2.67, 43, 94),
    "2x3x8": (40, 254, 2.68, 2.68, 37, 96),
    "2x4x4": (26, 182, 2.95, 2.95, 50, 82),
    "2x4x5": (33, 234, 3.05, 3.02, 62, 98),
    "2x4x6": (39, 294, 3.27, 3.27, 82, 122),
    "2x4x7": (45, 374, 3.89, 3.89, 112, 160),
    "2x4x8": (51, 447, 4.02, 3.95, 100, 178),
    "2x5x5": (40, 298, 3.08, 3.08, 83, 144),
    "3x3x3": (23, 139, 2.46, 2.46, 29, 58),
    "3x3x4": (29, 204, 2.88, 2.88, 37, 88),
    "3x3x5": (36, 259, 2.99, 2.99, 65, 111),
    "3x3x6": (42, 383, 4.01, 4.01, 125, 144),
    "3x3x7": (49, 433, 3.85, 3.85, 119, 161),
    "3x3x8": (56, 525, 4.64, 4.64, 145, 200),
    "3x4x4": (38, 280, 2.95, 2.95, 52, 126),
    "3x4x5": (47, 386, 3.38, 3.38, 68, 156),
    "3x4x6": (54, 488, 3.97, 3.97, 96, 196),
    "3x4x7": (64, 519, 3.43, 3.41, 90, 237),
    "3x4x8": (74, 611, 3.66, 3.65, 100, 250),
    "3x5x5": (58, 481, 3.44, 3.43, 119, 217),
    "4x4x4": (49, 432, 4.00, 4.00, 144, 159),
    "4x4x5": (61, 625, 4.83, 4.83, 168, 228),
    "4x4x6": (73, 690, 4.43, 4.43, 224, 259),
    "4x4x7": (85, 822, 4.62, 4.59, 284, 312),
    "4x4x8": (96, 967, 4.94, 4.94, 352, 364),
    "4x5x5": (76, 722, 4.63, 4.55, 445, 279),
    "5x5x5": (93, 967, 5.37, 5.06, 687, 353),
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


# Of a higher rank, but sparser and with smaller errors.
SPARSER = {
    "3x3x6": (43, 349, 3.62, 3.62, 65, 146),
    "3x3x7": (50, 417, 3.87, 3.87, 149, 168),
    "3x4x5": (48, 380, 3.65, 3.59, 74, 162),
    "3x4x6": (56, 426, 3.25, 3.25, 78, 201),
    "3x4x7": (66, 492, 2.98, 2.98, 52, 213),
    "3x4x8": (75, 628, 3.39, 3.39, 92, 256),
    "3x5x5": (60, 467, 3.37, 3.37, 91, 201),
    "4x4x5": (62, 528, 3.87, 3.87, 138, 208),
    "4x5x5": (80, 628, 3.26, 3.26, 87, 255),
    "5x5x5": (99, 810, 3.49, 3.49, 99, 351),
}


@pytest.mark.parametrize(("form", "numbers"), [*SEARCHED.items(), *SPARSER.items()])
def test_catalogue_holds_what_the_search_found(form, numbers):
    rank, nonzeros, rms_of_sparsest, growth, e_max, additions = numbers
    sparsest = schemes.get(f"{form}:{rank}")
    equal = [schemes.get(x) for x in schemes.names() if x.split("-")[0] == sparsest.name]
    assert sum(sparsest.nnz) <= nonzeros
    assert sparsest.rms_growth <= rms_of_sparsest
    assert sparsest.e_max <= e_max
    assert min(x.additions.reduced for x in equal) <= additions
    least = min(x.rms_growth for x in equal)
    assert least <= growth
    smooth = schemes.best(*sparsest.format, by="growth")
    assert smooth.rank <= rank
    assert smooth.rank < rank or smooth.rms_growth == pytest.approx(least)


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


@pytest.mark.parametrize("pair", [("strassen", "winograd"), ("hopcroft-kerr", "2x2x3:11")])
def test_growth_multiplies_over_levels(pair):
    x, y = map(schemes.get, pair)
    both = x @ y
    assert both.phi == x.phi * y.phi
    assert both.e_max == x.e_max * y.e_max
    assert both.rms_growth == pytest.approx(x.rms_growth * y.rms_growth)
    assert both.growth_factor == pytest.approx(x.growth_factor * y.growth_factor)
    assert both.nnz == tuple(a * b for a, b in zip(x.nnz, y.nnz, strict=True))


@pytest.mark.parametrize("name", schemes.names())
def test_symmetries_keep_what_is_symmetric(name):
    s = schemes.get(name)
    for image in schemes.symmetries(s):
        assert image.phi == s.phi
        assert image.growth_factor == pytest.approx(s.growth_factor)
        assert sorted(image.nnz) == sorted(s.nnz)


def test_scaling_changes_growth_only_where_it_must():
    """Powers of two moved from one factor to another change no product."""
    s = schemes.get("strassen")
    assert metrics.phi(s.U * 2, s.V, s.W) == 4 * s.phi
    assert Scheme(s.U * 2, s.V * 0.5, s.W).phi == s.phi
