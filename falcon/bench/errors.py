"""The rounding error of a product, against some of its rows in higher precision."""

from __future__ import annotations

import numpy as np

from falcon._core.dtypes import FLOAT64, LONGDOUBLE, DType, dtype_of
from falcon._tools.lazy import lazy

# Errors beyond these many roundings of a random sum mean a wrong product, not rounding.
_WRONG = 8.0


class Sample:
    """Some rows of a product, evenly spaced, to which its results are compared.

    `index`: which rows; of a batch: which products.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray, rows: int = 32) -> None:
        row = dtype_of(a.dtype)
        rows = 4 if not row.is_exact and _checked_in(row) is LONGDOUBLE else rows
        self.index = np.unique(np.linspace(0, a.shape[0] - 1, rows).astype(int))
        self._a, self._b = a, b

    @lazy
    def exact(self) -> np.ndarray:
        """These rows of A times B, in higher precision.

        float16 and float32 (complex64) go to float64 (complex128), all wider ones to long double,
        which has no BLAS; integers are multiplied as NumPy does, in the type of `product_dtype`.
        """
        a, b = self._a[self.index], self._b if self._b.ndim == 2 else self._b[self.index]
        row = dtype_of(a.dtype)
        if row.is_exact:
            kind = product_dtype(a.dtype)
            return a.astype(kind) @ b.astype(kind)
        wider = _checked_in(row)
        kind = np.result_type(wider.numpy, a.dtype)  # complex where the operands are
        if wider.has_blas:
            return a.astype(kind) @ b.astype(kind)
        exact = np.zeros((*a.shape[:-1], b.shape[-1]), kind)
        step = max(1, 2**22 // max(b.shape[-1], 1))  # a slice of B at a time is widened
        for k in range(0, b.shape[-2], step):
            exact += a[..., k : k + step].astype(kind) @ b[..., k : k + step, :].astype(kind)
        return exact

    def error(self, c: np.ndarray) -> float:
        """Return the `relative_error` of C in these rows.

        Of integers 0.0 or infinity, as they are right or wrong; of long double, beyond which there
        is no precision, the difference from NumPy's product.
        """
        return relative_error(c[self.index], self.exact)


def relative_error(c: np.ndarray, exact: np.ndarray) -> float:
    """RMS of ``c - exact`` relative to the RMS of ``exact``; integers are right (0) or wrong."""
    if dtype_of(c.dtype).is_exact:
        return 0.0 if np.array_equal(c, exact.astype(c.dtype)) else float("inf")  # may wrap
    error = np.linalg.norm((c.astype(exact.dtype) - exact).astype(np.complex128))
    return float(error) / max(float(np.linalg.norm(exact.astype(np.complex128))), 1e-300)


def product_dtype(dtype: np.dtype) -> np.dtype:
    """Return the type of the results of all libraries: int32 for int8, else the operands' type."""
    row = dtype_of(dtype)
    return (row.wide[0] if row.is_exact and row.wide else row).numpy


def _checked_in(row: DType) -> DType:
    """Return the real type in whose precision products of rounding types are checked."""
    return FLOAT64 if row.unit_roundoff > FLOAT64.unit_roundoff else LONGDOUBLE


def wrong_beyond(dtype: str, K: int, growth: float = 1.0) -> float:
    """Relative RMS error that rounding cannot explain: beyond it a product is wrong."""
    return _WRONG * growth * 2 * dtype_of(dtype).unit_roundoff * max(K, 1) ** 0.5
