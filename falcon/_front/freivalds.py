"""Freivalds' test of a product in O(n^2), by rows, with a tolerance for rounding errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil, isqrt, log2, sqrt
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT64, DType, dtype_of
from falcon._core.modular import Residues
from falcon._numpy.residues import modulo
from falcon._tools.checks import check_count
from falcon._tools.locks import importing

# Probability that a correct product is reported as wrong.
_FALSE_ALARM = 1e-9
# Random vectors: with 16, the error of a row is estimated within a factor of 2.2 at that rate.
TRIALS = 16
# Modulo p there are so many that a wrong product passes with a chance of 2 to minus this.
_MODULAR_BITS = 40
# Operands are widened and scaled this many elements at a time: half a megabyte of float64.
_STRIP_ELEMENTS = 65536
# Columns are scaled to norm 1, but by no more than this factor.
_LARGEST_SCALE = 2.0**400


class VerificationError(ArithmeticError):
    """A product failed Freivalds' check.

    Examples
    --------
    >>> import falcon
    >>> issubclass(falcon.VerificationError, ArithmeticError)
    True
    """


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of `verify`; true if the product passed.

    Attributes
    ----------
    passed : bool
        The residual is within the tolerance, and that of a wrong product would not be.
    residual : float
        The largest residual relative to what rounding may cause; for integers, the number of wrong
        ones.
    tolerance : float
        1; for integers 0.
    why : str
        Empty if `passed`; else "wrong: ..." or "cannot verify: ...".

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a = np.ones((30, 30))
    >>> bool(falcon.verify(a, a, a @ a)), falcon.verify(a, a, a).passed
    (True, False)
    """

    passed: bool
    residual: float
    tolerance: float
    why: str = ""

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        held = f"residual {self.residual:.3g}, tolerance {self.tolerance:g}"
        return f"{self.why or 'passed'} ({held})"

    __repr__ = __str__

    @property
    def is_wrong(self) -> bool:
        """Whether the residual is larger than rounding may cause."""
        return not self.residual <= self.tolerance


