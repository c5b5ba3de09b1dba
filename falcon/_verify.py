"""Freivalds' check: verify a huge product in O(n^2), without multiplying again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Residuals of a correct product stay below about 1 on this scale (random signs: see verify);
# a wrong block raises them by many orders of magnitude.
_SLACK = 8.0


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
    error E, which classical rounding keeps near ``u sqrt(K) |A|_F |B|_F``. Integers are compared
    modulo 2^64, exactly. Floats are summed in float64 (complex128) at least. Non-finite rows of c
    are compared by where they are non-finite. Costs ``2 (MK + KN + MN)`` flops per trial.

    Source: R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(12).reshape(3, 4)
    >>> bool(verify(a, a.T, a @ a.T))
    True
    """
    a, b, c = (np.asarray(x) for x in (a, b, c))
    for name, x in (("a", a), ("b", b), ("c", c)):
        if x.ndim != 2:
            raise ValueError(f"{name} has shape {x.shape}; expected a matrix")
        if x.dtype.kind not in "iufc":
            raise TypeError(f"{name} has dtype {x.dtype}; expected integers, floats or complex")
    if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes do not fit: a {a.shape}, b {b.shape}, c {c.shape}")
    if trials < 1:
        raise ValueError(f"trials is {trials}; expected at least 1")
    return Freivalds(a, b, trials=trials, seed=seed).check(c, growth)


class Freivalds:
    """The test in two steps: first what `out` must satisfy, then, `out` written, whether it does.

    Two steps, because `out` may overlap the operands. Shapes are taken as checked.

    Parameters
    ----------
    a, b : ndarray, shapes (M, K), (K, N)
    c : ndarray of shape (M, N), optional
    alpha, beta : scalar
        The result to be checked is ``alpha a b + beta c``.
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
        trials: int = 4,
        seed: int | None = None,
    ) -> None:
        arrays = [x for x in (a, b, c) if x is not None]
        self._exact = all(x.dtype.kind in "iu" for x in arrays)
        random = np.random.default_rng(seed)
        self._signs = random.integers(0, 2, (b.shape[1], trials)) * 2 - 1
        # Integers: everything modulo 2^64. Otherwise float64 or complex128 at least.
        kind = np.dtype(np.int64) if self._exact else np.result_type(*arrays, np.float64)
        with np.errstate(all="ignore"):
            wide = [_widened(x, kind, self._exact) for x in arrays]
            self._rows = _finite(wide[0], axis=1)
            self._columns = _finite(wide[1], axis=0)
            if c is not None:
                self._rows &= _finite(wide[2], axis=1)
            x = self._part(self._signs[self._columns])
            rows, columns = wide[0][self._rows], wide[1][:, self._columns]
            self._expected = (rows @ (columns @ x)) * self._part(np.asarray(alpha))
            self._scale = 0.0
            if not self._exact:
                norms = np.linalg.norm(rows) * np.linalg.norm(columns)
                self._scale = float(abs(alpha) * np.sqrt(a.shape[1] + 1) * norms)
            if c is not None:
                addend = wide[2][self._rows][:, self._columns]
                self._expected = self._expected + (addend @ x) * self._part(np.asarray(beta))
                if not self._exact:
                    self._scale += float(abs(beta) * np.linalg.norm(addend))
        floats = [y.dtype for y in arrays if y.dtype.kind in "fc"]
        self._unit = max((float(np.finfo(y).eps) / 2 for y in floats), default=0.0)

    def check(self, out: np.ndarray, growth: float) -> Verification:
        """Compare `out`, of shape (M, N), with what was expected of it."""
        exact = self._exact and out.dtype.kind in "iu"
        kind = self._expected.dtype if exact else np.result_type(out, np.float64)
        with np.errstate(all="ignore"):
            wide = _widened(out, kind, exact)[self._rows][:, self._columns]
            if not np.isfinite(wide).all():
                return Verification(False, float("inf"), 0.0)
            signs = self._signs[self._columns]
            difference = wide @ (signs.view(np.uint64) if exact else signs) - self._expected
            if exact:  # wrap-around at out's own width is a reduction modulo 2^w
                mask = np.uint64(2 ** (8 * out.dtype.itemsize) - 1)
                wrong = float(np.count_nonzero(difference & mask))
                return Verification(wrong == 0, wrong, 0.0)
            residual = float(np.linalg.norm(difference, axis=0).max(initial=0.0))
        unit = self._unit
        if out.dtype.kind in "fc":
            unit = max(unit, float(np.finfo(out.dtype).eps) / 2)
        tolerance = _SLACK * growth * unit * self._scale
        return Verification(residual <= tolerance, residual, tolerance)

    def _part(self, x: np.ndarray) -> np.ndarray:
        return x.astype(np.int64).view(np.uint64) if self._exact else x


def _widened(x: np.ndarray, kind: np.dtype, exact: bool) -> np.ndarray:
    if exact:
        return x.astype(np.int64).view(np.uint64)
    return x.astype(kind, copy=False)


def _finite(x: np.ndarray, axis: int) -> np.ndarray:
    return np.isfinite(x).all(axis=axis)
