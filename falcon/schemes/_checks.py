"""Checks of a `Scheme` before its proof, and the error message where the proof fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isqrt, prod
from typing import Any

import numpy as np

from . import brent
from ._coefficients import exact_array
from .additions import SharedSums, replay

# What a scheme was chosen for among those of its format and rank: nothing (it is the sparsest), the
# fewest additions, the least growth of errors.
KINDS = ("plain", "additions", "growth")
TRANSPOSED = "W fits C transposed, as many papers have it: give W.transpose(0, 2, 1)"
_ROWS_TRANSPOSED = TRANSPOSED.replace("W.t", "W.reshape(-1, {}, {}).t")

_CHEAP = 2**22  # with more work, a second, it is not tried whether W is transposed
# A Brent equation is off by this at most where coefficients such as 1/3 were rounded.
_ROUNDED = 1e-2


class SchemeError(ValueError):
    """U, V, W do not form a scheme; the message names the first thing that is wrong.

    Examples
    --------
    >>> import falcon
    >>> try:
    ...     falcon.Scheme([[[1]]], [[[1]]], [[[2]]])
    ... except falcon.SchemeError as error:
    ...     print(str(error).partition(": ")[2].partition(" (")[0])
    Brent equation a[1,1] * b[1,1] in c[1,1]: the term a11 b11 occurs 2 times in c11, expected 1
    """


class BrentError(SchemeError):
    """U, V, W violate Brent equations."""

    failing = 0  # how many
    factors: tuple[np.ndarray, ...] = ()


def as_matrices(
    *factors: Any, format: Sequence[int] | None = None, rank: Any = None, flat: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return U, V and W exactly, of shapes (R, m, k), (R, k, n), (R, m, n), also from flat rows.

    `format`, `rank`: those that are expected; None: as U, V and W have it.
    `flat`: nested rows are read as flat ones, whatever the order of their axes.
    Raises SchemeError where they are not of one format and rank, `exact_array`'s errors else.
    """
    arrays = [exact_array(x, name) for x, name in zip(factors, "UVW", strict=True)]
    for name, x, axes in zip("UVW", arrays, ("mk", "kn", "mn"), strict=True):
        if x.ndim not in (2, 3):
            raise SchemeError(
                f"{name} has shape {x.shape}; expected three axes (R, {', '.join(axes)}), or rows "
                f"of {axes} coefficients"
            )
    U, V, W = arrays
    if format is None:
        is_told = U.ndim == V.ndim == 3 and not flat
        format = (*U.shape[1:], V.shape[2]) if is_told else _implied_format(arrays)
    m, k, n = format
    rank = len(U) if rank is None else rank
    if 0 in (rank, m, k, n):
        raise SchemeError(f"U has shape {U.shape} and V {V.shape}; no dimension may be zero")
    for at, (name, shape) in enumerate(zip("UVW", ((m, k), (k, n), (m, n)), strict=True)):
        x, of_rows = arrays[at], (rank, prod(shape))
        if x.ndim == 3 and flat:
            x = x.reshape(len(x), prod(x.shape[1:]))
        expected = of_rows if x.ndim == 2 else (rank, *shape)
        if x.shape != expected:
            hint = f". {TRANSPOSED}" if name == "W" and x.shape == (rank, n, m) else ""
            raise SchemeError(
                f"{name} has shape {x.shape}; expected {expected} for the format {(m, k, n)}{hint}"
            )
        arrays[at] = x.reshape(rank, *shape)
    U, V, W = arrays
    return U, V, W


def _implied_format(factors: Sequence[np.ndarray]) -> tuple[int, int, int]:
    """Return the format of factors whose rows have mk, kn and mn coefficients, nested or not."""
    sizes = [prod(x.shape[1:]) for x in factors]
    mk, kn, mn = sizes
    if 0 not in sizes:
        m, k, n = (isqrt(x) for x in (mk * mn // kn, mk * kn // mn, kn * mn // mk))
        if [m * k, k * n, m * n] == sizes:
            return m, k, n
    raise SchemeError(
        f"rows of U, V and W have {mk}, {kn} and {mn} coefficients, which are mk, kn and mn of no "
        "format <m,k,n>"
    )


def check_facts(kind: Any, levels: Any) -> None:
    """Raise SchemeError where `kind` or `levels` is invalid."""
    if kind not in KINDS:
        raise SchemeError(f"kind is {kind!r}; expected one of {', '.join(map(repr, KINDS))}")
    if type(levels) is not int or levels < 1:
        raise SchemeError(f"levels is {levels!r}; expected a positive integer")


def replayed(scheme: Any, sums: Any) -> dict[str, SharedSums]:
    """Return the programs that the parameter `sums` of a `Scheme` describes."""
    if sums is None:
        return {}
    if not isinstance(sums, Mapping) or not sums.keys() <= set("UVW") or not scheme.is_integral:
        raise SchemeError(
            f"{scheme.name!r}: sums is {type(sums).__name__} {str(sums)[:40]!r}; expected lists "
            "of [x, y, ratio] by factor (U, V, W), of a scheme of integers"
        )
    programs = {}
    for factor, pairs in sums.items():
        try:
            programs[factor] = replay(getattr(scheme, factor).reshape(scheme.rank, -1), pairs)
        except TypeError:
            raise SchemeError(
                f"{scheme.name!r}: sums of {factor}: got {str(pairs)[:40]!r}; expected a list "
                "of [x, y, ratio]"
            ) from None
        except ValueError as error:
            raise SchemeError(f"{scheme.name!r}: sums of {factor}: {error}") from None
    return programs


def of_multiple(x: Fraction) -> str:
    """Say what to do where every product is multiplied by a number."""
    remedy = "negate V" if x == -1 else f"multiply V by {1 / x}"
    return f"Every product is {x} times what it should be: {remedy}"


def prove(U: np.ndarray, V: np.ndarray, W: np.ndarray, name: str) -> None:
    """Raise BrentError where an equation fails; says what the reason may be."""
    wrong = brent.violations(U, V, W)
    if not wrong:
        return
    violation = next(iter(wrong))
    (rank, m, k), n = U.shape, V.shape[2]
    hint, p = "", wrong.modulus
    if brent.work(U, V, W) <= _CHEAP and not brent.violations(
        U, V, W.reshape(rank, n, m).transpose(0, 2, 1)
    ):
        hint = f". {TRANSPOSED if m == n else _ROWS_TRANSPOSED.format(n, m)}"
    elif p > 1 and all(x.min() >= 0 and x.max() < p for x in (U, V, W)):  # else a wrong sign
        hint = f". It is a scheme modulo {p} only, not one of numbers"
    elif 0 < abs(violation.got - violation.expected) < _ROUNDED:
        hint = '. Coefficients are rounded: use fractions, Fraction(1, 3) or "1/3", not 0.3333'
    elif wrong.multiple is not None:
        hint = f". {of_multiple(wrong.multiple)}"
    error = BrentError(
        f"{name!r} as <{m},{k},{n};{rank}> is not a matrix multiplication algorithm: "
        f"{violation} ({len(wrong)} of {(m * k * n) ** 2} equations fail)"
        f"{hint or '; falcon.schemes.check says what is nearest'}"
    )
    error.failing, error.factors = len(wrong), (U, V, W)
    raise error
