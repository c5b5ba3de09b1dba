"""Products that tell how a function of two matrices reads, multiplies and sums numbers.

What concerns few numbers is a dot product. Many stand in the leading corner, an eighth of rows and
columns, of matrices that are zero elsewhere: a fast algorithm of up to three levels then only adds
zeros to them. Sources: M. Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021 (bits,
rounding); P. Xie et al., "FPRev", 2025 (which terms are summed before others).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil, floor, gcd, log2
from typing import Any

import numpy as np

Vector = dict[int, float]  # places along K, and what stands there
# Bits of sums, and powers of two below the largest entry of a line, that are looked for.
_MOST_BITS, _MOST_BELOW = 63, 128


class GradeError(Exception):
    """Why a product cannot be looked at: it raises, or is no such matrix."""


class UnusableError(GradeError):
    """It has another type, or operands are not what they were: an F, whenever that happens."""


@dataclass
class Subject:
    """A function that multiplies matrices of a type, in products of n x n."""

    multiply: Callable[[Any, Any], Any]
    dtype: np.dtype
    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        self.random, self.corner = np.random.default_rng(self.seed), self.n // 8
        self.is_float = self.dtype.kind == "f"
        if self.is_float:
            about = np.finfo(self.dtype)
            self.bits, self.least, self.most = about.nmant + 1, int(about.minexp), int(about.maxexp)

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return C in float64 or int64, or raise `GradeError`."""
        shape, given = (*a.shape[:-1], b.shape[-1]), (a.copy(), b.copy())
        try:
            with np.errstate(all="ignore"):
                c = np.asarray(self.multiply(a, b))
        except Exception as error:  # whatever it is, it is what the grade says
            raise GradeError(f"raises {type(error).__name__}: {error}") from error
        if c.shape != shape or c.dtype.name != self.dtype.name:
            kind = GradeError if c.dtype.name == self.dtype.name else UnusableError
            raise kind(f"returns {c.dtype} {c.shape}, not {self.dtype} {shape}")
        if not all(map(partial(np.array_equal, equal_nan=True), (a, b), given)):
            raise UnusableError("changes its operands")
        return c.astype(np.float64 if self.is_float else np.int64)

    def dots(self, pairs: Sequence[tuple[Vector, Vector]]) -> np.ndarray:
        """Return dot products of vectors that are zero but for some places."""
        found = np.empty(len(pairs))
        for start in range(0, len(pairs), self.corner):
            some = pairs[start : start + self.corner]
            a, b = np.zeros((2, self.n, self.n), self.dtype)
            for i, (row, column) in enumerate(some):
                a[i, list(row)], b[list(column), i] = [*row.values()], [*column.values()]
            found[start : start + len(some)] = self(a, b).diagonal()[: len(some)]
        return found

    def in_corner(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the product of two matrices of the corner."""
        x, y = np.zeros((2, self.n, self.n), self.dtype)
        here = slice(self.corner), slice(self.corner)
        x[here], y[here] = a, b
        return self(x, y)[here]


@dataclass
class Arithmetic:
    """What the dot products tell."""

    read: int = 0  # significand bits of the operands
    parts: int = 1
    width: int = 0  # bits of a part
    window: int = 0  # bits below the largest entry of a line that are kept; 0: all
    reaches: bool = True  # as far as the exponents of the type do
    is_rounded_right: bool = True  # single products
    sums: int = 0  # significand bits of sums
    rounding: str = ""  # of sums
    terms: int = 1  # that are summed before a rounding


def arithmetic(subject: Subject) -> Arithmetic:
    """Find out how numbers are read, multiplied and summed."""
    found = Arithmetic(read=subject.bits)
    _read(subject, found)
    _sum(subject, found)
    _part(subject, found)
    return found


def _read(subject: Subject, found: Arithmetic) -> None:
    bits, shape = subject.bits, (2, subject.corner, subject.corner)
    x, y = subject.random.integers(2 ** (bits - 1), 2**bits, shape) * 2.0 ** (1 - bits)
    one, y = np.eye(subject.corner), np.diag(y.diagonal())
    for c in subject.in_corner(x, one), subject.in_corner(one, x):
        if not np.isfinite(c).all():
            raise GradeError("returns NaN or Inf for finite operands")
        if (c != x).any():  # if they are cut, not rounded, errors are twice as large
            found.read = min(found.read, floor(-log2(np.abs(c - x).max())) + bool((c <= x).all()))
    exact, rest = exact_product(x, y)
    half = np.ldexp(0.5, np.frexp(exact)[1] - bits)
    error = np.abs((subject.in_corner(x, y) - exact) - rest)
    found.is_rounded_right = bool((error <= half).all())
    below, far = 2.0 ** -np.arange(min(_MOST_BELOW, -subject.least)), 2.0 ** (subject.most - 2)
    by_rows = subject.dots([({0: 1.0, 1: t}, {1: 1.0}) for t in below]) == below
    by_columns = subject.dots([({1: 1.0}, {0: 1.0, 1: t}) for t in below]) == below
    found.window = _first_false(by_rows & by_columns)
    found.reaches = bool((subject.dots([({0: far}, {0: 1.0}), ({0: 1.0}, {0: far})]) == far).all())


def _sum(subject: Subject, found: Arithmetic) -> None:
    """M - M is 0, so that M + x - M is what M held of x."""
    last, middle, places = subject.corner - 1, subject.corner // 2, range(subject.corner)

    def held(t: int, x: float, place: int, m: float = 1.0) -> tuple[Vector, Vector]:
        """Return vectors whose product is ``m 2^t + x - m 2^t``."""
        high, low = m * 2.0 ** (t - t // 2), 2.0 ** (t // 2)
        return {0: high, place: x, last: -high}, {0: low, place: 1.0, last: low}

    powers = range(1, min(_MOST_BITS, 2 * subject.most - 2))
    pairs = [held(t, 1.0, place) for t in powers for place in (1, middle, last - 1)]
    is_held = (subject.dots(pairs) == 1).reshape(-1, 3).all(axis=1)
    found.sums = (_first_false(is_held) or len(powers)) + 1
    if is_held.all():
        return
    signs = product((1.5, -1.5), (0.75, -0.75))
    changes = subject.dots([held(found.sums - 1, x, middle, m) for m, x in signs])
    found.rounding = "to nearest" if changes.all() else "toward zero"
    if changes.any() and not (changes > 0).any() & (changes < 0).any():
        found.rounding = "up" if changes.max() > 0 else "down"
    # Small numbers that are summed with M before -M is are lost.
    t = found.sums + ceil(log2(subject.corner)) + 2
    root, small, pairs = 2.0 ** ceil((t - t // 2) / 2), 2.0 ** -(t // 2), []  # M is root^2
    for place in places[1:]:
        row = dict.fromkeys(places, small) | {0: root, place: -root}
        pairs.append((row, dict.fromkeys(places, 1.0) | {0: root, place: root}))
    lost = subject.corner - subject.dots(pairs) / small
    if 2 < lost[0] <= subject.corner and (lost[: int(lost[0]) - 1] == lost[0]).all():
        found.terms = int(lost[0])


def _part(subject: Subject, found: Arithmetic) -> None:
    """``(1 + w)^2 - 1 - 2 w`` is the sum of the products of parts of w."""
    bits, half = subject.bits, subject.corner // 2

    def squares(some: Any) -> np.ndarray:
        """Return it twice, as the order matters where sums are rounded."""
        pairs = []
        for w, shift in product(some, (0, half)):
            places = [(x + shift) % subject.corner for x in (0, half, half + 1, half + 2)]
            row, column = (1 + w, -1, -w, -1), (1 + w, 1, 1, w)
            pairs.append((dict(zip(places, row, strict=True)),
                          dict(zip(places, column, strict=True))))  # fmt: skip
        return subject.dots(pairs).reshape(-1, 2)

    powers = 2.0 ** -np.arange(1, (min(bits, found.sums, found.read) - 1) // 2 + 1)
    lost = (squares(powers) == 0).all(axis=1)
    if lost.any():  # the product of the second parts is left out
        found.parts, found.width = 2, int(np.argmax(lost)) + 1
    elif found.sums <= bits + 2 and found.read == bits:
        # Sums of these are multiples of 2^(1 - bits), unless products of parts are summed alone.
        w = 2.0 ** -(bits // 3) * (1 + 2.0 ** -(bits // 4))
        if (np.ldexp(squares([w]), bits - 1) % 1 != 0).all():
            # w in the second and third part, of which the third is left out
            short = (squares(powers + powers**2) == (powers**2)[:, None]).all(axis=1)
            found.width = int(np.argmax(short)) or bits // 2
            found.parts = ceil(bits / found.width)


def _first_false(x: np.ndarray) -> int:
    """Return its place; 0 if all are true."""
    return 0 if x.all() else int(np.argmin(x))


def blocks(subject: Subject) -> tuple[int, np.ndarray]:
    """Return how many blocks a side a fast algorithm cuts, 1 for none, and the errors that show it.

    A is the identity, the diagonal of B is large. A fast algorithm adds large numbers to those at
    the same places of other blocks, and subtracts them again.
    """
    n, bits = subject.n, min(7, subject.bits - 1)
    b = 1 + subject.random.integers(2**bits, size=(n, n)) / 2.0**bits
    np.fill_diagonal(b, 2.0 ** (subject.bits - 4))
    error = np.abs(subject(np.eye(n, dtype=subject.dtype), b.astype(subject.dtype)) - b)
    np.fill_diagonal(error, 0)
    rows, columns = np.nonzero(error)
    is_everywhere = len(rows) > n * n // 8
    grid = 1 if is_everywhere else n // gcd(n, *np.unique(np.abs(rows - columns)).tolist())
    step = n // 32
    return grid, error[: 32 * step, : 32 * step].reshape(32, step, 32, step).max(axis=(1, 3))


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices whose sum is ``a b``, for entries between -2 and 2, to 70 bits.

    Products of the leading 20 bits are summed exactly, and the rest is 2^-20 of it.
    """
    first, second = (np.round(x * 2.0**20) / 2.0**20 for x in (a, b))
    return multiplied(first, second), multiplied(first, b - second) + multiplied(a - first, b)


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply in loops of NumPy's own, without a BLAS."""
    return np.einsum("...ik,...kj->...ij", a, b)
