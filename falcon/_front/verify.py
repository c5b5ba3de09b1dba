"""Verify a product in O(n^2): Freivalds' test by rows, or sampled entries in higher precision."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from falcon._core.arrays import to_array
from falcon._core.bound import PROMISED
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
        RMS error growth that is allowed over classical multiplication (`falcon.Plan.growth`).
        Default: 8, the most that "auto" spends; of float16 and bfloat16, whose own rounding leaves
        little room, that of ``falcon.plan(a, b)`` with the settings in force. Give that of the plan
        for a product on a GPU, or by a scheme that was asked for by keyword.
    trials : int
        Independent random vectors. A wrong integer product passes one trial with probability at
        most 1/2.
    entries : int, optional
        Compare so many random entries, computed in higher precision, with what
        `falcon.Plan.error_bound` promises, instead.
    seed : int, optional
        Makes the random choices reproducible.

    Returns
    -------
    Verification
        True where `c` passes. False, with the reason, where it is wrong, and where rounding errors
        may be as large as the product itself, so that nothing can be told.

    Raises
    ------
    ValueError
        Shapes do not fit together.
    TypeError
        A dtype is not numeric.

    Notes
    -----
    x has random entries +1 and -1, divided by the norms of b's columns, so that a row of ``E x`` is
    about the 2-norm of that row of the error E. Rounding keeps it near ``growth u sqrt(K)
    norm(a_i)``, plus what rounding c itself costs, by row and over all rows: a wrong row is seen
    beside any other. Right products are called wrong with probability 1e-9. For integers x is
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
    >>> verify(a, a.T, -(a @ a.T)).why
    'wrong: C x differs from A (B x) in 3 rows'
    """
    a, b, c = to_array("a", a), to_array("b", b), to_array("c", c)
    for name, x in (("a", a), ("b", b), ("c", c)):
        if x.ndim != 2:
            raise ValueError(f"{name} has shape {x.shape}; expected a matrix")
        if find(x.dtype) is None:
            raise TypeError(f"{name} has dtype {x.dtype}; expected integers, floats or complex")
    if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes do not fit: a {a.shape}, b {b.shape}, c {c.shape}")
    for name, number in (("trials", trials), ("entries", entries)):
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}; expected at least 1")
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
    """Compare random entries with the promise, row by row of those that are drawn."""
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
            # Sums of products are rounded in their own type, c and, by a scheme, sums of a and b
            # to the elements'.
            sums = float(dtype.accumulator.unit_roundoff)
            bound = PROMISED * growth * sums * steps * size + unit * abs(found)
            if growth > 1:
                bound += PROMISED * growth * (unit if unit > sums else 0.0) * size
            error = abs(found - exact)
        wrong += bool(np.isfinite(size) and not error <= bound)
    why = f"wrong: {wrong} of {entries} entries are further off than promised" if wrong else ""
    return Verification(not wrong, float(wrong), 0.0, why)


def _wider(dtype: DType, *operands: np.ndarray) -> np.dtype:
    """Return the type in which rounding errors of `dtype` are seen."""
    wide = np.longdouble if dtype.unit_roundoff <= 2.0**-53 else np.float64
    return np.result_type(wide, *(x.dtype for x in operands if of(x.dtype).module == "numpy"))
