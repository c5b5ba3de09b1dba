"""Common-subexpression elimination: shared sums are the matrix again, and never cost more."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falcon import schemes
from falcon.schemes import Scheme, additions
from falcon.schemes.additions import naive_additions, share


def matrix_of(sums):
    """Multiply the program out: the matrix whose rows it computes."""
    values = [[int(i == j) for j in range(sums.n_inputs)] for i in range(sums.n_inputs)]
    for x, y, ratio in sums.temporaries:
        assert x < len(values)
        assert y < len(values)
        values.append([p + ratio * q for p, q in zip(values[x], values[y], strict=True)])
    rows = []
    for row in sums.rows:
        assert [x for x, _ in row] == sorted({x for x, _ in row})
        total = [0] * sums.n_inputs
        for x, c in row:
            assert c != 0
            total = [p + c * q for p, q in zip(total, values[x], strict=True)]
        rows.append(total)
    return np.array(rows, dtype=object).reshape(len(sums.rows), sums.n_inputs)


def check(matrix):
    sums = share(matrix)
    assert (matrix_of(sums) == matrix).all()
    assert sums.additions <= naive_additions(matrix)
    again = len(sums.temporaries) + sum(max(len(row) - 1, 0) for row in sums.rows)
    assert sums.additions == again
    assert share(matrix) == sums
    return sums


# Name: the additions that remained in 2026, so that a change of the search is noticed.
REACHED = {
    "laderman": 70,
    "2x4x4:26-adds": 82,
    "2x4x8:51-adds": 179,
    "3x3x3:23-adds": 58,
    "3x4x4:38": 134,
    "4x4x4:49-adds": 162,
    "5x5x5:93": 366,
}


@pytest.mark.parametrize("name", REACHED)
def test_no_worse_than_before(name):
    assert schemes.get(name).additions.reduced <= REACHED[name]


NESTED = [
    ("strassen", "strassen"),
    ("strassen", "2x2x3:11"),
    ("2x3x4:20", "winograd"),
    ("3x2x3:15", "strassen"),
    ("strassen", "laderman"),
    ("winograd", "4x4x4:49"),
]


def check_all(scheme):
    """The three combines of a nested scheme, outputs x inputs."""
    u, v, w = (x.reshape(scheme.rank, -1) for x in (scheme.U, scheme.V, scheme.W))
    for sums, matrix in zip(scheme.shared_sums, (u, v, w.T), strict=True):
        assert (matrix_of(sums) == matrix).all()


@pytest.mark.parametrize(("outer", "inner"), NESTED)
def test_nested_schemes_have_the_additions_of_their_parts(outer, inner):
    outer, inner = schemes.get(outer), schemes.get(inner)
    made = outer @ inner
    check_all(made)
    for made_sums, x, y in zip(made.shared_sums, outer.shared_sums, inner.shared_sums, strict=True):
        assert all(type(ratio) is int for _, _, ratio in made_sums.temporaries)
        (first, m, p), (second, n, q) = ((z.additions, z.n_inputs, len(z.rows)) for z in (x, y))
        assert made_sums.additions == min(n * first + p * second, m * second + q * first)


def test_fractions_and_images_nest_too():
    s = schemes.get("strassen")
    U, W = s.U.astype(object), s.W.astype(object)
    U[0], W[0] = U[0] * Fraction(1, 2), W[0] * 2
    halved, winograd = Scheme(U, s.V, W, "halved"), schemes.get("winograd")
    for made in (halved @ winograd, winograd @ halved, *schemes.symmetries(s @ winograd)):
        check_all(made)


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(("rows", "additions"), [
    ([[1, 2, 0], [-1, -2, 1], [3, 6, 5], [1, 1, 1], [0, 0, 0]], 5),
    ([[HALF, 1, 0], [3, 6, 1], [-HALF, -1, THIRD]], 3),
])  # fmt: skip
def test_scaled_and_negated_sums_are_shared(rows, additions):
    sums = check(np.array(rows))
    assert sums.additions == additions
    assert sums.temporaries[0] == (0, 1, 2)


def test_nothing_is_divided():
    """Over the integers there is no half."""
    random = np.random.default_rng(4)
    for _ in range(50):
        matrix = random.choice([0, 0, 1, -1, 2, 3, -4, 6], (8, 6))
        for x in (matrix, matrix.T, np.array([[2, 3, 1], [2, 3, 0], [-4, -6, 5]])):
            sums = check(x)
            found = [c for row in sums.rows for _, c in row] + [t[2] for t in sums.temporaries]
            assert all(type(c) is int for c in found)


@given(
    st.integers(1, 6).flatmap(
        lambda columns: st.lists(
            st.lists(
                st.sampled_from([0, 0, 0, 1, -1, 1, -1, 2, 3, Fraction(-1, 2), Fraction(2, 3)]),
                min_size=columns,
                max_size=columns,
            ),
            min_size=1,
            max_size=8,
        )
    )
)
@settings(max_examples=200)
def test_any_matrix(rows):
    matrix = np.array(rows, dtype=object)
    sums = check(matrix)
    transposed = sums.transposed() if matrix.any(0).all() and matrix.any(1).all() else None
    if transposed is not None:
        assert (matrix_of(transposed) == matrix.T).all()
        assert transposed.additions <= naive_additions(matrix.T)
        if set(matrix.ravel()) <= {0, 1, -1}:
            assert transposed.additions - sums.additions == matrix.shape[0] - matrix.shape[1]


@given(st.permutations(range(4)))
@settings(max_examples=20)
def test_order_of_the_inputs(inputs):
    matrix = schemes.get("winograd").U.reshape(7, 4)
    sums = share(matrix)
    moved = matrix_of(sums.with_inputs(inputs))
    assert (moved[:, inputs] == matrix).all()
    # Whatever the order of the inputs, the search is the same.
    assert share(np.ascontiguousarray(matrix[:, inputs])).additions == sums.additions


# --- programs from a longer search ----------------------------------------------------------


def test_replay():
    matrix = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [-1, -1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
    pairs = [(0, 1, 1), (2, 3, 1)]
    sums = additions.replay(matrix, pairs)
    assert (matrix_of(sums) == matrix).all()
    assert sums.temporaries == ((0, 1, 1), (2, 3, 1))
    assert sums.additions == 5
    worse = additions.replay(matrix, [(0, 1, 1)])
    assert (matrix_of(worse) == matrix).all()
    assert worse.additions == 6


@pytest.mark.parametrize("name", schemes.names())
def test_a_file_stands_on_its_own(name):
    """No search, and no file that was read before, does better than the sums in a scheme's file."""
    scheme = schemes.get(name)
    searched = scheme.with_sums(None)
    for own, found in zip(scheme.shared_sums, searched.shared_sums, strict=True):
        assert own.additions <= found.additions
    if scheme.sums is not None:
        assert scheme.sums.keys() == set("UVW")
