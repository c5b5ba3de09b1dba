"""Sums of nested schemes: those of the flat coefficients, with the additions of the parts."""

from fractions import Fraction

import numpy as np
import pytest

from falcon import schemes
from falcon.schemes import Scheme, get


def evaluated(sums, values):
    values = list(values)
    for x, y, ratio in sums.temporaries:
        values.append(values[x] + ratio * values[y])
    return [sum(c * values[x] for x, c in row) for row in sums.rows]


def flat(scheme):
    """What the three combines compute, outputs x inputs."""
    u, v, w = (x.reshape(scheme.rank, -1) for x in (scheme.U, scheme.V, scheme.W))
    return u, v, w.T


def halved():
    """Strassen with a product that is halved and doubled."""
    s = get("strassen")
    U, W = s.U.astype(object), s.W.astype(object)
    U[0], W[0] = U[0] * Fraction(1, 2), W[0] * 2
    return Scheme(U, s.V, W, "halved")


PAIRS = [
    ("strassen", "strassen"),
    ("strassen", "2x2x3:11"),
    ("2x3x4:20", "winograd"),
    ("3x2x3:15", "strassen"),
    ("strassen", "laderman"),
    ("winograd", "4x4x4:49"),
]


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_nested_sums_are_those_of_the_flat_coefficients(outer, inner):
    outer, inner = schemes.get(outer), schemes.get(inner)
    made = outer @ inner
    for sums, matrix in zip(made.shared_sums, flat(made), strict=True):
        values = np.random.default_rng(1).integers(-99, 100, matrix.shape[1])
        assert evaluated(sums, values.tolist()) == (matrix @ values).tolist()
        for temporary, (x, y, ratio) in enumerate(sums.temporaries):
            assert min(x, y) >= 0 and max(x, y) < sums.n_inputs + temporary
            assert type(ratio) is int
    for made_sums, x, y in zip(made.shared_sums, outer.shared_sums, inner.shared_sums, strict=True):
        (first, m, p), (second, n, q) = ((z.additions, z.n_inputs, len(z.rows)) for z in (x, y))
        assert made_sums.additions == min(n * first + p * second, m * second + q * first)


@pytest.mark.parametrize("outer", [True, False])
def test_fractions_nest_too(outer):
    made = halved() @ get("winograd") if outer else get("winograd") @ halved()
    for sums, matrix in zip(made.shared_sums, flat(made), strict=True):
        values = list(range(3, 3 + matrix.shape[1]))
        assert evaluated(sums, values) == (matrix.astype(object) @ values).tolist()


@pytest.mark.parametrize("image", schemes.symmetries(get("strassen") @ get("2x2x3:11")))
def test_images_of_compositions_keep_their_own_sums(image):
    matrix = flat(image)[0]
    values = list(range(1, 1 + matrix.shape[1]))
    assert evaluated(image.shared_sums[0], values) == (matrix @ values).tolist()
