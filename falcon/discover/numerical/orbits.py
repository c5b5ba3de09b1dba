"""Symmetric starts over the reals: terms that a change of bases permutes.

Orthogonal P, Q and S of prime order map a term (u, v, w) to (P u Q', Q v S', P w S') and the tensor
of matrix multiplication to itself. Least-squares steps keep terms that are permuted so, which
divides the number of unknowns by the size of an orbit.
(Symmetries of known schemes: G. Ballard, C. Ikenmeyer, J. M. Landsberg and N. Ryder, "The geometry
of rank decompositions of matrix multiplication II: 3 x 3 matrices", 2019.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..walk.masks import Format

ORDERS = (2, 3)
MANY = 0.7  # mean excess of the fixed terms over the fewest, in multiples of the order
# Factors that a fixed term's u, v, w are multiplied by: signs of that order whose product is 1.
SIGNS = {2: [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)], 3: [(1, 1, 1)]}


class Symmetry:
    """A cyclic group of order 2 or 3 that permutes the terms.

    Parameters
    ----------
    dims : (m, k, n)
    order : int
        2: diagonal matrices of 1 and -1; 3: turns of planes by a third.
    moved : (int, int, int)
        Per dimension how many basis vectors change their sign, or planes are turned.
    kinds : sequence of int
        Of each fixed term, which come first, which of `SIGNS` multiplies its factors. The other
        terms are `order` in a row, the images of one.
    """

    def __init__(
        self, dims: Format, order: int, moved: Sequence[int], kinds: Sequence[int]
    ) -> None:
        self.order, self.moved, self.kinds = order, tuple(moved), tuple(kinds)
        parts = _turns(dims, order, moved)
        ends = np.cumsum([0, *map(len, parts)])
        turn = np.zeros((ends[-1], ends[-1]))
        for part, start, end in zip(parts, ends[:-1], ends[1:], strict=True):
            turn[start:end, start:end] = part
        self._powers = [np.linalg.matrix_power(turn, power) for power in range(order)]
        signs = np.array([SIGNS[order][kind] for kind in kinds], float).reshape(-1, 3)
        self._signs = np.repeat(signs, list(map(len, parts)), axis=1).T

    def state(self) -> tuple[Any, ...]:
        """The constructor's arguments after `dims`."""
        return self.order, self.moved, self.kinds

    def symmetric(self, x: np.ndarray) -> np.ndarray:
        """The nearest terms that are permuted; `x` as of `Fit`."""
        fixed, rest = self._apart(x)
        kept = sum(power @ (fixed * self._signs**turns) for turns, power in enumerate(self._powers))
        first = sum(power.T @ rest[:, :, turns] for turns, power in enumerate(self._powers))
        images = [power @ (first / self.order) for power in self._powers]
        return np.concatenate(
            [kept / self.order, np.stack(images, axis=2).reshape(len(x), -1)], axis=1
        )

    def noise(self, rank: int, rng: np.random.Generator) -> np.ndarray:
        """Normally distributed terms that are permuted, of variance 1 where free."""
        x = self.symmetric(rng.standard_normal((len(self._powers[0]), rank)))
        x[:, len(self.kinds) :] *= self.order**0.5
        return x

    def orbits(self, terms: np.ndarray) -> np.ndarray:
        """All terms of the orbits of these."""
        fixed = len(self.kinds)
        first = fixed + (terms[terms >= fixed] - fixed) // self.order * self.order
        images = first[:, None] + np.arange(self.order)
        return np.unique(np.concatenate([terms[terms < fixed], images.ravel()]))

    def _apart(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fixed terms, and those in orbits (rows, orbits, terms of an orbit)."""
        fixed = len(self.kinds)
        return x[:, :fixed], x[:, fixed:].reshape(len(x), -1, self.order)


def drawn(dims: Format, rank: int, rng: np.random.Generator) -> Symmetry | None:
    """A random symmetry with few fixed terms; None if it permutes no terms of that rank."""
    order = int(rng.choice(ORDERS))
    moved = [int(rng.integers(size // 2 + 1)) for size in dims]
    few = rank % order
    fixed = min(few + order * int(rng.exponential(MANY)), rank)
    kinds = _kinds(dims, order, moved)
    if not any(moved) or (fixed and not kinds):
        return None
    return Symmetry(dims, order, moved, [int(rng.choice(kinds)) for _ in range(fixed)])


def _turns(dims: Format, order: int, moved: Sequence[int]) -> list[np.ndarray]:
    """The action of the change of bases on u, v and w."""
    p, q, s = (_turn(size, order, count) for size, count in zip(dims, moved, strict=True))
    return [np.kron(p, q), np.kron(q, s), np.kron(p, s)]


def _turn(size: int, order: int, count: int) -> np.ndarray:
    turn = np.eye(size)
    if order == 2:
        turn[range(count), range(count)] = -1
        return turn
    cos, sin = np.cos(2 * np.pi / 3), np.sin(2 * np.pi / 3)
    for plane in range(count):
        pair = slice(2 * plane, 2 * plane + 2)
        turn[pair, pair] = [[cos, -sin], [sin, cos]]
    return turn


def _kinds(dims: Format, order: int, moved: Sequence[int]) -> list[int]:
    """The kinds of fixed terms that exist: each factor has vectors multiplied so."""
    turns = _turns(dims, order, moved)
    kinds = []
    for kind, signs in enumerate(SIGNS[order]):
        # The trace of the projection on these vectors is how many there are.
        found = [
            sum(np.trace(np.linalg.matrix_power(sign * turn, power)) for power in range(order))
            for sign, turn in zip(signs, turns, strict=True)
        ]
        if min(found) > 0.5:
            kinds.append(kind)
    return kinds
