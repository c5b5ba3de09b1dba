"""Programs as the CPU engine takes them: operations, and which of them can be C code."""

from fractions import Fraction

import numpy as np
import pytest

from falcon._cpu.sources import CODED
from falcon.codegen import combine_a, combine_b
from falcon.codegen.cpu_emit import (
    ACCUMULATOR,
    STORE,
    coded_scheme,
    header,
    header_of,
    of_scheme,
    operations,
)
from falcon.codegen.program import build
from falcon.codegen.update import updates
from falcon.schemes.additions import share

from .test_program import interpret, random_matrix


def run(program):
    """Run on symbols: return the matrix by which it multiplies its inputs, by places of outputs."""
    registers = dict(enumerate(np.eye(program.n_inputs, dtype=int) * Fraction(1)))
    outputs = {}
    for x in program.operations:
        a = registers[x.a]
        if x.op == STORE:
            assert x.dst not in outputs
            outputs[x.dst] = a * x.coefficient
            continue
        most = program.n_inputs + program.n_temporaries
        assert x.dst == ACCUMULATOR or program.n_inputs <= x.dst < most
        sign = {"add": 1, "sub": -1}.get(x.op)
        registers[x.dst] = a * x.coefficient if sign is None else a + sign * registers[x.b]
    return np.array([outputs[x] for x in range(program.n_outputs)])


@pytest.mark.parametrize("values", [[1], [-1, 1], [-2, -1, 1, 2], [3, Fraction(-5, 3)]], ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_operations_are_the_matrix(values, seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, 12, 2)
    matrix = random_matrix(rng, rows, columns, values)
    order = rng.permutation(rows)
    made = operations(build(share(matrix)), {x: int(at) for at, x in enumerate(order)})
    np.testing.assert_array_equal(run(made), matrix[order])


@pytest.mark.parametrize("name", CODED)
def test_what_is_compiled_is_the_scheme(name):
    scheme = coded_scheme(name)
    made = updates(scheme)
    for program, sums in zip(of_scheme(scheme, made), (combine_a, combine_b), strict=True):
        np.testing.assert_array_equal(run(program), interpret(sums(scheme))[list(made.order)])


def test_a_program_is_written_once():
    text = header_of(["strassen", "strassen", "winograd"])
    assert text == header_of(["strassen", "winograd"]) != header_of(["strassen"])


def test_a_coefficient_that_would_round_is_refused():
    """Compilers join a multiplication and an addition, which changes bits unless it is exact."""
    third = np.array([[Fraction(1, 3), 1]], dtype=object)
    with pytest.raises(ValueError, match="1/3"):
        header([operations(build(share(third)), {0: 0})])
