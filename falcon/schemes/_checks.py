"""Checks of a `Scheme` before its proof, and the error message where the proof fails."""

from __future__ import annotations

from collections.abc import Mapping
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
# A Brent equation is off by this at most where coefficients such as 1/3 were given as floats.
_ROUNDED = 1e-6


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


def implied_format(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> tuple[int, int, int]:
    """Return the format of factors whose rows have mk, kn and mn coefficients, nested or not.

    Raises SchemeError where there is no such format. Ranks are not compared.
    """
    sizes = [prod(x.shape[1:]) for x in (U, V, W)]
    mk, kn, mn = sizes
    if 0 not in sizes and 0 not in (U.ndim, V.ndim, W.ndim):
        m, k, n = (isqrt(x) for x in (mk * mn // kn, mk * kn // mn, kn * mn // mk))
        if [m * k, k * n, m * n] == sizes:
            return m, k, n
    raise SchemeError(
        f"rows of U, V and W have {mk}, {kn} and {mn} coefficients, which are mk, kn and mn of no "
        "format <m,k,n>"
    )


def as_matrices(*factors: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return U, V and W exactly, of shapes (R, m, k), (R, k, n), (R, m, n), also from flat rows.

    Raises SchemeError where they are not of one format and rank, `exact_array`'s errors else.
    """
    U, V, W = (exact_array(x, name) for x, name in zip(factors, "UVW", strict=True))
    if U.ndim == V.ndim == W.ndim == 2:
        m, k, n = implied_format(U, V, W)
        U, V, W = (
            x.reshape(len(x), *shape)
            for x, shape in zip((U, V, W), ((m, k), (k, n), (m, n)), strict=True)
        )
    for name, x, axes in (("U", U, "R, m, k"), ("V", V, "R, k, n"), ("W", W, "R, m, n")):
        if x.ndim != 3:
            raise SchemeError(
                f"{name} has shape {x.shape}; expected three axes ({axes}), or U, V and W as rows "
                "of mk, kn and mn coefficients"
            )
    rank, m, k = U.shape
    n = V.shape[2]
    if 0 in (rank, m, k, n):
        raise SchemeError(f"U has shape {U.shape} and V {V.shape}; no dimension may be zero")
    if V.shape != (rank, k, n):
        raise SchemeError(f"V has shape {V.shape}; expected {(rank, k, n)} to fit U {U.shape}")
    if W.shape != (rank, m, n):
        hint = f". {TRANSPOSED}" if W.shape == (rank, n, m) else ""
        raise SchemeError(
            f"W has shape {W.shape}; expected {(rank, m, n)} to fit U {U.shape} and V {V.shape}"
            f"{hint}"
        )
    return U, V, W


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
        hint = ". Floats are taken as they are stored: give fractions.Fraction(1, 3) for 1/3"
    error = BrentError(
        f"{name!r} as <{m},{k},{n};{rank}> is not a matrix multiplication algorithm: "
        f"{violation} ({len(wrong)} of {(m * k * n) ** 2} equations fail)"
        f"{hint or '; falcon.schemes.check says what is nearest'}"
    )
    error.failing = len(wrong)
    raise error
