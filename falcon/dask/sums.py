"""What the tasks of a scheme over chunks run: norms, sums of chunks, sums of products, repairs.

A line is a row of x or a column of y. `Judge` sees the norms of all lines, and says which powers of
two scale them, and which lines the scheme must not see: those with a NaN or Inf, or of a size that
no power mends. The sums take these for zeros, and `Thin` multiplies them classically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.spread import SCALED_FROM, Scaling, evened, powers_of_two, spread
from falcon._numpy.norms import squared_norms

from .work import opened

_STRIP = 2**20  # bytes of a strip of the result: it stays in a cache while terms are added


@dataclass(frozen=True)
class Judged:
    """How lines are treated: powers of two (None: 1), and which ones are multiplied classically."""

    powers: tuple[np.ndarray | None, np.ndarray | None]
    apart: tuple[np.ndarray, np.ndarray]

    def of(self, axis: int, lines: slice) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the powers of some lines, and which of them are apart, counted from the first."""
        powers, apart = self.powers[axis], self.apart[axis]
        first, last = np.searchsorted(apart, (lines.start, lines.stop))
        return None if powers is None else powers[lines], apart[first:last] - lines.start


@dataclass(frozen=True)
class Norms:
    """Squared 2-norms of the lines of a chunk: rows (axis 0) or columns."""

    axis: int

    def __call__(self, chunk: Any) -> np.ndarray:
        """Return them as float64; NaN or Inf where they cannot be measured."""
        x = opened(chunk)
        return squared_norms(x, self.axis, np.empty(x.shape[self.axis]))


@dataclass(frozen=True)
class Judge:
    """Judges the norms of all lines of x and y.

    Attributes
    ----------
    parts, blocks : (int, int)
        The scheme's blocks of rows and of columns: how many, and their lines.
    scaled : bool
        Powers of two may be used.
    dtype : str
        Of the result.
    most : (int, int)
        Lines of x and of y that may be apart: those of a chunk, so that they fit where it does.
    """

    parts: tuple[int, int]
    blocks: tuple[int, int]
    scaled: bool
    dtype: str
    most: tuple[int, int]

    def __call__(self, rows: Sequence[Sequence[Any]], columns: Sequence[Sequence[Any]]) -> Judged:
        """Return what is done with the lines; their norms come by chunk, and along K.

        Raises
        ------
        ValueError
            More lines than `most` hold a NaN or Inf.
        """
        dtype = of(self.dtype)
        squares = [np.concatenate([np.sum(x, axis=0) for x in side]) for side in (rows, columns)]
        bad = [~np.isfinite(x) for x in squares]
        for x, which in zip(squares, bad, strict=True):
            x[which] = 0
        powers: list[np.ndarray | None] = [None, None]
        if self.scaled:
            lines = [
                (x, parts, len(x), block)
                for x, parts, block in zip(squares, self.parts, self.blocks, strict=True)
            ]
            powers = evened(lines, [spread(*x) for x in lines], SCALED_FROM)
            largest = sqrt(squares[0].max(initial=0)) * sqrt(squares[1].max(initial=0))
            if largest > float(dtype.finfo.max) * 2.0**-12:  # sums of products might overflow
                powers = [powers_of_two(*x) for x in lines]
            for which, found in zip(bad, powers, strict=True):
                if found is not None and not Scaling(found).fits(dtype):
                    which |= [not Scaling(np.array([power])).fits(dtype) for power in found]
                    found[which] = 0
        for name, which, most in zip(("x", "y"), bad, self.most, strict=True):
            if (count := np.count_nonzero(which)) > most:
                lines_of = "rows of x" if name == "x" else "columns of y"
                raise ValueError(
                    f"{count} {lines_of} hold a NaN or Inf, or are too large: more than the {most} "
                    "of a chunk, which a scheme over the chunks sets apart; pass "
                    "block_scheme='classical'"
                )
        apart = np.flatnonzero(bad[0]), np.flatnonzero(bad[1])
        return Judged((powers[0], powers[1]), apart)


@dataclass(frozen=True)
class Sum:
    """A sum of chunks of x (axis 0) or y (axis 1), times the powers of their lines.

    Attributes
    ----------
    coefficients : tuple
    lines : tuple of slice
        Which lines of the whole array each chunk holds.
    shape : (int, int)
        Of the sum; smaller chunks are padded with zeros.
    """

    axis: int
    coefficients: tuple[Any, ...]
    lines: tuple[slice, ...]
    shape: tuple[int, int]
    dtype: Any

    def __call__(self, judged: Judged | None, chunks: Sequence[Any]) -> np.ndarray:
        """Return the sum; a chunk itself, if that is all."""
        terms = []
        for factor, lines, chunk in zip(self.coefficients, self.lines, chunks, strict=True):
            powers, apart = (None, ()) if judged is None else judged.of(self.axis, lines)
            x = opened(chunk)
            if len(apart):
                x = x.copy()
                turned(x, self.axis)[apart] = 0
            if powers is not None:
                powers = turned(powers[:, None], self.axis)
            terms.append((number(factor, self.dtype), x, powers))
        factor, x, powers = terms[0]
        if len(terms) == 1 and factor == 1 and powers is None and x.shape == self.shape:
            return x.astype(self.dtype, copy=False)
        return linear(terms, self.shape, self.dtype)