class Freivalds:
    """The test in two steps: the operands times random vectors, then `check` of the result.

    Two steps, because `out` may overlap the operands. Shapes must be correct. The result to be
    checked is ``alpha a b + beta c``.
    """

    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray | None = None,
        alpha: Any = 1,
        beta: Any = 0,
        *,
        dtype: DType,  # of the arithmetic: how results round, or how integers wrap
        uneven: bool = False,  # as `Plan.is_uneven`: errors are relative to the largest norms
        modulus: int | None = None,  # of exact arithmetic, if it is not that of the type's bits
        trials: int | None = None,
        seed: int | None = None,
    ) -> None:
        self._dtype, self._uneven, self._modulus = dtype, uneven, modulus
        self.wrong: Any = ()  # rows that `check` has found
        with importing():  # NumPy imports it when needed
            random = np.random.default_rng(seed)
        usual = TRIALS if modulus is None else modular_trials(modulus)
        shape = (b.shape[1], check_count("trials", trials) or usual)
        with np.errstate(all="ignore"):
            if dtype.is_exact:
                ring = modulus or 2**64
                self._x = random.integers(0, ring, shape, np.uint64)
                image = self.times(a, self.times(b, self._x))
                terms = [(image, int(alpha) % ring, 0, 0)]
                if c is not None:
                    terms.append((self.times(c, self._x), int(beta) % ring, 0, 0))
                self._expected: Any = sum(x * np.uint64(y) for x, y, *_ in terms)
                if modulus is not None:
                    modulo(terms, [(self._expected, 0)], modulus)
                return
            operands = [x for x in (a, b, c) if x is not None]
            natives = [x.dtype for x in operands if dtype_of(x.dtype).module == "numpy"]
            kind = np.result_type(np.float64, *natives, dtype.accumulator.numpy)
            self._x = (random.integers(0, 2, shape) * 2 - 1).astype(kind)
            added = None if c is None or beta == 0 else self.scaled(c, kind)
            is_finite = bool(np.isfinite(alpha) and np.isfinite(beta))  # else no row can be tested
            factors = (alpha, beta) if is_finite else (0, 0)
            self._prepare(self.scaled(a, kind), self.scaled(b, kind), added, *factors)
            self._rows &= is_finite

    def scaled(self, x: Any, *about: Any) -> Any:
        """Return a `Scaled` matrix; that of `falcon.dask` is measured when it is multiplied."""
        return Scaled(x, *about)

    def times(self, x: Any, vectors: np.ndarray) -> np.ndarray:
        """Multiply integers modulo 2^64, or modulo `modulus`."""
        if self._modulus is not None:
            return times_modulo(x, vectors, self._modulus)
        return times(x, vectors)

    def _prepare(self, a: Scaled, b: Scaled, c: Scaled | None, alpha: Any, beta: Any) -> None:
        """Compute the expected ``(alpha a b + beta c) x``, divided by 2 to the `_exponent`."""
        norms = b.column_norms()
        self._columns, self._inner = b.columns, a.shape[1]
        # Columns of zeros are tested too, beside the largest ones.
        norms[(norms == 0) | self._uneven] = norms.max(initial=0) or 1.0
        scales = np.minimum(1 / norms, _LARGEST_SCALE) * self._columns
        self._x *= scales[:, None]
        self._sizes = np.square(scales.astype(np.float64))
        self._underflows = self._inner * max(_size(alpha), 1.0)
        image, lines, _ = b.times(self._x, self._sizes)
        image, norms, fourths = a.times(image, np.ones(self._inner))
        self._rows = a.rows
        alpha, of_product = _normalised(alpha, a.exponent + b.exponent)
        beta, of_added = (0.0, of_product) if c is None else _normalised(beta, c.exponent)
        self._exponent = max(of_product, of_added)
        alpha = alpha * np.ldexp(1.0, of_product - self._exponent)
        beta = beta * np.ldexp(1.0, of_added - self._exponent)
        if self._uneven:
            norms, fourths = (np.full_like(x, x.max(initial=0)) for x in (norms, fourths))
        self._expected = alpha * image
        # Rounding errors are relative, by rows, to `_of_sums` (sums of products) and `_of_operands`
        # (rounded operands; by Cauchy-Schwarz, whichever lines along K a scheme adds).
        size = float(abs(alpha))
        self._of_sums = size * norms * sqrt(np.count_nonzero(self._columns))
        self._of_operands = size * (fourths * float((lines**4).sum())) ** 0.25
        self._of_product = _row_norms(self._expected)
        self._of_added = np.zeros(len(self._expected))
        self._largest = np.ldexp(np.longdouble(self._inner), of_product)
        if c is not None:
            self._rows &= c.rows
            image, norms, _ = c.times(self._x, self._sizes)
            self._expected = self._expected + beta * image
            self._of_added = float(abs(beta)) * norms
            self._largest += np.ldexp(np.longdouble(1), of_added)

    def check(self, out: np.ndarray, growth: float) -> Verification:
        """Test `out`, of shape (M, N): compare ``out x`` with the expected product."""
        if not growth > 0:
            raise ValueError(f"growth is {growth!r}; expected a positive number")
        with np.errstate(all="ignore"):
            if self._dtype.is_exact:
                bits = 8 * min(out.dtype.itemsize, self._dtype.itemsize)
                mask = 2**bits - 1 if self._modulus is None else 2**64 - 1
                difference = self.times(out, self._x) - self._expected
                places = difference & np.uint64(mask) != 0
                self.wrong = wrong = np.flatnonzero(places.any(axis=1))
                why = _differs(wrong) if wrong.size else ""
                return Verification(not wrong.size, float(np.count_nonzero(places)), 0.0, why)
            return self._check_rounded(out, growth)

    def _check_rounded(self, out: np.ndarray, growth: float) -> Verification:
        types = [x for x in (self._dtype, dtype_of(out.dtype)) if not x.is_exact]
        kind = self._expected.dtype
        if dtype_of(out.dtype).module == "numpy":
            kind = np.result_type(kind, out.dtype)
        scaled = self.scaled(out, kind, self._columns, self._exponent)
        image, norms, _ = scaled.times(self._x, self._sizes)
        overflown = self._rows & ~scaled.rows
        limit = min((np.longdouble(x.finfo.max) for x in types), default=np.inf)
        if overflown.any() and not self._largest * max(growth, 1.0) >= limit:
            why = "wrong: an entry is not finite, though its operands are"
            return Verification(False, float("inf"), 1.0, why)
        rows = self._rows & scaled.rows
        difference = image - self._expected
        residual = _row_norms(difference)[rows]
        tolerance = self._tolerance(norms, types, growth)[rows]
        limit = _quantile(_FALSE_ALARM / max(residual.size, 1), self._x.shape[1])
        ratios = _ratio(residual, tolerance) / limit
        largest = float(ratios.max(initial=0))
        if not largest <= 1:
            self.wrong = np.flatnonzero(rows)[~(ratios <= 1)]
            return Verification(False, largest, 1.0, _differs(self.wrong))
        why = ""
        if out.size and not residual.size:
            why = "cannot verify: no row is finite"
        elif self._of_product[rows].any():
            signal = float(_ratio(self._of_product[rows], tolerance).max()) / limit
            if signal <= 2:
                share = 1 / max(signal, 1e-99)
                why = f"cannot verify: rounding may hide {share:.2g} of the product"
        return Verification(not why, largest, 1.0, why)

    def _tolerance(self, written: np.ndarray, types: list[DType], growth: float) -> np.ndarray:
        """Return a bound on the 2-norm of each row of the error; `written`: norms of the result.

        The test rounds too, with a unit v of its own. The n partial sums of products p with random
        signs are about norm(p), or less: products and sums err by v (sqrt(n) + 1) norm(p). With
        columns of B scaled to norm 1, B x thus errs by v (sqrt(N) + 1) sqrt(N), which A multiplies
        by norm(a_i) at most; the sums of A (B x) add v (sqrt(K) + 1) norm(a_i) sqrt(N); and C x and
        beta c x err by v (sqrt(N) + 1) times the norms of their rows.
        """
        arithmetic = self._dtype
        v = np.finfo(self._expected.dtype).eps / 2
        of_rows, of_inner = v * (sqrt(len(self._sizes)) + 1), v * (sqrt(self._inner) + 1)
        unit = float(arithmetic.accumulator.unit_roundoff)
        rounded = float(max(x.unit_roundoff for x in types))
        # Equal terms round in the same direction: errors grow with K itself, as does the product.
        alike = sqrt(self._inner) * written
        tolerance = growth * unit * sqrt(self._inner) * np.hypot(self._of_sums, alike)
        tolerance += (of_rows + of_inner) * self._of_sums
        tolerance += (of_rows + rounded) * (written + self._of_added)
        if arithmetic.accumulator is not arithmetic and growth > 1:  # sums of A and B round more
            tolerance += growth * arithmetic.unit_roundoff * self._of_operands
        # Each product, and each entry of out, may lose up to one subnormal number.
        tiny = max(np.longdouble(x.finfo.smallest_subnormal) for x in types)
        lost = np.ldexp(tiny * (self._underflows + 1), -self._exponent)
        return tolerance + growth * float(lost) * sqrt(float(self._sizes.sum()))


