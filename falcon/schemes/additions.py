"""Common-subexpression elimination: how few additions form all linear combinations of a factor.

The greedy method: the pair of terms that occurs in most rows (up to a common scale) becomes a new
variable, until no pair occurs twice. It never costs more than the naive count and, unlike exact
minimisation, takes milliseconds. Source: C. H. Paar, "Optimized arithmetic for Reed-Solomon
encoders", ISIT 1997, extended from XOR to signed and scaled terms.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

Coefficient = int | Fraction
Row = dict[int, Coefficient]
Pair = tuple[int, int, Coefficient]


class Additions(NamedTuple):
    """Numbers of block additions and subtractions that a scheme needs, per multiplication."""

    naive: int
    reduced: int


@dataclass(frozen=True)
class SharedSums:
    """Linear combinations written with shared temporaries.

    Variables ``0 .. n_inputs - 1`` are the inputs; variable ``n_inputs + t`` is temporary t.

    Attributes
    ----------
    n_inputs : int
    temporaries : tuple of (int, int, coefficient)
        Temporary t is ``x + ratio * y`` for ``(x, y, ratio)``; x, y are earlier variables.
    rows : tuple of tuple of (int, coefficient)
        Output i is the sum of ``coefficient * variable``, variables ascending.
    """

    n_inputs: int
    temporaries: tuple[Pair, ...]
    rows: tuple[tuple[tuple[int, Coefficient], ...], ...]

    @property
    def additions(self) -> int:
        """Additions and subtractions in total (scalings are not counted)."""
        return len(self.temporaries) + sum(max(len(row) - 1, 0) for row in self.rows)


def naive_additions(matrix: np.ndarray) -> int:
    """Additions that form every row of `matrix` (outputs x inputs) on its own."""
    per_row = np.count_nonzero(matrix, axis=1)
    return int(np.maximum(per_row - 1, 0).sum())


def share(matrix: np.ndarray) -> SharedSums:
    """Eliminate common subexpressions from the rows of `matrix` (outputs x inputs).

    Parameters
    ----------
    matrix : ndarray of int64 or of Fraction, shape (outputs, inputs)

    Returns
    -------
    SharedSums
        Deterministic: ties go to the smallest pair of variables.
    """
    rows: list[Row] = [{x: row[x] for x in range(len(row)) if row[x]} for row in matrix.tolist()]
    temporaries: list[Pair] = []
    for some in _slices(rows):
        _share_greedily(some, matrix.shape[1], temporaries)
    return SharedSums(
        matrix.shape[1], tuple(temporaries), tuple(tuple(sorted(row.items())) for row in rows)
    )


# The greedy search over 200,000 pairs takes about half a second and grows faster than linearly;
# only flat compositions of rank beyond 2000 reach it, and they share within slices of their rows.
_PAIRS_AT_ONCE = 200_000


def _slices(rows: list[Row]) -> Iterable[list[Row]]:
    some: list[Row] = []
    pairs = 0
    for row in rows:
        size = len(row) * (len(row) - 1) // 2
        if some and pairs + size > _PAIRS_AT_ONCE:
            yield some
            some, pairs = [], 0
        some.append(row)
        pairs += size
    yield some


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


def _pair(x: int, cx: Coefficient, y: int, cy: Coefficient) -> Pair:
    """Normal form of the term pair ``cx*x + cy*y``: first variable scaled to one."""
    if x > y:
        x, cx, y, cy = y, cy, x, cx
    if cx in (1, -1):
        return x, y, cy * cx
    ratio = Fraction(cy) / Fraction(cx)
    return x, y, ratio if ratio.denominator > 1 else int(ratio)


def _pair_users(rows: Sequence[Row]) -> dict[Pair, set[int]]:
    users: dict[Pair, set[int]] = defaultdict(set)
    for index, row in enumerate(rows):
        terms = sorted(row.items())
        for position, (x, cx) in enumerate(terms):
            for y, cy in terms[position + 1 :]:
                users[_pair(x, cx, y, cy)].add(index)
    return users


def _substitute(
    row: Row, index: int, pair: Pair, new: int, users: dict[Pair, set[int]]
) -> Iterable[Pair]:
    """Replace `pair` by variable `new` in one row; yield the pairs that the row has gained."""
    x, y, _ = pair
    cx, cy = row.pop(x), row.pop(y)
    users[pair].discard(index)
    gained = []
    for z, cz in row.items():
        users[_pair(x, cx, z, cz)].discard(index)
        users[_pair(y, cy, z, cz)].discard(index)
        fresh = _pair(z, cz, new, cx)
        users[fresh].add(index)
        gained.append(fresh)
    row[new] = cx
    return gained
