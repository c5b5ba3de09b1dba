"""`verify`: check a product in O(n^2), by Freivalds' test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from falcon._core.arrays import to_array
from falcon._core.dtypes import dtype_of, find
from falcon._core.options import DEFAULT_MAX_GROWTH
from falcon._tools.checks import check_modulus

from .adapters import adapt_operands
from .freivalds import Freivalds, Verification
from .plan import plan
from .validate import check_matrix


def verify(
    a: Any,
    b: Any,
    c: Any,
    *,
    modulus: int | None = None,
    growth: float | None = None,
    trials: int | None = None,
    seed: int | None = None,
) -> Verification:
    """Check ``c == a @ b`` by Freivalds' randomised test.

    Parameters
    ----------
    a, b, c : array_like, shapes (M, K), (K, N), (M, N)
        Integer, float (float16 and bfloat16 too) or complex matrices; with `modulus`, integers of
        any values.
    modulus : int, optional
        p, from 2 to 2^62: check that `c` and ``a @ b`` are equal modulo p, without tolerance.
    growth : float, optional
        Allowed RMS error growth relative to classical multiplication (`falcon.Plan.growth`).
        Default: 8, the most that "auto" allows; for float16 and bfloat16, whose own rounding errors
        are large already, that of ``falcon.plan(a, b)`` with the settings in force. For a product
        on a GPU, or by a scheme given as a keyword, pass the growth of its plan.
    trials : int, optional
        Independent random vectors, by default 16. A wrong integer product passes one trial with
        probability at most 1/2, and modulo p at most 1/q, where q is the smallest prime factor of
        p. With `modulus` the default are so many that a wrong product passes with probability at
        most 2^-40: 40 for an even p, 5 for p = 1009, 2 for a prime above 2^20.
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
    norm(a_i)`` plus the errors of rounding c itself and of the test. This is tested for each row,
    so that a wrong row is found whatever the size of the others. Correct products are reported as
    wrong with probability 1e-9. For integers x is uniform over all 64-bit values (all residues
    modulo p), and everything is compared exactly, modulo 2^w for a c of w bits (modulo p). Floats
    are summed in float64 (complex128) or wider, scaled so that nothing overflows. Rows of a and
    columns of b that hold a NaN or Inf are left out, and rows of c that hold one if the product may
    overflow. Costs ``2 (MK + KN + MN)`` flops and ``8 (M + K + 2 N)`` bytes per trial, and some
    strips of half a megabyte.

    Source: R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(12).reshape(3, 4)
    >>> bool(verify(a, a.T, a @ a.T))
    True
    >>> verify(a, a.T, -(a @ a.T)).why
    'wrong: C x differs from A (B x) in 3 rows (the first: c[0])'
    >>> bool(verify(a, a.T, a @ a.T % 7, modulus=7))
    True
    """
    _, *views = adapt_operands(a=a, b=b, c=c)
    a, b, c = (to_array(name, x) for name, x in zip("abc", views, strict=True))
    modulus = check_modulus("modulus", modulus)
    expected = "integers, floats or complex" if modulus is None else "integers, with a modulus"
    for name, x in (("a", a), ("b", b), ("c", c)):
        check_matrix(name, x)
        row = find(x.dtype)
        if row is None or not (modulus is None or row.is_exact):
            raise TypeError(f"{name} has dtype {x.dtype}; expected {expected}")
    if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes do not fit: a {a.shape}, b {b.shape}, c {c.shape}")
    if modulus is not None:
        about: dict[str, Any] = {"modulus": modulus, "trials": trials, "seed": seed}
        return Freivalds(a, b, dtype=dtype_of("int64"), **about).check(c, 1.0)
    return run_test(Freivalds, plan, (a, b, c), growth, trials, seed)


def run_test(
    test: Callable[..., Freivalds],
    plan: Callable[[Any, Any], Any],
    matrices: tuple[Any, Any, Any],
    growth: float | None,
    trials: int | None,
    seed: int | None,
) -> Verification:
    """Test a product in the arithmetic of its coarsest matrix; `plan` is asked for its growth."""
    a, b, c = matrices
    rows = [dtype_of(x.dtype) for x in matrices]
    rounded = (x for x in rows if not x.is_exact)
    coarsest = max(rounded, key=lambda row: row.unit_roundoff, default=rows[-1])
    if growth is None:
        growth = DEFAULT_MAX_GROWTH
        if coarsest.accumulator is not coarsest:
            growth = plan(a, b).growth if rows[0] is rows[1] is coarsest else 1.0
    return test(a, b, dtype=coarsest, trials=trials, seed=seed).check(c, growth)
