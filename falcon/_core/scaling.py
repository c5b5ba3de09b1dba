r"""Scale rows of A and columns of B by powers of two where an LCMA would add very different ones.

A *line* is a row of A or a column of B. An LCMA adds lines at the same position of different
blocks; such lines form a *group*. Rounding errors of a line with a large norm then reach entries of
C that belong to a line with a small one. Let ``s`` be the largest ratio of root mean square to
least norm within a group: relative to ``norm(a_i) norm(b_j)``, errors of c_ij grow to about
``growth * s_A * s_B`` times those of the classical algorithm. If that is too much, lines are scaled
by powers of two, which causes no rounding (outside scaling: Ballard, Benson, Druinsky, Lipshitz,
Schwartz, arXiv:1507.00687). That columns of A and rows of B differ in scale is for
`units.py`, which comes first. docs/accuracy.md has the proofs. ::

    settle: choose_scaling ---- Scaling (often empty) ----------> the scheme, and C is scaled back
              | the backend's  \--- None: norms not measurable --> the classical algorithm
              | `measure`
    pack:    scale_packed

The same pass over the operands forms the sums by which they are centred (`centring.py`): what is
scaled then are the norms of what is left. A GPU scales on the device, each group by itself:
`falcon/_gpu/kernels/powers.cu`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt

import numpy as np

from falcon._tools.lazy import lazy

from .bound import MOST_UNEVEN
from .centring import Centring
from .dtypes import DType
from .plan import Plan
from .units import LARGEST_EXPONENT, Units

_log = logging.getLogger("falcon")

# From here on the host scales, which costs 1 to 2 % of a product, where that evens norms out. In
# X' X a column of twice the norm added 7 eps to correlations of others. Norms that differ by less
# than powers of two can mend (those of 512 normal entries come to 1.3) stay as they are.
SCALED_FROM = 1.2
_WORTH = 1.1
# The largest over the least norm of lines, from which a sample may have missed the large ones.
UNSEEN = 4.0
# Logarithms of norms are rounded to 1/64 of an octave before they are compared.
PARTS_OF_OCTAVE = 64
# Lines that are scaled back, or measured again, at a time, and elements of each of the latter.
_LINES, _STEPS = 96, 512


def is_wide(*squares: np.ndarray) -> bool:
    """Whether some lines are so much larger than others that a sample may have missed them."""
    given = [x[x > 0] for x in squares]
    return any(x.size and x.max() >= UNSEEN**2 * x.min() for x in given)


def scale_packed(squares: np.ndarray, plan: Plan, chunk: int) -> Scaling | None:
    """Return how columns with these squared norms are scaled when they are packed for a plan.

    The spread of the columns may be up to sqrt(`SCALED_FROM`), so that as much is left for the rows
    of A. None: B is packed for the classical algorithm, because some norms cannot be measured.
    """
    scaling: Scaling | None = None
    if np.isfinite(squares).all():
        lines = Lines(squares, plan.scheme.n, chunk)
        (powers,) = equilibrated((lines,), sqrt(SCALED_FROM))
        scaling = Scaling(columns=powers)
    if scaling is None or not scaling.fits(plan.operand.rounded):
        _log.debug("falcon: b is packed for the classical algorithm: its norms cannot be measured")
        return None
    if scaling:
        _log.debug("falcon: columns of b are scaled as they are packed: their norms differ")
    return scaling


def remeasure(
    x: np.ndarray, axis: int, squares: np.ndarray, powers: np.ndarray | None = None
) -> None:
    """Measure squared norms of which 0, Inf or NaN was measured again, in float64 and in place.

    `powers`: by which a line's elements are multiplied.
    """
    lines = x if axis == 0 else x.T
    doubtful = np.flatnonzero(~((squares > 0) & (squares < np.inf)))
    for start in range(0, len(doubtful), _LINES):
        some = doubtful[start : start + _LINES]
        sums, nonzero = np.zeros(len(some)), np.zeros(len(some), bool)
        for step in range(0, lines.shape[1], _STEPS):
            part = np.abs(lines[some, step : step + _STEPS])
            if powers is not None:
                with np.errstate(all="ignore"):
                    part = part * powers[step : step + _STEPS]
            present = part != 0
            if present.any():
                nonzero |= present.any(axis=1)
                with np.errstate(all="ignore"):
                    sums += np.square(part, dtype=np.float64).sum(axis=1)
        sums[nonzero & (sums < np.finfo(np.float64).tiny * 2.0**60)] = np.nan
        squares[some] = sums


@dataclass(frozen=True, slots=True)
class Scaling:
    """Powers of two, float64, by which A's rows and B's columns are multiplied; None: by 1.

    The product is divided by them before anything else is done with it. For lines of zeros the
    power is 0, and C is multiplied by 0 there: this removes rounding errors of other lines.
    """

    rows: np.ndarray | None = None
    columns: np.ndarray | None = None
    centring: Centring | None = None  # which comes before
    units: Units | None = None  # which come first of all
    is_wide: bool = False  # see the function

    def __bool__(self) -> bool:
        return self.rows is not None or self.columns is not None

    def fits(self, dtype: DType) -> bool:
        """Whether elements of `dtype` can be multiplied by the powers, and C divided by them."""
        largest = 2.0 ** min(LARGEST_EXPONENT, dtype.finfo.maxexp - 2)
        given = [x[x > 0] for x in (self.rows, self.columns) if x is not None]
        return all(((x >= 1 / largest) & (x <= largest)).all() for x in given)

    def of_rows(self, a: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return A times the powers of its rows: a copy of that dtype, or A if nothing changes."""
        return a if self.rows is None else _times(a, self.rows[:, None], dtype)

    def of_columns(self, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return B times the powers of its columns, as `of_rows`."""
        return b if self.columns is None else _times(b, self.columns, dtype)

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


UNSCALED = Scaling()


def _inverse(powers: np.ndarray) -> np.ndarray:
    return np.divide(1, powers, out=np.zeros_like(powers), where=powers > 0)


def _times(x: np.ndarray, powers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if np.isin(powers, (0, 1)).all():
        return x
    powers = powers.astype(_kind(dtype, powers))
    return np.multiply(x, powers, out=np.empty_like(x, dtype), casting="same_kind")


def _kind(dtype: np.dtype, *powers: np.ndarray) -> np.dtype:
    """Return the real type that holds products of the powers: that of `dtype`, or float64."""
    info, positive = np.finfo(dtype), [x[x > 0] for x in powers]
    least = float(np.prod([x.min(initial=1) for x in positive]))
    largest = float(np.prod([x.max(initial=1) for x in positive]))
    fits = float(info.smallest_normal) <= least and largest <= float(info.max)
    return info.dtype if fits else np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines of an operand, and which of them a scheme adds up."""

    squares: np.ndarray  # their squared 2-norms, float64; lines of zeros are ignored
    parts: int  # blocks into which the scheme cuts a chunk
    chunk: int  # lines that are multiplied at a time
    block: int | None = None  # lines of a block; None: an equal part of the chunk, rounded up

    def _groups(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the norms of each chunk as a matrix, one group per column, padded with zeros."""
        end = len(self.squares) if self.parts > 1 else 0
        for start in range(0, end, max(self.chunk, 1)):
            some = self.squares[start : start + self.chunk]
            length = self.block or -(-len(some) // self.parts)
            groups = np.zeros((-(-len(some) // length), length))
            groups.reshape(-1)[: len(some)] = some
            yield slice(start, start + len(some)), groups

    @lazy
    def spread(self) -> float:
        """The largest ratio of root mean square to least norm within a group."""
        worst = 1.0
        with np.errstate(over="ignore"):  # norms' squares may differ by more than a float64 holds
            for _, groups in self._groups():
                present = groups > 0
                least = np.where(present, groups, np.inf).min(axis=0)
                mean = groups.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
                worst = max(worst, float((mean / least).max()))
        return sqrt(worst)

    @lazy
    def powers(self) -> np.ndarray:
        """Powers of two that make the norms of each group as equal as possible; 0 for norm 0.

        Scaled norms are between 1 and 4, and within a factor of ``2**(1 - 1 / parts)`` in a group:
        the fractional parts of their logarithms lie on a circle, which is cut at its largest gap.
        """
        powers = (self.squares > 0).astype(np.float64)
        for at, groups in self._groups():
            present, size = groups > 0, PARTS_OF_OCTAVE
            norms = np.log2(groups, out=np.zeros_like(groups), where=present)
            norms = np.rint(norms * (size / 2)).astype(np.int64)
            # Absent lines get the norm of the first present one, so that they change no gaps.
            first = np.take_along_axis(norms, present.argmax(axis=0)[None], axis=0)
            circle = np.sort(np.where(present, norms, first) % size, axis=0)
            following = np.concatenate([circle[1:], circle[:1] + size])
            cut = (following - circle).argmax(axis=0)[None]
            lowest = np.take_along_axis(following, cut, axis=0) % size
            exponents = ((norms - lowest) // size).reshape(-1)
            powers[at] = np.ldexp(powers[at], -exponents[: at.stop - at.start])
        return powers

    @property
    def scaled(self) -> Lines:
        """The lines multiplied by their powers."""
        return replace(self, squares=self.squares * self.powers * self.powers)


def equilibrated(operands: Sequence[Lines], beyond: float) -> list[np.ndarray | None]:
    """Return the powers for the lines of each operand, None where scaling is no help.

    The lines are scaled if the product of the operands' spreads is larger than `beyond`, and falls
    by a tenth, or at all where it is larger still.
    """
    # Lines of zeros alone are removed.
    powers = [
        None if x.parts == 1 or x.squares.all() else (x.squares > 0).astype(float) for x in operands
    ]
    before = prod(x.spread for x in operands)
    if before > beyond:
        scaled = [x.scaled for x in operands]
        after = prod(min(x.spread, y.spread) for x, y in zip(scaled, operands, strict=True))
        # Near what the promise allows, any help is taken.
        worth = _WORTH if before <= beyond * sqrt(MOST_UNEVEN / SCALED_FROM) else 1.0
        if worth * after < before:
            for i, (x, y) in enumerate(zip(operands, scaled, strict=True)):
                powers[i] = x.powers if y.spread < x.spread else powers[i]
    return powers
