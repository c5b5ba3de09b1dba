"""Freivalds' check: verify a huge product in O(n^2), without multiplying again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from falcon._core.arrays import to_array
from falcon._core.dtypes import of

from .validate import is_numeric

# Residuals of a correct product stay below about 1 on this scale (random signs: see verify);
# a wrong block raises them by many orders of magnitude.
_SLACK = 8.0

# Operands are widened and scaled this many elements at a time: half a megabyte of float64.
_STRIP_ELEMENTS = 65536


class VerificationError(ArithmeticError):
    """A product failed Freivalds' check."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of `verify`; true where the product passed.

    Attributes
    ----------
    passed : bool
    residual : float
        Largest 2-norm of ``C x - A (B x)`` over the trials.
    tolerance : float
        What rounding may explain; 0 for integers.
    """

    passed: bool
    residual: float
    tolerance: float

    def __bool__(self) -> bool:
        return self.passed


def verify(
    a: Any, b: Any, c: Any, *, growth: float = 8.0, trials: int = 4, seed: int | None = None
) -> Verification:
    """Check ``c == a @ b`` by Freivalds' randomised test.

    Parameters
    ----------
    a, b, c : array_like, shapes (M, K), (K, N), (M, N)
        Integer, float or complex matrices.
    growth : float
        RMS error growth that is allowed over classical multiplication (`falcon.Plan.growth`).
    trials : int
        Independent random vectors. A wrong integer product passes one trial with probability at
        most 1/2.
    seed : int, optional
        Makes the random vectors reproducible.

    Returns
    -------
    Verification
        True where ``c`` passes.

    Raises
    ------
    ValueError
        Shapes do not fit together.
    TypeError
        A dtype is not numeric.

    Notes
    -----
    x has random entries +1 and -1, so the 2-norm of ``E x`` is about the Frobenius norm of the
    error E, which classical rounding keeps near ``u (sqrt(K) |A|_F |B|_F + K |C|_F)``: the second
    term is the larger one only where most products have one sign. For integers x is
    uniform over all 64-bit values, and everything is compared modulo 2^w for a c of w bits,
    exactly. Floats are summed in float64 (complex128) at least, scaled so that nothing
    overflows. Rows of a and columns of b that hold a NaN or Inf are left out, and so are rows
    of c that hold one where the product may overflow. Costs ``2 (MK + KN + MN)`` flops and
    ``8 (M + K + 2 N)`` bytes per trial, and some strips of half a megabyte.

    Source: R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(12).reshape(3, 4)
    >>> bool(verify(a, a.T, a @ a.T))
    True
    """
    a, b, c = to_array("a", a), to_array("b", b), to_array("c", c)
    for name, x in (("a", a), ("b", b), ("c", c)):
        if x.ndim != 2:
            raise ValueError(f"{name} has shape {x.shape}; expected a matrix")
        if not is_numeric(x.dtype):
            raise TypeError(f"{name} has dtype {x.dtype}; expected integers, floats or complex")
    if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes do not fit: a {a.shape}, b {b.shape}, c {c.shape}")
    if trials < 1:
        raise ValueError(f"trials is {trials}; expected at least 1")
    rows = [of(x.dtype) for x in (a, b, c)]
    rounded = (x for x in rows if not x.is_exact)
    coarsest = max(rounded, key=lambda row: row.unit_roundoff, default=rows[-1])
    return Freivalds(a, b, dtype=coarsest.numpy, trials=trials, seed=seed).check(c, growth)


class Freivalds:
    """The test in two steps: first what `out` must satisfy, then, `out` written, whether it does.

    Two steps, because `out` may overlap the operands. Shapes are taken as checked.

    Parameters
    ----------
    a, b : ndarray, shapes (M, K), (K, N)
    c : ndarray of shape (M, N), optional
    alpha, beta : scalar
        The result to be checked is ``alpha a b + beta c``.
    dtype : numpy.dtype
        Of the arithmetic: it says how results round, or where integers wrap.
    trials, seed
        As for `verify`.
    """

    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray | None = None,
        alpha: Any = 1,
        beta: Any = 0,
        *,
        dtype: np.dtype,
        trials: int = 4,
        seed: int | None = None,
    ) -> None:
        self._dtype = dtype
        random = np.random.default_rng(seed)
        shape = (b.shape[1], trials)
        with np.errstate(all="ignore"):
            if of(dtype).is_exact:
                self._x = random.integers(0, 2**64, shape, np.uint64)
                wrapped = np.asarray(alpha).astype(np.uint64)
                self._expected = wrapped * _times(a, _times(b, self._x))
                if c is not None:
                    self._expected += np.asarray(beta).astype(np.uint64) * _times(c, self._x)
                return
            operands = [x.dtype for x in (a, b, c) if x is not None]
            kind = np.result_type(dtype, *operands, np.float64)
            self._x = (random.integers(0, 2, shape) * 2 - 1).astype(kind)
            finite = bool(np.isfinite(alpha) and np.isfinite(beta))  # else nothing can be checked
            self._prepare(_Scaled(a, kind), _Scaled(b, kind), alpha if finite else 0)
            if c is not None and beta != 0:
                self._add(_Scaled(c, kind), beta if finite else 0)
            self._rows &= finite

    def _prepare(self, a: _Scaled, b: _Scaled, alpha: Any) -> None:
        """Expect ``alpha a b``, divided by 2 to the power of `_exponent`."""
        self._rows, self._columns = a.rows, b.columns
        self._x[~self._columns] = 0
        self._inner, largest = a.shape[1], _size(alpha)
        self._exponent = a.exponent + b.exponent + int(np.frexp(largest)[1])
        alpha = alpha * np.ldexp(1.0, a.exponent + b.exponent - self._exponent)
        image, norm_b = b.times(self._x)
        image, norm_a = a.times(image)
        self._expected = alpha * image
        self._scale = float(abs(alpha)) * sqrt(self._inner + 1) * norm_a * norm_b
        self._largest = np.ldexp(np.longdouble(self._inner), self._exponent)
        self._underflows = self._inner * max(largest, 1.0)

    def _add(self, c: _Scaled, beta: Any) -> None:
        """Expect ``beta c`` on top."""
        self._rows &= c.rows
        exponent = c.exponent + int(np.frexp(_size(beta))[1])
        common = max(exponent, self._exponent)
        beta = beta * np.ldexp(1.0, c.exponent - exponent)
        image, norm = c.times(self._x)
        shrink, enlarge = np.ldexp(1.0, [self._exponent - common, exponent - common])
        self._expected = self._expected * shrink + beta * image * enlarge
        self._scale = self._scale * shrink + float(abs(beta)) * norm * enlarge
        self._exponent = common
        self._largest += np.ldexp(np.longdouble(1), exponent)

    def check(self, out: np.ndarray, growth: float) -> Verification:
        """Compare `out`, of shape (M, N), with what was expected of it."""
        with np.errstate(all="ignore"):
            if of(self._dtype).is_exact:
                bits = 8 * min(out.dtype.itemsize, self._dtype.itemsize)
                difference = _times(out, self._x) - self._expected
                wrong = float(np.count_nonzero(difference & np.uint64(2**bits - 1)))
                return Verification(wrong == 0, wrong, 0.0)
            return self._check_rounded(out, growth)

    def _check_rounded(self, out: np.ndarray, growth: float) -> Verification:
        floats = [x for x in (of(self._dtype), of(out.dtype)) if not x.is_exact]
        kind = np.result_type(out, self._expected)
        scaled = _Scaled(out, kind, self._columns, self._exponent)
        overflown = self._rows & ~scaled.rows
        limit = min((np.longdouble(x.finfo.max) for x in floats), default=np.inf)
        if overflown.any() and not self._largest * max(growth, 1.0) >= limit:
            return Verification(False, float("inf"), 0.0)
        image, _ = scaled.times(self._x)
        difference = (image - self._expected)[self._rows & scaled.rows]
        residual = float(np.linalg.norm(difference, axis=0).max(initial=0.0))
        # Equal terms round alike, and errors then grow with K itself; but so does the product.
        image = self._expected[self._rows]
        alike = self._inner * float(np.linalg.norm(image, axis=0).max(initial=0.0))
        unit = max(x.unit_roundoff for x in floats)
        # Each product, and each entry of out, may lose up to one subnormal number.
        tiny = max(np.longdouble(x.finfo.smallest_subnormal) for x in floats)
        lost = np.ldexp(tiny * (self._underflows + 1) * sqrt(out.size), -self._exponent)
        tolerance = float(_SLACK * growth * (unit * (self._scale + alike) + lost))
        return Verification(residual <= tolerance and residual < np.inf, residual, tolerance)


class _Scaled:
    """A matrix of floats, divided by a power of two such that its largest entry is below one.

    Attributes
    ----------
    rows, columns : ndarray of bool
        Whether all entries of the row (among `kept` columns), of the column, are finite. Others
        count as zero.
    exponent : int
        Of the power of two.
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
                largest = max(largest, abs(_real(strip)).max(initial=0))
            else:
                self.rows[at] = (finite | ~kept).all(axis=1)
        self.exponent = int(np.frexp(largest)[1]) if exponent is None else exponent

    def times(self, vectors: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the scaled matrix times `vectors`, and its Frobenius norm."""
        product = np.empty((self.shape[0], vectors.shape[1]), self._kind)
        squares = 0.0
        for at, strip in _strips(self._x, self._kind):
            strip[~np.isfinite(strip)] = 0
            real = _real(strip)
            np.ldexp(real, -self.exponent, out=real)
            squares += float(np.vdot(real, real))
            product[at] = strip @ vectors
        return product, sqrt(squares)


def _times(x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Multiply integers modulo 2^64."""
    product = np.empty((x.shape[0], vectors.shape[1]), np.uint64)
    for at, strip in _strips(x, vectors.dtype):
        product[at] = strip @ vectors
    return product


def _strips(x: np.ndarray, kind: np.dtype) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield copies of some rows at a time."""
    step = max(1, _STRIP_ELEMENTS // max(x.shape[1], 1))
    for start in range(0, x.shape[0], step):
        at = slice(start, start + step)
        yield at, x[at].astype(kind, order="C")


def _real(x: np.ndarray) -> np.ndarray:
    """View complex numbers as pairs of reals."""
    return x.view(x.real.dtype)


def _size(value: Any) -> float:
    """Largest of |real| and |imaginary| part; 1 for zero."""
    return max(abs(np.real(value)), abs(np.imag(value))) or 1.0
