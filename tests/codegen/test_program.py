"""Programs that form the sums of a scheme, with the expected slots, steps and updates of C."""

from fractions import Fraction

import numpy as np
import pytest

import falcon
from falcon.codegen import combine_a, combine_b, combine_c, updates
from falcon.codegen.program import Op, build
from falcon.codegen.update import PRODUCT, Schedule
from falcon.schemes.additions import SharedSums, naive_additions, share


def interpret(program):
    """Run on symbols: return the matrix that the program multiplies its inputs by.

    Checks on the way that nothing is read before it is written, inputs are never written, and
    every output is written.
    """
    zero = [Fraction(0)] * program.n_inputs
    values = [None] * (program.first_output + program.n_outputs)
    for i in range(program.n_inputs):
        values[i] = [Fraction(int(i == j)) for j in range(program.n_inputs)]
    written = set()
    for step in program.instructions:
        assert program.n_inputs <= step.dst < len(values)
        x = values[step.x]
        assert x is not None, "read before written"
        if step.op is Op.SCALE:
            assert step.y == -1
            result = [step.coefficient * p for p in x]
        else:
            y = values[step.y]
            assert y is not None, "read before written"
            sign = 1 if step.op is Op.ADD else -1
            result = [p + sign * q for p, q in zip(x, y, strict=True)]
        values[step.dst] = result
        written.add(step.dst)
    outputs = values[program.first_output :]
    assert written >= set(range(program.first_output, len(values)))
    assert written >= set(range(program.n_inputs, program.first_output)), "a slot nobody uses"
    return np.array([row if row is not None else zero for row in outputs], dtype=object)


def random_matrix(rng, rows, columns, values):
    """A sparse matrix without empty rows."""
    x = rng.choice(values, (rows, columns))
    x[rng.random((rows, columns)) < 0.5] = 0
    for row in x:
        if not row.any():
            row[rng.integers(columns)] = 1
    return x


@pytest.mark.parametrize("values", [[1], [-1, 1], [-2, -1, 1, 2], [3, Fraction(-5, 3)]], ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_programs_equal_the_matrix(values, seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, 12, 2)
    matrix = random_matrix(rng, rows, columns, values)
    program = build(share(matrix))
    np.testing.assert_array_equal(interpret(program), matrix)
    assert (program.n_inputs, program.n_outputs) == (columns, rows)
    assert program.additions <= naive_additions(matrix)


@pytest.mark.parametrize("name", [*falcon.schemes.names(), "strassen@strassen", "6x3x3", "2x1x3"])
def test_catalogue(name):
    """Every stored scheme in every permutation, and some compositions."""
    for s in falcon.schemes.symmetries(falcon.schemes.get(name)):
        programs = combine_a(s), combine_b(s), combine_c(s)
        u, v, w = (x.reshape(s.rank, -1) for x in (s.U, s.V, s.W))
        for program, matrix in zip(programs, (u, v, w.T), strict=True):
            np.testing.assert_array_equal(interpret(program), matrix)
        assert sum(x.additions for x in programs) == s.additions.reduced


def test_slots_are_reused_after_the_last_use():
    """A chain of t sums, each used by the next and by one output of its own and no more."""
    temporaries = ((0, 1, 1), (3, 2, 1), (4, 0, -1), (5, 1, 1))
    rows = tuple(((t, 1), (2, 1)) for t in (3, 4, 5, 6))
    sums = SharedSums(3, temporaries, rows)
    program = build(sums)
    assert program.n_temporaries <= 2
    expected = np.zeros((4, 3), int)
    known = [np.eye(3, dtype=int)[i] for i in range(3)]
    for x, y, ratio in temporaries:
        known.append(known[x] + ratio * known[y])
    for i, row in enumerate(rows):
        expected[i] = sum(c * known[x] for x, c in row)
    np.testing.assert_array_equal(interpret(program), expected)


def test_one_temporary_as_several_outputs():
    """It is formed in the first and copied, negated or scaled into the others."""
    sums = SharedSums(2, ((0, 1, -1),), (((2, -1),), ((2, 1),), ((2, 1),), ((2, 3),), ((0, 1),)))
    program = build(sums)
    assert program.n_temporaries == 0
    assert program.additions == 1
    expected = [[-1, 1], [1, -1], [1, -1], [3, -3], [1, 0]]
    np.testing.assert_array_equal(interpret(program), expected)


def test_duplicate_and_opposite_rows():
    matrix = np.array([[1, 1, 0], [1, 1, 0], [-1, -1, 0], [2, 2, 0], [0, 0, 1], [0, 0, -1]])
    program = build(share(matrix))
    np.testing.assert_array_equal(interpret(program), matrix)
    assert program.additions == 1


def test_an_empty_row_is_refused():
    with pytest.raises(ValueError, match="without terms"):
        build(share(np.array([[1, 0], [0, 0]])))


# --- Combine H as a stream of updates --------------------------------------------------------


def replayed(made, products, blocks):
    """Run the updates as an engine does: a completed sum can be read until its product is done."""
    slots = [None] * made.n_slots
    finished = {}
    for product, steps in zip(made.order, made.steps, strict=True):
        sums = {PRODUCT: products[product]}
        for x in steps:
            assert (slots[x.slot] is None) == x.first
            value = (0 if x.first else slots[x.slot]) + x.coefficient * sums[x.source]
            slots[x.slot] = None if x.last else value
            if x.last and x.slot < blocks:
                assert x.slot not in finished
                finished[x.slot] = value
            elif x.last:
                sums[x.slot] = value
    assert all(x is None for x in slots)
    return [finished[x] for x in range(blocks)]


def names():
    return [x for x in falcon.schemes.names() if not x.endswith("-adds")]


@pytest.mark.parametrize("name", names())
def test_updates_form_what_w_says_in_as_few_additions(name):
    scheme = falcon.schemes.get(name)
    made = updates(scheme)
    blocks = scheme.m * scheme.n
    products = np.random.default_rng(1).integers(-99, 100, scheme.rank).tolist()
    expected = np.tensordot(products, scheme.W.reshape(scheme.rank, -1), 1)
    assert replayed(made, products, blocks) == expected.tolist()
    assert sorted(made.order) == list(range(scheme.rank))
    additions = sum(not x.first for steps in made.steps for x in steps)
    assert additions == scheme.shared_sums[2].additions
    # Few slots at a time, though sums may be many.
    assert made.n_slots - blocks <= max(2, scheme.rank // 4)


def test_a_sum_that_is_needed_once_has_no_slot():
    sums = SharedSums(3, ((0, 1, -1), (3, 2, 2)), (((4, 3),), ((0, 1),)))
    made = Schedule(sums).made()
    assert made.n_slots == 2
    assert replayed(made, [5, 7, 11], 2) == [3 * (5 - 7 + 22), 5]
