"""Common-subexpression elimination: form all linear combinations of a factor with few additions.

The greedy method: the pair of terms that occurs in most rows (up to a common scale) becomes a new
variable, until no pair occurs twice. It never costs more than the naive count and, unlike exact
minimisation, takes milliseconds. Source: C. H. Paar, "Optimized arithmetic for Reed-Solomon
encoders", ISIT 1997, extended from XOR to signed and scaled terms.

The three factors of a scheme and those of its six symmetric images are the same three matrices, up
to the order of their entries and to transposition. So the search runs on one representative of each
and its result is carried over: reversing every arrow of a program for a matrix gives one for its
transpose (Tellegen's principle), with rows minus columns fewer additions.

A program that a longer search has found (`falcon.discover`) is part of its scheme (`Scheme.sums`),
as the list of its temporaries, which `replay` turns into sums. There is no other store of programs:
how a scheme runs never depends on what a process has loaded before.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from falcon._tools.lazy import lazy

Coefficient = int | Fraction
Row = dict[int, Coefficient]
Pair = tuple[int, int, int]


class Additions(NamedTuple):
    """Numbers of block additions and subtractions that a scheme needs, per multiplication."""

    naive: int
    reduced: int


@dataclass(frozen=True)
class SharedSums:
    """Linear combinations written with shared temporaries.

    Variables ``0 .. n_inputs - 1`` are the inputs; variable ``n_inputs + t`` is temporary t.
    """

    n_inputs: int
    # Temporary t is ``x + ratio * y`` for ``(x, y, ratio)``; x, y are earlier variables.
    temporaries: tuple[Pair, ...]
    # Output i is the sum of ``coefficient * variable``, variables ascending.
    rows: tuple[tuple[tuple[int, Coefficient], ...], ...]

    @classmethod
    def of(cls, n_inputs: int, temporaries: Iterable[Pair], rows: Iterable[Row]) -> SharedSums:
        """Return the sums of these temporaries and rows."""
        return cls(n_inputs, tuple(temporaries), tuple(tuple(sorted(x.items())) for x in rows))

    @lazy
    def additions(self) -> int:
        """Additions and subtractions in total (scalings are not counted)."""
        return len(self.temporaries) + sum(max(len(row) - 1, 0) for row in self.rows)

    def with_inputs(self, order: Sequence[int]) -> SharedSums:
        """The same sums where input x has become input ``order[x]``."""
        place = [*order, *range(self.n_inputs, self.n_inputs + len(self.temporaries))]
        temporaries = [(place[x], place[y], ratio) for x, y, ratio in self.temporaries]
        rows = ({place[x]: c for x, c in row} for row in self.rows)
        return SharedSums.of(self.n_inputs, temporaries, rows)

    def transposed(self) -> SharedSums:
        """Sums for the transposed matrix: each use of a variable becomes an addition to it."""
        users: dict[int, list[tuple[int, Coefficient]]] = defaultdict(list)
        for index, row in enumerate(self.rows):
            for x, c in row:
                users[x].append((index, c))
        new: list[Pair] = []
        for t in reversed(range(len(self.temporaries))):
            terms = users.pop(self.n_inputs + t)
            unit = next((s for s in terms if all(_multiple(c, s[1]) for _, c in terms)), None)
            if unit is not None:
                # The sum of what used temporary t, as one variable times a scale.
                total, scale = unit
                for z, c in terms:
                    if z != unit[0]:
                        new.append((total, z, _multiple(c, scale) or 0))
                        total = len(self.rows) + len(new) - 1
                terms = [(total, scale)]
            x, y, ratio = self.temporaries[t]
            users[x].extend(terms)
            users[y].extend((z, c * ratio) for z, c in terms)
        rows = tuple(tuple(sorted(users[x])) for x in range(self.n_inputs))
        return SharedSums(len(self.rows), tuple(new), rows)


def naive_additions(matrix: np.ndarray) -> int:
    """Additions that form every row of `matrix` (outputs x inputs) on its own."""
    per_row = np.count_nonzero(matrix, axis=1)
    return int(np.maximum(per_row - 1, 0).sum())


def share(matrix: np.ndarray) -> SharedSums:
    """Eliminate common subexpressions from the rows of `matrix` (outputs x inputs).

    Deterministic, and the same up to order for every order of the inputs.
    """
    if matrix.shape[0] < matrix.shape[1]:
        return share(matrix.T).transposed()
    # One representative stands for all matrices that differ in their inputs' order.
    columns = list(zip(*matrix.tolist(), strict=True))
    order = sorted(range(len(columns)), key=columns.__getitem__)
    return _share(tuple(columns[x] for x in order)).with_inputs(order)


def replay(matrix: np.ndarray, pairs: Iterable[Sequence[int]]) -> SharedSums:
    """Eliminate the given pairs, in this order, from every row of `matrix` that holds them.

    `matrix`: of int64, (outputs, inputs), with at least as many outputs, as searches are run.
    `pairs`: temporary t is ``x + ratio * y`` with ratio 1 or -1; x and y are inputs or earlier
    temporaries. The sums are those of the matrix, whatever the pairs.
    Raises ValueError: a pair is not of this form, or no row holds it.
    """
    n_inputs = matrix.shape[1]
    rows: list[Row] = [{x: c for x, c in enumerate(row) if c} for row in matrix.tolist()]
    temporaries: list[Pair] = []
    for pair in pairs:
        new = n_inputs + len(temporaries)
        if len(pair) != 3 or not all(type(value) is int for value in pair):
            raise ValueError(f"temporary {len(temporaries)} is {pair!r}; expected three integers")
        x, y, ratio = pair
        if not (0 <= x < new and 0 <= y < new and x != y and ratio in (1, -1)):
            raise ValueError(
                f"temporary {len(temporaries)} is {list(pair)}; expected two earlier variables "
                "and 1 or -1"
            )
        temporaries.append((x, y, ratio))
        users = [row for row in rows if x in row and y in row and row[y] == ratio * row[x]]
        if not users:
            raise ValueError(f"temporary {len(temporaries) - 1} is {list(pair)}: in no row")
        for row in users:
            row[new] = row.pop(x)
            del row[y]
    return SharedSums.of(n_inputs, temporaries, rows)


Columns = tuple[tuple[Coefficient, ...], ...]


# Room for three per scheme of the catalogue, and for those of a user.
@lru_cache(maxsize=512)
def _share(columns: Columns) -> SharedSums:
    """Run the greedy search on a representative matrix."""
    rows: list[Row] = [
        {x: value for x, value in enumerate(row) if value} for row in zip(*columns, strict=True)
    ]
    temporaries: list[Pair] = []
    _share_greedily(rows, len(columns), temporaries)
    return SharedSums.of(len(columns), temporaries, rows)


def _share_greedily(rows: list[Row], n_inputs: int, temporaries: list[Pair]) -> None:
    """Rewrite `rows` in place, appending the sums that they share to `temporaries`."""
    users = _pair_users(rows)
    heap = [(-len(where), pair) for pair, where in users.items() if len(where) > 1]
    heapq.heapify(heap)
    while heap:
        count, pair = heapq.heappop(heap)
        where = users.get(pair, set())
        if len(where) != -count:  # an outdated entry: its row set has shrunk since
            if len(where) > 1:
                heapq.heappush(heap, (-len(where), pair))
            continue
        new = n_inputs + len(temporaries)
        temporaries.append(pair)
        grown: set[Pair] = set()
        for index in sorted(where):
            grown.update(_substitute(rows[index], index, pair, new, users))
        for other in sorted(grown):
            if len(users[other]) > 1:
                heapq.heappush(heap, (-len(users[other]), other))


def _pair(x: int, cx: Coefficient, y: int, cy: Coefficient) -> Pair | None:
    """Normal form of the term pair ``cx*x + cy*y``: one variable scaled to one.

    None where neither coefficient is a multiple of the other: nothing is ever divided, so that
    integer matrices give integer programs.
    """
    if x > y:
        x, cx, y, cy = y, cy, x, cx
    ratio = _multiple(cy, cx)
    if ratio is not None:
        return x, y, ratio
    ratio = _multiple(cx, cy)
    return None if ratio is None else (y, x, ratio)


def _multiple(c: Coefficient, of: Coefficient) -> int | None:
    """Return ``c / of`` where that is a whole number."""
    if type(c) is int and type(of) is int:
        return None if c % of else c // of
    ratio = Fraction(c) / Fraction(of)
    return int(ratio) if ratio.denominator == 1 else None


def _pair_users(rows: Sequence[Row]) -> dict[Pair, set[int]]:
    users: dict[Pair, set[int]] = defaultdict(set)
    for index, row in enumerate(rows):
        terms = sorted(row.items())
        for position, (x, cx) in enumerate(terms):
            for y, cy in terms[position + 1 :]:
                pair = _pair(x, cx, y, cy)
                if pair is not None:
                    users[pair].add(index)
    return users


def _substitute(
    row: Row, index: int, pair: Pair, new: int, users: dict[Pair, set[int]]
) -> Iterable[Pair]:
    """Replace `pair` by variable `new` in one row; return the pairs that the row has gained."""
    x, y, _ = pair
    cx, cy = row.pop(x), row.pop(y)
    users[pair].discard(index)
    gained = []
    for z, cz in row.items():
        for lost in (_pair(x, cx, z, cz), _pair(y, cy, z, cz)):
            if lost is not None:
                users[lost].discard(index)
        fresh = _pair(z, cz, new, cx)
        if fresh is not None:
            users[fresh].add(index)
            gained.append(fresh)
    row[new] = cx
    return gained
