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

# format: rank, fewest non-zeros, RMS growth of that scheme, least RMS growth, e_max
SEARCHED = {
    "2x2x2": (7, 36, 2.00, 2.00, 12),
    "2x2x3": (11, 48, 1.73, 1.73, 12),
    "2x2x4": (14, 72, 2.00, 2.00, 12),
    "2x2x5": (18, 84, 1.84, 1.84, 12),
    "2x3x3": (15, 94, 2.52, 2.52, 23),
    "2x3x4": (20, 130, 2.77, 2.77, 43),
    "2x3x5": (25, 168, 2.94, 2.92, 49),
    "2x4x4": (26, 190, 3.15, 3.15, 66),
    "2x4x5": (33, 235, 3.02, 3.02, 60),
    "2x5x5": (40, 383, 4.60, 4.58, 213),
    "3x3x3": (23, 142, 2.63, 2.59, 43),
    "3x3x4": (29, 204, 2.88, 2.88, 37),
    "3x3x5": (36, 275, 3.26, 3.24, 89),
    "3x4x4": (38, 280, 2.94, 2.94, 52),
    "3x4x5": (48, 380, 3.64, 3.58, 74),
    "3x5x5": (59, 512, 4.08, 3.99, 165),
    "4x4x4": (49, 432, 4.00, 4.00, 144),
    "4x4x5": (62, 561, 4.23, 4.14, 260),
    "4x5x5": (76, 722, 4.62, 4.57, 445),
    "5x5x5": (93, 996, 5.67, 5.14, 707),
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


@pytest.mark.parametrize("form", SEARCHED)
def test_catalogue_holds_what_the_search_found(form):
    rank, nonzeros, rms_of_sparsest, least_rms, e_max = SEARCHED[form]
    sparsest = schemes.get(f"{form}:{rank}")
    assert sum(sparsest.nnz) <= nonzeros
    assert sparsest.rms_growth <= rms_of_sparsest + 0.01
    assert sparsest.e_max <= e_max
    assert schemes.best(*sparsest.format, by="growth").rank <= rank
    equal = [x for x in schemes.names() if x.split("-")[0] == sparsest.name]
    assert min(schemes.get(x).rms_growth for x in equal) <= least_rms + 0.01


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


@pytest.mark.parametrize("name", ["strassen", "winograd", "3x3x3:23", "3x4x4:38"])
def test_rms_growth_predicts_random_errors(name):
    """The measured error of float32 products, one level, over that of the classical algorithm."""
    s = schemes.get(name)
    random = np.random.default_rng(5)
    size, ratios = 24, []
    for _ in range(6):
        a = random.standard_normal((s.m * size, s.k * size)).astype(np.float32)
        b = random.standard_normal((s.k * size, s.n * size)).astype(np.float32)
        exact = a.astype(float) @ b.astype(float)
        blocks_a = a.reshape(s.m, size, s.k, size).transpose(0, 2, 1, 3)
        blocks_b = b.reshape(s.k, size, s.n, size).transpose(0, 2, 1, 3)
        left = np.einsum("rij,ijxy->rxy", s.U.astype(np.float32), blocks_a)
        right = np.einsum("rij,ijxy->rxy", s.V.astype(np.float32), blocks_b)
        c = np.einsum("rij,rxy->ixjy", s.W.astype(np.float32), left @ right)
        error = c.reshape(exact.shape) - exact
        ratios.append(np.linalg.norm(error) / np.linalg.norm(a @ b - exact))
    # Sums of shorter blocks round less often, which the prediction leaves out.
    assert 0.4 * s.rms_growth < np.median(ratios) < 1.1 * s.rms_growth
