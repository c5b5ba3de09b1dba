"""How much the norms of lines that an LCMA adds up differ, and scaling them by powers of two.

A *line* is a row of A or a column of B. An LCMA adds lines at the same position of different
blocks; such lines form a *group*. Rounding errors of a line with a large norm then reach entries of
C that belong to a line with a small one. Let ``s`` be the largest ratio of root mean square to
least norm within a group: relative to ``norm(a_i) norm(b_j)``, errors of c_ij grow to about
``growth * s_A * s_B`` times those of the classical algorithm. If that is too much, lines are scaled
by powers of two, which causes no rounding (outside scaling: Ballard, Benson, Druinsky, Lipshitz,
Schwartz, arXiv:1507.00687). Columns of A and rows of B may differ in scale: both norms include all
of K. docs/accuracy.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from .dtypes import DType

# Largest s_A * s_B for which the promise holds without scaling. Largest error in units of
# growth u sqrt(K) norm(a_i) norm(b_j), for entries of one sign, seven schemes, sizes 300 to 500:
# 0.75 at s_A * s_B = 1, 0.96 up to 2.4, 1.4 up to 4, 2.7 at 8 (examples/accuracy.py); promised is
# 1.5. Normal entries come to 1.2.
MOST_UNEVEN = 2.0
# From here on the host scales, which costs 1 to 2 % of a product, where that evens norms out. In
# X' X a column of twice the norm added 7 eps to correlations of others. Norms that differ by less
# than powers of two can mend (those of 512 normal entries come to 1.3) stay as they are.
SCALED_FROM = 1.2
_WORTH = 1.1
# Larger powers of two are not used: a factor of C, the product of two, must be a float64.
_LARGEST_EXPONENT = 500
# Logarithms of norms are rounded to 1/64 of an octave before they are compared.
PARTS_OF_OCTAVE = 64
_LINES = 96  # scaled back at a time

# Squared norms, parts, chunk and block, as for `spread`.
Lines = tuple[np.ndarray, int, int, int | None]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Powers of two, float64, by which A's rows and B's columns are multiplied; None: by 1.

    The product is divided by them before anything else is done with it. For lines of zeros the
    power is 0, and C is multiplied by 0 there: this removes rounding errors of other lines.
    """

    rows: np.ndarray | None = None
    columns: np.ndarray | None = None

    def __bool__(self) -> bool:
        return self.rows is not None or self.columns is not None

    def fits(self, dtype: DType) -> bool:
        """Whether elements of `dtype` can be multiplied by the powers, and C divided by them."""
        largest = 2.0 ** min(_LARGEST_EXPONENT, dtype.finfo.maxexp - 2)
        given = [x[x > 0] for x in (self.rows, self.columns) if x is not None]
        return all(((x >= 1 / largest) & (x <= largest)).all() for x in given)

    def of_rows(self, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return A times the powers of its rows: a copy of that dtype, or A if nothing changes."""
        return a if self.rows is None else _times(a, self.rows, dtype, axis=0)

    def of_columns(self, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return B times the powers of its columns, as `of_rows`."""
        return b if self.columns is None else _times(b, self.columns, dtype, axis=1)

    def undo(self, product: np.ndarray) -> None:
        """Divide a product by the powers of its rows and columns, in place."""
        if not self:
            return
        rows = np.ones(len(product)) if self.rows is None else _inverse(self.rows)
        columns = np.ones(1) if self.columns is None else _inverse(self.columns)
        kind = _kind(product.dtype, rows, columns)
        rows, columns = rows.astype(kind)[:, None], columns.astype(kind)
        for start in range(0, len(product), _LINES):
            # Multiply by both at once: one alone could overflow.
            some = product[start : start + _LINES]
            powers = rows[start : start + _LINES] * columns
            np.multiply(some, powers, out=some, casting="same_kind")


def _inverse(powers: np.ndarray) -> np.ndarray:
    return np.divide(1, powers, out=np.zeros_like(powers), where=powers > 0)


def _times(x: np.ndarray, powers: np.ndarray, dtype: np.dtype, axis: int) -> np.ndarray:
    if np.isin(powers, (0, 1)).all():
        return x
    powers = powers.astype(_kind(dtype, powers))
    powers = powers[:, None] if axis == 0 else powers
    return np.multiply(x, powers, out=np.empty_like(x, dtype), casting="same_kind")


def _kind(dtype: np.dtype, *powers: np.ndarray) -> np.dtype:
    """Return the real type that holds products of the powers: that of `dtype`, or float64."""
    info, positive = np.finfo(dtype), [x[x > 0] for x in powers]
    least = float(np.prod([x.min(initial=1) for x in positive]))
    largest = float(np.prod([x.max(initial=1) for x in positive]))
    fits = float(info.smallest_normal) <= least and largest <= float(info.max)
    return info.dtype if fits else np.dtype(np.float64)


def _groups(
    lines: np.ndarray, parts: int, chunk: int, block: int | None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the lines of each chunk as a matrix, one group per column, padded with zeros."""
    for start in range(0, len(lines) if parts > 1 else 0, max(chunk, 1)):
        some = lines[start : start + chunk]
        length = block or -(-len(some) // parts)
        groups = np.zeros((-(-len(some) // length), length))
        groups.reshape(-1)[: len(some)] = some
        yield slice(start, start + len(some)), groups


def spread(squares: np.ndarray, parts: int, chunk: int, block: int | None = None) -> float:
    """Return the largest ratio of root mean square to least norm within a group of lines.

    `squares`: ndarray of float64; squared 2-norms of the rows of A, or the columns of B. Lines of
    zeros are ignored.
    `parts`: number of blocks into which the scheme cuts a chunk.
    `chunk`: lines that are multiplied at a time.
    `block`: lines of a block; by default an equal part of the chunk, rounded up.
    """
    worst = 1.0
    with np.errstate(over="ignore"):  # the squares of norms may differ by more than a float64 holds
        for _, groups in _groups(squares, parts, chunk, block):
            present = groups > 0
            least = np.where(present, groups, np.inf).min(axis=0)
            mean = groups.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
            worst = max(worst, float((mean / least).max()))
    return sqrt(worst)


def powers_of_two(
    squares: np.ndarray, parts: int, chunk: int, block: int | None = None
) -> np.ndarray:
    """Return powers of two that make the norms of each group as equal as possible; 0 for norm 0.

    Scaled norms are between 1 and 4, and within a factor of ``2**(1 - 1 / parts)`` in a group: the
    fractional parts of their logarithms lie on a circle, which is cut at its largest gap.
    """
    powers = (squares > 0).astype(np.float64)
    for at, groups in _groups(squares, parts, chunk, block):
        present, size = groups > 0, PARTS_OF_OCTAVE
        norms = np.log2(groups, out=np.zeros_like(groups), where=present)
        norms = np.rint(norms * (size / 2)).astype(np.int64)
        # Absent lines get the norm of the first present one, so that they do not change the gaps.
        first = np.take_along_axis(norms, present.argmax(axis=0)[None], axis=0)
        circle = np.sort(np.where(present, norms, first) % size, axis=0)
        following = np.concatenate([circle[1:], circle[:1] + size])
        cut = (following - circle).argmax(axis=0)[None]
        lowest = np.take_along_axis(following, cut, axis=0) % size
        exponents = ((norms - lowest) // size).reshape(-1)
        powers[at] = np.ldexp(powers[at], -exponents[: at.stop - at.start])
    return powers


def evened(
    dimensions: Sequence[Lines], spreads: Sequence[float], beyond: float
) -> list[np.ndarray | None]:
    """Return the powers for the lines of each dimension, None where scaling is no help.

    `dimensions`: arguments of `spread`.
    `spreads`: their spreads.
    `beyond`: the lines are scaled if the product of the spreads is larger, and falls by a tenth, or
    at all where it is larger still.
    """
    found = [_without_zeros(*x) for x in dimensions]
    if prod(spreads) > beyond:
        powers = [powers_of_two(*x) for x in dimensions]
        after = [spread(x[0] * y * y, *x[1:]) for x, y in zip(dimensions, powers, strict=True)]
        # Near what the promise allows, any help is taken.
        worth = _WORTH if prod(spreads) <= beyond * sqrt(MOST_UNEVEN / SCALED_FROM) else 1.0
        if worth * prod(map(min, after, spreads)) < prod(spreads):
            for i, x in enumerate(powers):
                found[i] = x if after[i] < spreads[i] else found[i]
    return found


def _without_zeros(squares: np.ndarray, parts: int, *_: int | None) -> np.ndarray | None:
    return None if parts == 1 or squares.all() else (squares > 0).astype(np.float64)