def _row_norms(images: np.ndarray) -> np.ndarray:
    """Estimate the 2-norms of a matrix's rows from its products with random vectors."""
    return np.sqrt(np.square(abs(images)).mean(axis=1))


def _differs(rows: np.ndarray) -> str:
    many = f"{rows.size} row{'s' if rows.size > 1 else ''} (the first: c[{rows[0]}])"
    return f"wrong: C x differs from A (B x) in {many}"


def _ratio(residual: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    return np.divide(residual, tolerance, out=np.zeros_like(residual), where=residual > 0)


def _quantile(chance: float, trials: int) -> float:
    """Return the value that the root mean square of normal numbers exceeds with that chance."""
    with importing():
        from statistics import NormalDist

    share = 2 / (9 * trials)  # Wilson and Hilferty
    return float((1 - share - NormalDist().inv_cdf(chance) * sqrt(share)) ** 1.5)


class Scaled:
    """A matrix of floats, divided by a power of two so that its largest entry is below one.

    `rows`, `columns`: whether all entries of the row (in `kept` columns) or of the column are
    finite. Non-finite entries are replaced by 0.
    `exponent`: of the power of two.
    """

    def __init__(
        self,
        x: np.ndarray,
        kind: np.dtype,
        kept: np.ndarray | None = None,
        exponent: int | None = None,
    ) -> None:
        self._x, self._kind, self.shape = x, kind, x.shape
        self.rows = np.ones(x.shape[0], bool)
        self.columns = np.ones(x.shape[1], bool) if kept is None else kept
        largest = kind.type(0).real
        for at, strip in _strips(x, kind):
            finite = np.isfinite(strip)
            if kept is None:
                self.rows[at] = finite.all(axis=1)
                self.columns &= finite.all(axis=0)
                strip[~finite] = 0
                largest = max(largest, abs(real_parts(strip)).max(initial=0))
            else:
                self.rows[at] = (finite | ~kept).all(axis=1)
        self.exponent = int(np.frexp(largest)[1]) if exponent is None else exponent

    def times(
        self, vectors: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the scaled matrix times `vectors`; 2-norms and sums of fourth powers of its rows.

        For norms and sums, entries are multiplied by the square roots of `weights` first.
        """
        product = np.empty((self.shape[0], vectors.shape[1]), self._kind)
        squares, fourths = np.empty((2, self.shape[0]))
        for at, strip in self._scaled_strips():
            product[at] = strip @ vectors
            weighted = np.square(abs(strip)).astype(np.float64) * weights
            squares[at] = weighted.sum(axis=1)
            fourths[at] = np.square(weighted).sum(axis=1)
        return product, np.sqrt(squares), fourths

    def column_norms(self) -> np.ndarray:
        """Return the 2-norms of the columns of the scaled matrix."""
        squares = np.zeros(self.shape[1])
        for _, strip in self._scaled_strips():
            squares += np.square(abs(strip)).astype(np.float64).sum(axis=0)
        return np.sqrt(squares)

    def _scaled_strips(self) -> Iterator[tuple[slice, np.ndarray]]:
        for at, strip in _strips(self._x, self._kind):
            strip[~np.isfinite(strip)] = 0
            real = real_parts(strip)
            np.ldexp(real, -self.exponent, out=real)
            yield at, strip


def times(x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Multiply integers modulo 2^64."""
    product = np.empty((x.shape[0], vectors.shape[1]), np.uint64)
    for at, strip in _strips(x, vectors.dtype):
        product[at] = strip @ vectors
    return product


def times_modulo(x: np.ndarray, vectors: np.ndarray, modulus: int) -> np.ndarray:
    """Multiply integers modulo p: their residues, whose products are exact in float64."""
    product = np.zeros((x.shape[0], vectors.shape[1]), np.uint64)
    most = _STRIP_ELEMENTS
    way = Residues.several((modulus,), FLOAT64, most, most * modulus**2)
    assert way is not None
    for start in range(0, x.shape[1], most):
        inner = slice(start, start + most)
        right = np.empty((len(way.moduli), *vectors[inner].shape))
        modulo([(vectors[inner], 1, 0, 0)], *way.of_operand(right))
        for at, strip in _strips(x[:, inner], x.dtype):
            left = np.empty((len(way.moduli), *strip.shape))
            modulo([(strip, 1, 0, 0)], *way.of_operand(left))
            terms, carry = way.of_sums(left @ right, modulus)
            modulo([*terms, (product[at], 1, 0, 0)], [(product[at], 0)], modulus, carry)
    return product


@cache
def modular_trials(modulus: int) -> int:
    """Return how many random vectors leave a wrong product a chance of at most 2^-40.

    If e, a row of the error, is not 0 modulo p, the greatest common divisor g of its entries and p
    is less than p, and e x is a random multiple of g: it is 0 with probability g / p, which is at
    most 1 / q for the smallest prime factor q of p. Factors from 2^20 on need not be known.
    """
    numbers = np.arange(2, min(isqrt(modulus), 2**20) + 1)
    factors = numbers[modulus % numbers == 0]
    return ceil(_MODULAR_BITS / log2(factors[0] if factors.size else min(modulus, 2**20)))


def _strips(x: np.ndarray, kind: np.dtype) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield copies of some rows at a time."""
    step = max(1, _STRIP_ELEMENTS // max(x.shape[1], 1))
    for start in range(0, x.shape[0], step):
        at = slice(start, start + step)
        yield at, x[at].astype(kind, order="C")


def real_parts(x: np.ndarray) -> np.ndarray:
    """View complex numbers as pairs of reals."""
    return x.view(x.real.dtype)


def _normalised(value: Any, exponent: int) -> tuple[Any, int]:
    """Return a value of parts below one and an exponent, with the same ``value * 2**exponent``."""
    own = int(np.frexp(_size(value))[1])
    return value * np.ldexp(1.0, -own), exponent + own


def _size(value: Any) -> float:
    """Return the larger of |real| and |imaginary| part; 1 for zero."""
    return max(abs(np.real(value)), abs(np.imag(value))) or 1.0
