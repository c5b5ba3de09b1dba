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
    factors = (made.U, made.V, made.W)
    flat = [x.reshape(made.rank, -1) for x in factors]
    flat[2] = flat[2].T
    for sums, matrix in zip(made.shared_sums, flat, strict=True):
        values = np.random.default_rng(1).integers(-99, 100, matrix.shape[1])
        assert evaluated(sums, values.tolist()) == (matrix @ values).tolist()
        for temporary, (x, y, ratio) in enumerate(sums.temporaries):
            assert min(x, y) >= 0 and max(x, y) < sums.n_inputs + temporary
            assert type(ratio) is int
    first, second, last = (
        (x.additions, y.additions)
        for x, y in zip(outer.shared_sums, inner.shared_sums, strict=True)
    )
    assert [x.additions for x in made.shared_sums] == [
        min(
            inner.m * inner.k * first[0] + outer.rank * first[1],
            outer.m * outer.k * first[1] + inner.rank * first[0],
        ),
        min(
            inner.k * inner.n * second[0] + outer.rank * second[1],
            outer.k * outer.n * second[1] + inner.rank * second[0],
        ),
        min(
            inner.rank * last[0] + outer.m * outer.n * last[1],
            outer.rank * last[1] + inner.m * inner.n * last[0],
        ),
    ]


@pytest.mark.parametrize("outer", [True, False])
def test_fractions_nest_too(outer):
    made = halved() @ get("winograd") if outer else get("winograd") @ halved()
    for sums, matrix in zip(made.shared_sums, (made.U, made.V, made.W), strict=True):
        flat = matrix.reshape(made.rank, -1)
        flat = flat.T if matrix is made.W else flat
        values = list(range(3, 3 + flat.shape[1]))
        expected = [sum(c * v for c, v in zip(row, values, strict=True)) for row in flat.tolist()]
        assert evaluated(sums, values) == expected


def test_images_and_pickles_of_compositions_keep_their_own_sums():
    import pickle

    made = get("strassen") @ get("2x2x3:11")
    for other in (*schemes.symmetries(made), pickle.loads(pickle.dumps(made))):
        flat = other.U.reshape(other.rank, -1)
        values = list(range(1, 1 + flat.shape[1]))
        assert evaluated(other.shared_sums[0], values) == (flat @ values).tolist()