def turned(x: Any, axis: int) -> Any:
    """Return a view of x in which the lines of an axis are rows."""
    return x if axis == 0 else x.T


def number(coefficient: Any, dtype: Any) -> Any:
    """Return a coefficient in a dtype; integers wrap."""
    if np.dtype(dtype).kind in "iu":
        return np.int64(int(coefficient)).astype(dtype)
    return np.dtype(dtype).type(float(coefficient))


def linear(terms: Sequence[tuple[Any, Any, Any]], shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Return the sum of factor times matrix times powers (None: 1), strip by strip."""
    out = np.empty(shape, dtype)
    step = max(1, _STRIP // max(1, shape[1] * out.itemsize))
    with np.errstate(all="ignore"):
        for start in range(0, shape[0], step):
            rows, is_new = slice(start, min(start + step, shape[0])), True
            strip = out[rows]
            for factor, x, powers in terms:
                piece = x[rows, : shape[1]]
                part = strip[: piece.shape[0], : piece.shape[1]]
                if powers is not None:
                    by = powers if len(powers) == 1 else powers[rows]
                    piece = np.multiply(piece, by.astype(out.real.dtype), dtype=dtype)
                if is_new:
                    if part.shape != strip.shape:
                        strip[...] = 0
                    np.multiply(piece, factor, out=part, dtype=dtype, casting="unsafe")
                elif factor == 1 or factor == -1:
                    add = np.add if factor == 1 else np.subtract
                    add(part, piece, out=part, dtype=dtype, casting="unsafe")
                else:
                    part += (piece * factor).astype(dtype, copy=False)
                is_new = False
    return out


@dataclass(frozen=True)
class Lines:
    """The lines of a chunk that are set apart, as rows; a chunk that has none is not read."""

    axis: int
    lines: slice
    length: int
    dtype: Any

    def __call__(self, judged: Judged, chunk: Any) -> np.ndarray:
        """Return them."""
        _, apart = judged.of(self.axis, self.lines)
        if not len(apart):
            return np.empty((0, self.length), self.dtype)
        found: np.ndarray = turned(opened(chunk), self.axis)[apart]
        return found


@dataclass(frozen=True)
class Thin:
    """The product of the lines that are set apart, of one piece of K, and a chunk of the other."""

    axis: int
    width: int
    dtype: Any
    threads: int

    def __call__(self, lines: Sequence[np.ndarray], chunk: Any) -> np.ndarray:
        """Return rows of C, or columns as rows, of one column or row of chunks."""
        thin = np.concatenate(lines)
        if thin.size == 0:
            return np.zeros((len(thin), self.width), self.dtype)
        how: Any = {"scheme": "classical", "threads": self.threads, "dtype": self.dtype}
        made: np.ndarray = falcon.matmul(thin, turned(opened(chunk), self.axis), **how)
        return made


@dataclass(frozen=True)
class Assemble:
    """A chunk of C: a sum of products, scaled back, with the lines that were set apart.

    Attributes
    ----------
    coefficients : tuple
    lines : (slice, slice)
        Of x's rows and y's columns.
    alpha, beta : scalar
    """

    coefficients: tuple[Any, ...]
    lines: tuple[slice, slice]
    dtype: Any
    alpha: Any
    beta: Any

    def __call__(
        self, judged: Judged | None, products: Sequence[Any], rows: Any, columns: Any, c: Any
    ) -> np.ndarray:
        """Return ``alpha x y + beta c``; `rows`, `columns`: products of lines set apart."""
        shape = (self.lines[0].stop - self.lines[0].start, self.lines[1].stop - self.lines[1].start)
        pairs = zip(self.coefficients, products, strict=True)
        out = linear([(number(f, self.dtype), h, None) for f, h in pairs], shape, self.dtype)
        with np.errstate(all="ignore"):
            if judged is not None:
                of_rows, of_columns = (judged.of(axis, self.lines[axis]) for axis in (0, 1))
                Scaling(of_rows[0], of_columns[0]).undo(out)
                for axis, (_, apart), thin in ((0, of_rows, rows), (1, of_columns, columns)):
                    if len(apart):
                        every = judged.apart[axis] - self.lines[axis].start
                        turned(out, axis)[apart] = thin[np.isin(every, apart)]
            if self.alpha != 1:
                out *= self.alpha
            if c is not None:
                out += self.beta * c
        return out
