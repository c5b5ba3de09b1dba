"""A composition: its factors, and its shared sums, built from those of its two schemes.

Combine A of a composition applies the sums of the outer scheme and then those of the inner one, or
the other way round; B likewise, and C in reverse. Either order reuses the programs of the two
schemes, whereas a search over the flat composition would start from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .additions import Coefficient, Pair, Row, SharedSums

# Coefficient times variable.
Term = tuple[int, Coefficient]
# Combine A, Combine B and Combine H of a scheme.
Sums = tuple[SharedSums, SharedSums, SharedSums]
Format = tuple[int, int, int]


def kronecker(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Kronecker product of every block of x with every block of y."""
    product = x[:, None, :, None, :, None] * y[None, :, None, :, None, :]
    return product.reshape([a * b for a, b in zip(x.shape, y.shape, strict=True)])


class IndivisibleError(Exception):
    """No coefficient of a sum divides the others: its terms have no common program."""


def nested_sums(outer: tuple[Format, Sums], inner: tuple[Format, Sums]) -> Sums:
    """Return the sums of ``outer @ inner``; raises IndivisibleError."""
    ((_, k, n), outer_sums), ((m1, k1, n1), inner_sums) = outer, inner
    rank = len(inner_sums[0].rows)

    def product(x: int, y: int) -> int:
        return x * rank + y

    def block(rows: int, outer_columns: int, columns: int) -> Callable[[int, int], int]:
        """Return the numbering of blocks: block x of the outer scheme, block y of the inner one."""

        def at(x: int, y: int) -> int:
            (row, column), (below, beside) = divmod(x, outer_columns), divmod(y, columns)
            return (row * rows + below) * outer_columns * columns + column * columns + beside

        return at

    return (
        nested(outer_sums[0], inner_sums[0], block(m1, k, k1), product),
        nested(outer_sums[1], inner_sums[1], block(k1, n, n1), product),
        nested(outer_sums[2], inner_sums[2], product, block(m1, n, n1)),
    )


def nested(
    outer: SharedSums,
    inner: SharedSums,
    input_at: Callable[[int, int], int],
    output_at: Callable[[int, int], int],
) -> SharedSums:
    """Return the sums of a composition in the order that takes fewer additions.

    `input_at`, `output_at`: number of the input (output) from its numbers x in the outer and y in
    the inner sums.
    Raises IndivisibleError: that takes divisions.
    """
    of_outer, of_inner = _size(outer), _size(inner)
    if _additions(of_outer, of_inner) <= _additions(of_inner, of_outer):
        return _nested(outer, inner, input_at, output_at)
    return _nested(inner, outer, lambda x, y: input_at(y, x), lambda x, y: output_at(y, x))


# Inputs, outputs and additions of sums.
Size = tuple[int, int, int]


def _size(sums: SharedSums) -> Size:
    return sums.n_inputs, len(sums.rows), sums.additions


def _additions(first: Size, second: Size) -> int:
    """Additions of `first` for every input of `second`, and of that for every output of `first`."""
    return second[0] * first[2] + first[1] * second[2]


def nested_additions(
    outer: tuple[Size, Size, Size], inner: tuple[Size, Size, Size]
) -> tuple[int, int, int]:
    """Additions of the three combines of a composition, without making it."""
    a, b, c = (min(_additions(x, y), _additions(y, x)) for x, y in zip(outer, inner, strict=True))
    return a, b, c


def _nested(
    first: SharedSums,
    second: SharedSums,
    input_at: Callable[[int, int], int],
    output_at: Callable[[int, int], int],
) -> SharedSums:
    """Run `first` for every input of `second`, then `second` for every output of `first`."""
    n_inputs = first.n_inputs * second.n_inputs
    program = _Program(n_inputs)
    between = [
        [
            program.total(row)
            for row in program.rows(first, [(input_at(x, y), 1) for x in range(first.n_inputs)])
        ]
        for y in range(second.n_inputs)
    ]
    rows: dict[int, Row] = {}
    for x in range(len(first.rows)):
        for y, row in enumerate(program.rows(second, [column[x] for column in between])):
            rows[output_at(x, y)] = dict(row)
    return SharedSums.of(n_inputs, program.temporaries, (rows[x] for x in range(len(rows))))


class _Program:
    """Temporaries as they are made; a value is a variable times a coefficient."""

    def __init__(self, n_inputs: int) -> None:
        self._n_inputs = n_inputs
        self.temporaries: list[Pair] = []

    def rows(self, sums: SharedSums, inputs: Sequence[Term]) -> list[list[Term]]:
        """Terms of the outputs of `sums`, whose temporaries are made."""
        values = list(inputs)
        for x, y, ratio in sums.temporaries:
            values.append(self._plus(values[x], values[y], ratio))
        return [[(values[x][0], c * values[x][1]) for x, c in row] for row in sums.rows]

    def total(self, row: Sequence[Term]) -> Term:
        """Make one variable of a sum."""
        # First the term that all others are multiples of, if there is one.
        value, *rest = sorted(row, key=lambda term: abs(float(term[1])))
        for term in rest:
            value = self._plus(value, term, 1)
        return value

    def _plus(self, x: Term, y: Term, ratio: int) -> Term:
        scaled = y[1] * ratio
        if scaled % x[1]:
            raise IndivisibleError
        self.temporaries.append((x[0], y[0], int(scaled // x[1])))
        return self._n_inputs + len(self.temporaries) - 1, x[1]
