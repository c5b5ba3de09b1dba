"""Walks modulo 2 over many families of schemes at once, of a format and its neighbours.

The traces ``trace(u v w')`` of all terms add up to mkn. In good schemes nearly every term with a
factor of rank 1 has trace 1; the other terms, the *core*, have a trace of 2 or more, and the rank
is mkn less what the core saves (4x4x5:62 has 18 terms of trace 2, 5x5x5:93 has 32). Walks hardly
change a core whose factors all have rank 2: of 4,739 walks from 4x4x5:62 with such a core, raised
to 70 to 82 terms, 4,726 ended at rank 62 again and none lower. Other cores lead further. A *family*
is the schemes of one core, and the pool gives a common family no more walks than a rare one.

New cores come from sums of known schemes, from formats that grow line by line with a walk at every
size, and from neighbouring formats: a scheme is extended by a line (a row or a column of blocks) in
one dimension, walked, and projected by a line again. So formats with one line more, one less and
two less have pools too. With a line less, schemes up to `WARM` terms above the lowest rank are
kept, because the best ones there are seldom part of the best ones with the line: the 4x4x4 whose
sums with a column fall to 4x4x5:61 and 62 have 51 to 53 terms. Schemes that exist modulo 2 only are
left out, by the equations modulo 4 (`lifting.liftable`). Source of the moves: see `moves`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from . import lifting, masks, moves
from ._core import Walker, violations
from .masks import Format, Start, ascending, resized

Family = tuple[tuple[int, int, int], ...]

# Shares of the steps: AT_HOME in the format itself, A_LINE_LESS in formats with a line less. Within
# any format, GROWN extend a scheme of a format with a line less; of the others FRESH begin at a
# start, and of the rest STAY make no detour through another format.
AT_HOME, A_LINE_LESS, GROWN, FRESH, STAY = 0.5, 0.35, 0.35, 0.1, 0.5
MOST_ENTRIES = 64  # of a factor: the bits of a mask
# Most schemes per family, and most families per format and rank: the one drawn most of the largest
# group is dropped.
HELD, MOST = 6, 500
# Ranks kept above the lowest of a format, and of a format with a line less.
SLACK, WARM = 2, 4
# How much more often a group of families is drawn than one of the next higher rank; in smaller
# formats equally often.
LOWER = 5.0
# Flips of a walk: from a start, after an extension, and from a family or after a projection. Short
# walks find most families per time: at 4x4x5:62 700,000 flips seven times as many as 8 million.
FIRST_WALK, EXTENDED_WALK, WALKS = 2_500_000, 1_000_000, (200_000, 700_000, 2_000_000)
IDLE = 2  # walks without gain from a start or after an extension; one from others
PLUS_AFTER, MARGINS = (1_000, 5_000, 20_000, 50_000), (1, 2, 3, 4, 6)

NONE = np.zeros((0, 3, 2), np.uint64)  # a scheme of no terms


def near(dims: Format) -> list[Format]:
    """The format and those with one line more, one less or two less, dimensions ascending.

    Those with two lines less in one dimension are extended to those with one less.
    """
    others = {
        ascending(resized(dims, axis, size + lines))
        for axis, size in enumerate(dims)
        for lines in (1, -1, -2)
        if size + lines > 0
    }
    fitting = [x for x in others if x[0] > 1 and x[1] * x[2] <= MOST_ENTRIES]
    return [ascending(dims), *sorted(fitting)]


def family(terms: np.ndarray, dims: Format) -> Family:
    """Ranks modulo 2 of the factors of each term without a factor of rank 1, sorted.

    The factors are in the order V, W, U, of the dimension that they lack. Schemes that differ by an
    exchange of equal dimensions are of one family.
    """
    shapes = masks.shapes(dims)
    ranks = [
        tuple(_rank(int(term[mode, 0] | term[mode, 1]), shapes[mode]) for mode in (1, 2, 0))
        for term in terms
    ]
    core = [x for x in ranks if min(x) > 1]
    return min(
        tuple(sorted((x[a], x[b], x[c]) for x in core))
        for a, b, c in permutations(range(3))
        if (dims[a], dims[b], dims[c]) == tuple(dims)
    )


def _rank(mask: int, shape: tuple[int, int]) -> int:
    rows, columns = shape
    basis: list[int] = []
    for row in range(rows):
        line = mask >> row * columns & (1 << columns) - 1
        for other in basis:
            line = min(line, line ^ other)
        if line:
            basis.append(line)
    return len(basis)


class Run:
    """A search in steps; `state` holds it in a checkpoint.

    Parameters
    ----------
    dims : (m, k, n)
    starts : dict
        Sequences of functions by format, this one and those `near` it: ``start(rng, True)``
        returns the masks of a scheme modulo 2.
    state : dict, optional
        A search to go on with.

    Attributes
    ----------
    held : dict
        Schemes modulo 2 by format (dimensions in ascending order), rank and family.

    Raises
    ------
    ValueError
        A scheme of `state` violates a Brent equation.
    """

    def __init__(
        self,
        dims: Format,
        starts: Mapping[Format, Sequence[Start]],
        state: dict[str, Any] | None = None,
    ) -> None:
        self.dims = dims
        self._home = ascending(dims)
        self._starts = starts
        self.held: dict[Format, dict[int, dict[Family, list[np.ndarray]]]] = {}
        # Draws since a family last led to one that was not held.
        self._drawn: Counter[tuple[Format, int, Family]] = Counter()
        self._last: tuple[Format, int, Family] | None = None
        for (m, k, n), schemes, drawn in state["families"] if state else []:
            form = m, k, n
            arrays = [np.array(terms, np.uint64) for terms in schemes]
            wrong = sum(violations(form, terms, mod2=True) for terms in arrays)
            if wrong:
                raise ValueError(f"the checkpoint holds families with {wrong} violations modulo 2")
            rank, key = len(arrays[0]), family(arrays[0], form)
            self.held.setdefault(form, {}).setdefault(rank, {})[key] = arrays
            self._drawn[form, rank, key] = drawn

    def state(self) -> dict[str, Any]:
        """What another `Run` needs to go on."""
        kept = [
            (form, list(schemes), self._drawn[form, rank, key])
            for form, ranks in self.held.items()
            for rank, families in ranks.items()
            for key, schemes in families.items()
        ]
        return {"families": kept}

    @property
    def count(self) -> int:
        """Families of the lowest rank."""
        ranks = self.held.get(self._home)
        return len(ranks[min(ranks)]) if ranks else 0

    def step(self, rng: random.Random) -> tuple[int, list[np.ndarray]]:
        """Walk; return the flips made and the schemes modulo 2 reached, which may be lifted."""
        form, self._last = self._format(rng), None
        shorter = [(x, axis) for x in self.held for axis in range(3) if _grown(x, axis) == form]
        if shorter and rng.random() < GROWN:
            form, axis = rng.choice(shorter)
            new, terms = _extended(self._draw(form, rng), form, axis)
            return self._walk(new, terms, EXTENDED_WALK, IDLE, rng)[:2]
        if form not in self.held or rng.random() < FRESH:
            start = rng.choice(self._starts[form])
            return self._walk(form, start(rng, True), FIRST_WALK, IDLE, rng)[:2]
        terms = self._draw(form, rng)
        ways = self._ways(form)
        if not ways or rng.random() < STAY:
            return self._walk(form, terms, rng.choice(WALKS), 1, rng)[:2]
        return self._detour(form, terms, *rng.choice(ways), rng)

    def _format(self, rng: random.Random) -> Format:
        """The format to search in."""
        less = [form for form in self._starts if sum(form) == sum(self._home) - 1]
        others = [form for form in self._starts if form not in (self._home, *less)]
        some = [
            (forms, share)
            for forms, share in (
                ([self._home], AT_HOME),
                (less, A_LINE_LESS),
                (others, 1 - AT_HOME - A_LINE_LESS),
            )
            if forms
        ]
        forms = rng.choices([x for x, _ in some], [share for _, share in some])[0]
        return rng.choice(forms)

    def scheme(self, rank: int, rng: random.Random) -> np.ndarray:
        """A scheme of that rank, every family equally likely; one of no terms if there is none."""
        families = self.held.get(self._home, {}).get(rank)
        if not families:
            return NONE
        terms = rng.choice(rng.choice(list(families.values())))
        return _turned(terms, self._home, self.dims, rng)

    def _ways(self, form: Format) -> list[tuple[int, int]]:
        """Dimensions, and 1 or -1, by which a line more or less makes a format that is searched."""
        return [
            (axis, lines)
            for axis in range(3)
            for lines in (1, -1)
            if ascending(resized(form, axis, form[axis] + lines)) in self._starts
        ]

    def _detour(
        self, form: Format, terms: np.ndarray, axis: int, lines: int, rng: random.Random
    ) -> tuple[int, list[np.ndarray]]:
        """Walk with a line more or less, then in the format again.

        The scheme between the two is seldom kept: its rank is mostly too high for its format.
        """
        flips, found = 0, []
        for step in (lines, -lines):
            if step > 0:
                form, terms = _extended(terms, form, axis)
            else:
                left = moves.projected(masks.arrays_of(terms, form), axis, rng, mod2=True)
                if left is None:
                    break
                form, terms = resized(form, axis, form[axis] - 1), left
            length, idle = (EXTENDED_WALK, IDLE) if step > 0 else (rng.choice(WALKS), 1)
            made, reached, terms = self._walk(form, terms, length, idle, rng)
            flips += made
            found += reached
        return flips, found

    def _walk(
        self, form: Format, terms: np.ndarray, flips: int, most_idle: int, rng: random.Random
    ) -> tuple[int, list[np.ndarray], np.ndarray]:
        """Walk; return the flips made, the schemes kept of the format, and the last one."""
        walker = Walker(form, terms, rng.getrandbits(64), mod2=True)
        plus_after, margin = rng.choice(PLUS_AFTER), rng.choice(MARGINS)
        reached, found, idle = walker.terms, [], 0
        while idle < most_idle:
            fell = walker.walk(flips, plus_after=plus_after, margin=margin)
            if walker.rank < len(reached):
                found += self._keep(form, reached, rng)
                idle = 0
            elif not fell:  # a walk that only lost its extra terms goes on
                idle += 1
            if walker.rank <= len(reached):
                reached = walker.terms
        found += self._keep(form, reached, rng)
        return walker.flips, found, reached

    def _draw(self, form: Format, rng: random.Random) -> np.ndarray:
        ranks = self.held[form]
        keys = [(rank, key) for rank, families in ranks.items() for key in families]
        groups = [(rank, _group(key)) for rank, key in keys]
        seldom = [1 / (1 + self._drawn[form, rank, key]) for rank, key in keys]
        totals: dict[tuple[int, tuple[int, ...]], float] = {}
        for group, share in zip(groups, seldom, strict=True):
            totals[group] = totals.get(group, 0.0) + share
        lowest, lower = min(ranks), LOWER if sum(form) >= sum(self._home) else 1.0
        weights = [
            lower ** (lowest - group[0]) * share / totals[group]
            for group, share in zip(groups, seldom, strict=True)
        ]
        rank, key = rng.choices(keys, weights)[0]
        self._last = form, rank, key
        self._drawn[self._last] += 1
        return rng.choice(ranks[rank][key])

    def _keep(self, form: Format, terms: np.ndarray, rng: random.Random) -> list[np.ndarray]:
        """Put a scheme with its family, if its rank is low and the equations modulo 4 allow it.

        Returns it in a list, its dimensions in their order, if it is of the format searched.
        """
        home = ascending(form)
        rank, ranks = len(terms), self.held.get(home, {})
        slack = WARM if sum(home) == sum(self._home) - 1 else SLACK
        if rank > min(ranks, default=rank) + slack or not lifting.liftable(terms, form):
            return []
        kept = _turned(terms, form, home, rng)
        ranks = self.held.setdefault(home, {})
        families, key = ranks.setdefault(rank, {}), family(kept, home)
        if key not in families and len(families) >= MOST:
            groups = Counter(map(_group, families))
            worn = max(families, key=lambda x: (groups[_group(x)], self._drawn[home, rank, x]))
            del families[worn], self._drawn[home, rank, worn]
        if key not in families and self._last:
            self._drawn[self._last] = 0
        schemes = families.setdefault(key, [])
        if len(schemes) < HELD:
            schemes.append(kept)
        else:
            schemes[rng.randrange(HELD)] = kept
        for other in [x for x in ranks if x > min(ranks) + slack]:
            del ranks[other]
        return [_turned(kept, home, self.dims, rng)] if home == self._home else []


def _group(key: Family) -> tuple[int, ...]:
    """How many factors of the core have a rank above 2, by operand.

    Walks seldom change these numbers, and families with large ones are rare: every group is drawn
    equally often.
    """
    return tuple(sum(ranks[mode] > 2 for ranks in key) for mode in range(3))


def _grown(form: Format, axis: int) -> Format:
    return ascending(resized(form, axis, form[axis] + 1))


def _extended(terms: np.ndarray, form: Format, axis: int) -> tuple[Format, np.ndarray]:
    """The direct sum of a scheme with one line: its format and its terms."""
    slab = resized(form, axis, 1)
    line = masks.arrays_of(moves.classical(slab), slab)
    new = resized(form, axis, form[axis] + 1)
    return new, moves.merged(masks.arrays_of(terms, form), line, axis)


def _turned(terms: np.ndarray, form: Format, dims: Format, rng: random.Random) -> np.ndarray:
    """Masks of a scheme modulo 2 with its dimensions in another order."""
    if form == dims:
        return terms
    u, v, w = moves.reshaped(masks.arrays_of(terms, form), dims, rng)
    return masks.from_arrays(u, v, w)
