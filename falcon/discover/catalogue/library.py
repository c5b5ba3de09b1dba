"""Known schemes as starts of a search: the catalogue, and the finds in a folder.

A search of <m,k,n> may begin at the classical algorithm, at the direct sum of two known schemes
whose formats add up to it along one dimension, at the projection of a larger one, or at a known
scheme of the format itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from falcon import schemes

from ..walk import masks, moves
from ..walk._core import Walker
from ..walk.masks import Format, ascending, resized
from ..walk.moves import Factors

# Ranks above the lowest at which a known scheme is a start: to lower the rank, and to improve
# schemes at equal rank (sparse schemes of small growth often have a few more terms).
SLACK, SLACK_TO_IMPROVE = 1, 4
SHARE_OF_SUMS = 0.3  # of the parts drawn to improve schemes
# Ranks above the least sum at which another sum is a start: <4,4,6;73> and a column (89) led to
# <4,4,7;85>, <4,4,4;49> and <4,4,3;38> (87) did not.
SUM_SLACK = 4
# Flips of a walk from a part of a sum or a scheme to be projected (20 ms), so that no two starts
# are alike, and flips before each plus-transition: most are undone within some ten flips.
PART_FLIPS, PART_PLUS_AFTER = 300_000, 2_000
DRAWS = (1, 6)  # projections made, of which the one of the lowest rank is the start
# Growing a format: lines added at a time, and flips of the walks after each.
GROWTH, GROWING_FLIPS, GROWING_PLUS_AFTER = (1, 1, 2), (200_000, 1_000_000), (3_000, 20_000, 50_000)


class Library:
    """Ternary schemes by sorted format; formats with a 1 need none, the classical is optimal.

    Parameters
    ----------
    folder : path, optional
        Finds of earlier searches (``*.json``), beside the catalogue.
    catalogue : bool
        Whether to use falcon's catalogue; without it a search starts at the classical algorithm.
    slack : int
        Ranks above the lowest that are drawn.
    """

    def __init__(
        self, folder: Path | None = None, *, catalogue: bool = True, slack: int = SLACK
    ) -> None:
        self._held: dict[Format, list[Factors]] = {}
        self._slack = slack
        if catalogue:
            for name in schemes.names():
                self.add(schemes.get(name))
        for path in sorted(folder.glob("*.json")) if folder else []:
            for scheme in schemes.load_all(path):
                self.add(scheme)

    def add(self, scheme: schemes.Scheme) -> None:
        """Remember a scheme, if its coefficients are -1, 0 and 1 and its factors fit a mask."""
        factors = scheme.U, scheme.V, scheme.W
        m, k, n = scheme.format
        ternary = all(x.dtype != object and np.abs(x).max() <= 1 for x in factors)
        if ternary and max(m * k, k * n, m * n) <= 64:
            self._held.setdefault(ascending(scheme.format), []).append(factors)

    def schemes(self, dims: Format) -> list[np.ndarray]:
        """Masks of the known schemes of a format, brought to this order of its dimensions."""
        rng = random.Random(0)
        held = self._held.get(ascending(dims), [])
        return [masks.from_arrays(*moves.reshaped(x, dims, rng)) for x in held]

    def rank(self, dims: Format, *, sums: bool = False) -> int:
        """Lowest known rank of a format, `sums` of two known schemes included if wanted."""
        held = [len(x[0]) for x in self._held.get(ascending(dims), [])]
        if sums:
            held += [rank for rank, *_ in self.sums(dims)]
        return min(held, default=dims[0] * dims[1] * dims[2])

    def draw(self, dims: Format, rng: random.Random) -> Factors:
        """A known scheme of the format, of low rank, in a random image and a random basis.

        With a larger slack also sums of two: their error growth is smaller.
        """
        held = self._held.get(ascending(dims), [])
        least = self.rank(dims) + self._slack
        fitting = [x for x in held if len(x[0]) <= least]
        if self._slack > SLACK and 1 not in dims and rng.random() < SHARE_OF_SUMS:
            ways = [way for way in self.sums(dims) if way[0] <= least]
            if ways:
                _, first, second, axis = rng.choice(ways)
                terms = moves.merged(self.draw(first, rng), self.draw(second, rng), axis)
                return masks.arrays_of(terms, dims)
        if not fitting or 1 in dims:
            return masks.arrays_of(moves.classical(dims), dims)
        return moves.shuffled(moves.reshaped(rng.choice(fitting), dims, rng), rng)

    def sums(self, dims: Format) -> list[tuple[int, Format, Format, int]]:
        """Ways to cut one dimension in two: rank of the sum, the two formats, the dimension."""
        found = []
        for axis in range(3):
            for part in range(1, dims[axis] // 2 + 1):
                first, second = resized(dims, axis, dims[axis] - part), resized(dims, axis, part)
                found.append((self.rank(first) + self.rank(second), first, second, axis))
        return sorted(found)

    def repeats(self, dims: Format) -> list[tuple[int, tuple[Format, ...], int]]:
        """Ways to cut a dimension into equal parts and a rest: rank, the formats, the dimension.

        One scheme serves all equal parts, so that they share the sums of one operand.
        """
        found = []
        for axis in range(3):
            for size in range(2, dims[axis] // 2 + 1):
                copies, rest = divmod(dims[axis], size)
                parts = [resized(dims, axis, size)] * copies
                parts += [resized(dims, axis, rest)] * bool(rest)
                found.append((sum(map(self.rank, parts)), tuple(parts), axis))
        return sorted(found)

    def varied(self, dims: Format) -> list[Start]:
        """Functions that draw starts far apart: sums, known schemes, and grown formats."""
        found = [start for start in self.starts(dims) if start.kind in ("merge", "known")]
        return found + [Start("grow", self, dims) for _ in range(len(found) or 1)]

    def starts(self, dims: Format) -> list[Start]:
        """Functions that draw a start, the classical algorithm first."""
        found: list[Start] = [Start("classical", self, dims)]
        ways = [(rank, (x, y), axis, False) for rank, x, y, axis in self.sums(dims)]
        repeats = [(*way, True) for way in self.repeats(dims)]
        for rank, parts, axis, same in ways + repeats:
            if rank <= ways[0][0] + SUM_SLACK and rank < dims[0] * dims[1] * dims[2]:
                found.append(Start("merge", self, dims, axis, parts, same=same))
        for axis in range(3):
            larger = resized(dims, axis, dims[axis] + 1)
            if ascending(larger) in self._held:
                found.append(Start("project", self, dims, axis, (larger,)))
        if ascending(dims) in self._held:
            found.append(Start("known", self, dims))
        return found

    def __iter__(self) -> Iterator[Format]:
        return iter(self._held)


class Start:
    """One way to begin a search: ``start(rng, mod2)`` gives the masks of a scheme."""

    def __init__(
        self,
        kind: str,
        library: Library,
        dims: Format,
        axis: int = -1,
        parts: tuple[Format, ...] = (),
        *,
        same: bool = False,
    ) -> None:
        self.kind = kind
        self._same = same
        self._library = library
        self._dims = dims
        self._axis = axis
        self._parts = parts

    def __call__(self, rng: random.Random, mod2: bool) -> np.ndarray:
        """Draw a start; the classical algorithm if a projection leaves {-1, 0, 1}."""
        if self.kind == "known":
            return masks.from_arrays(*self._library.draw(self._dims, rng))
        if self.kind == "merge":
            return self._merge(rng, mod2)
        if self.kind == "grow":
            return self._grow(rng, mod2)
        if self.kind == "project":
            drawn = [self._project(rng, mod2) for _ in range(rng.choice(DRAWS))]
            held = [terms for terms in drawn if terms is not None]
            if held:
                return min(held, key=len)
        return moves.classical(self._dims)

    def _project(self, rng: random.Random, mod2: bool) -> np.ndarray | None:
        larger = _wandered(self._library.draw(self._parts[0], rng), rng, mod2)
        return moves.projected(larger, self._axis, rng, mod2=mod2)

    def _merge(self, rng: random.Random, mod2: bool) -> np.ndarray:
        """The direct sum of draws of the parts; one draw for equal parts if they are the same."""
        axis = self._axis
        drawn = [self._library.draw(part, rng) for part in self._parts]
        if rng.random() < 0.8:
            drawn = [_wandered(x, rng, mod2) for x in drawn]
        if self._same:
            drawn = [drawn[self._parts.index(part)] for part in self._parts]
        total, width = drawn[0], self._parts[0][axis]
        for part, other in zip(self._parts[1:], drawn[1:], strict=True):
            width += part[axis]
            terms = moves.merged(total, other, axis)
            total = masks.arrays_of(terms, resized(self._dims, axis, width))
        return terms

    def _grow(self, rng: random.Random, mod2: bool) -> np.ndarray:
        """Begin at a smaller format and walk after each line that is added to a dimension."""
        goal = self._dims
        if max(goal) == 1:
            return moves.classical(goal)
        sizes = [rng.randint((size + 1) // 2, size) for size in goal]
        if tuple(sizes) == goal:
            axis = rng.choice([x for x in range(3) if goal[x] > 1])
            sizes[axis] -= 1
        dims = sizes[0], sizes[1], sizes[2]
        factors = self._library.draw(dims, rng)
        while dims != goal:
            axis = rng.choice([x for x in range(3) if dims[x] < goal[x]])
            lines = rng.choice(GROWTH) if goal[axis] > dims[axis] + 1 else 1
            dims = resized(dims, axis, dims[axis] + lines)
            slab = resized(dims, axis, lines)
            part = masks.arrays_of(moves.classical(slab), slab)
            walker = Walker(dims, moves.merged(factors, part, axis), rng.getrandbits(64), mod2=mod2)
            rank = walker.rank + 1
            while walker.rank < rank and dims != goal:
                rank = walker.rank
                walker.walk(rng.choice(GROWING_FLIPS), plus_after=rng.choice(GROWING_PLUS_AFTER))
            factors = masks.arrays_of(walker.terms, dims)
        return masks.from_arrays(*factors)

    def __repr__(self) -> str:
        parts = " + ".join("x".join(map(str, x)) for x in self._parts)
        return f"{self.kind} {parts}".strip()


def _wandered(factors: Factors, rng: random.Random, mod2: bool) -> Factors:
    """Another scheme of this rank or a lower one, by a walk from it."""
    dims = moves.dims_of(factors)
    if 1 in dims:
        return factors
    walker = Walker(dims, masks.from_arrays(*factors), rng.getrandbits(64), mod2=mod2)
    walker.walk(PART_FLIPS, plus_after=PART_PLUS_AFTER, margin=1)
    return masks.arrays_of(walker.terms, dims) if walker.rank <= len(factors[0]) else factors
