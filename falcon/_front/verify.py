"""`verify`: check a product in O(n^2), by Freivalds' test or at sampled entries."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from falcon._core.arrays import to_array
from falcon._core.bound import PROMISED
from falcon._core.checks import check_count
from falcon._core.dtypes import DType, find, of
from falcon._core.options import DEFAULT_MAX_GROWTH

from .freivalds import TRIALS, Freivalds, Verification, real_parts
from .plan import plan


def verify(
    a: Any,
    b: Any,
    c: Any,
    *,
    growth: float | None = None,
    trials: int = TRIALS,
    entries: int | None = None,
    seed: int | None = None,
) -> Verification:
    """Check ``c == a @ b`` by Freivalds' randomised test, or at sampled entries.

    Parameters
    ----------
    a, b, c : array_like, shapes (M, K), (K, N), (M, N)
        Integer, float (float16 and bfloat16 too) or complex matrices.
    growth : float, optional
        Allowed RMS error growth relative to classical multiplication (`falcon.Plan.growth`).
        Default: 8, the most that "auto" allows; for float16 and bfloat16, whose own rounding errors
        are large already, that of ``falcon.plan(a, b)`` with the settings in force. For a product
        on a GPU, or by a scheme given as a keyword, pass the growth of its plan.
    trials : int
        Independent random vectors. A wrong integer product passes one trial with probability at
        most 1/2.
    entries : int, optional
        Instead, compare this number of random entries with their values in higher precision; errors
        must stay below the bound of `falcon.Plan.error_bound`.
    seed : int, optional
        Makes the random choices reproducible.

    Returns
    -------
    Verification
        True if `c` passes. False, with the reason, if it is wrong, or if rounding errors may be as
        large as the product itself, so that it cannot be tested.

    Raises
    ------
    ValueError
        Shapes do not match.
    TypeError
        A dtype is not numeric.

    Notes
    -----
    x has random entries +1 and -1, divided by the norms of b's columns, so that an entry of ``E x``
    is about the 2-norm of that row of the error E. Rounding keeps it below about ``growth u sqrt(K)
    norm(a_i)`` plus the errors of rounding c itself and of the test. This is tested for each row
    and for all rows together, so that a wrong row is found whatever the size of the others. Correct
    products are reported as wrong with probability 1e-9. For integers x is uniform over all 64-bit
    values, and everything is compared exactly, modulo 2^w for a c of w bits. Floats are summed in
    float64 (complex128) or wider, scaled so that nothing overflows. Rows of a and columns of b that
    hold a NaN or Inf are left out, and rows of c that hold one if the product may overflow. Costs
    ``2 (MK + KN + MN)`` flops and ``8 (M + K + 2 N)`` bytes per trial, and some strips of half a
    megabyte.

    Source: R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(12).reshape(3, 4)
    >>> bool(verify(a, a.T, a @ a.T))
    True
    >>> verify(a, a.T, -(a @ a.T)).why
    'wrong: C x differs from A (B x) in 3 rows (the first: c[0])'
    """
    a, b, c = to_array("a", a), to_array("b", b), to_array("c", c)
    for name, x in (("a", a), ("b", b), ("c", c)):
        if x.ndim != 2:
            raise ValueError(f"{name} has shape {x.shape}; expected a matrix")
        if find(x.dtype) is None:
            raise TypeError(f"{name} has dtype {x.dtype}; expected integers, floats or complex")
    if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes do not fit: a {a.shape}, b {b.shape}, c {c.shape}")
    entries = check_count("entries", entries)
    rows = [of(x.dtype) for x in (a, b, c)]
    rounded = (x for x in rows if not x.is_exact)
    coarsest = max(rounded, key=lambda row: row.unit_roundoff, default=rows[-1])
    if growth is None:
        growth = DEFAULT_MAX_GROWTH
        if coarsest.accumulator is not coarsest:
            growth = plan(a, b).growth if rows[0] is rows[1] is coarsest else 1.0
    if entries is not None:
        return _compared(a, b, c, coarsest, growth, entries, seed)
    return Freivalds(a, b, dtype=coarsest, trials=trials, seed=seed).check(c, growth)


def _compared(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    dtype: DType,
    growth: float,
    entries: int,
    seed: int | None,
) -> Verification:
    """Compare random entries, computed in higher precision, with their error bound."""
    random = np.random.default_rng(seed)
    kind = np.dtype(object) if dtype.is_exact else _wider(dtype, a, b, c)
    wrong = 0
    for _ in range(entries if c.size else 0):
        i, j = random.integers(c.shape)
        row, column = a[i].astype(kind), b[:, j].astype(kind)
        with np.errstate(all="ignore"):
            exact = row @ column
            if dtype.is_exact:
                bits = 8 * min(x.dtype.itemsize for x in (a, b, c))
                wrong += bool((exact - int(c[i, j])) % 2**bits)
                continue
            size = np.linalg.norm(real_parts(row)) * np.linalg.norm(real_parts(column))
            unit = max(of(x.dtype).unit_roundoff for x in (a, b, c))
            found, steps = c[i, j].astype(kind), max(sqrt(len(row)), 1.0)
            # Sums of products are rounded to the accumulators' type; c and a scheme's sums of a and
            # b to the type of the elements.
            sums = float(dtype.accumulator.unit_roundoff)
            bound = PROMISED * growth * sums * steps * size + unit * abs(found)
            if growth > 1:
                bound += PROMISED * growth * (unit if unit > sums else 0.0) * size
            error = abs(found - exact)
        wrong += bool(np.isfinite(size) and not error <= bound)
    why = f"wrong: {wrong} of {entries} entries are further off than promised" if wrong else ""
    return Verification(not wrong, float(wrong), 0.0, why)


def _wider(dtype: DType, *operands: np.ndarray) -> np.dtype:
    """Return a type that is precise enough to measure rounding errors of `dtype`."""
    wide = np.longdouble if dtype.unit_roundoff <= 2.0**-53 else np.float64
    return np.result_type(wide, *(x.dtype for x in operands if of(x.dtype).module == "numpy"))
