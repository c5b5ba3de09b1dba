"""Error bounds of a plan's products (`Plan.error_bound`); the growth of sums, and of 16 bits."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from falcon.schemes import Scheme
from falcon.schemes.metrics import sum_growth

from .centring import may_centre
from .ladder import is_bound, may_compare, promise
from .units import NONE, Units, chosen, evens_on_device, may_even, measured_here, of_rows, to_pack

# Errors of plans that "auto" chooses stay below this times growth u sqrt(K) norm(a_i) norm(b_j).
PROMISED = 1.5
# Largest s_A * s_B (`scaling`) for which that holds without scaling. Largest error in the same
# units, for entries of one sign, seven schemes, sizes 300 to 500: 0.75 at s_A * s_B = 1, 0.96 up to
# 2.4, 1.4 up to 4, 2.7 at 8 (examples/accuracy.py). Normal entries come to 1.2.
MOST_UNEVEN = 2.0
# Plans of "auto" have LCMAs only where the sums of blocks are at least so long (`Policy`). Shorter
# ones have too few roundings to balance: with K = 1 the largest of 10^7 errors was 6.8 (strassen)
# and 13 (strassen@3x6x4:54) times 1.5 growth u norm(a_i) norm(b_j), from K = 16 on at most 0.97;
# classical sums of three to eight products came to 1.13 (normal entries, float32).
SHORTEST = 32


def fitting(K: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return operands; raises ValueError for matrices of which a plan of K terms knows no bound."""
    if a.ndim == b.ndim == 2 and not a.shape[1] == len(b) == K:
        raise ValueError(f"a has shape {a.shape}, b {b.shape}; expected (M, {K}) and ({K}, N)")
    return a, b


def error_bound(plan: Any, a: np.ndarray, b: np.ndarray, proved: bool) -> np.ndarray:
    """Return the bound for each entry by the plan's own method; see `Plan.error_bound`."""
    is_promise = is_bound(plan.problem, plan.options) and not proved
    if a.ndim == b.ndim == 2 and not is_promise and (may_even(plan) or evens_on_device(plan)):
        a, b = (x.astype(np.result_type(x, np.float64)) for x in (a, b))
        found = [(u.times(a, 0), u.times(b, 1)) for u in _units(plan, a, b)]
        return np.maximum.reduce([_bound(plan, norms(x, 1), norms(y, 0), proved) for x, y in found])
    return _bound(plan, norms(a, 1), norms(b, 0), proved)


def _units(plan: Any, a: np.ndarray, b: np.ndarray) -> list[Units]:
    """Return the units that a product may even: those of the sample, and where that may change."""
    if plan.problem.device is not None:
        return [NONE, of_rows(plan, b)]
    if plan.problem.packed:
        return [to_pack(plan, b)]
    first = chosen(plan, a, b, measured_here)
    return [first] if first else [first, chosen(plan, a, b, measured_here, always=True)]


def _bound(plan: Any, rows: np.ndarray, columns: np.ndarray, proved: bool) -> np.ndarray:
    """Return the bound for rows and columns of these norms."""
    p, scheme, factor = plan.problem, plan.scheme, proved_factor(plan)
    if plan.is_uneven:
        rows, columns = (np.full_like(x, x.max(initial=0)) for x in (rows, columns))
    is_short = scheme is not None and p.K / scheme.k < SHORTEST
    row = plan.method.compute_type
    rounds = row is not None and row.splits == 1 and row.converts
    if not proved and (is_bound(p, plan.options) or rounds):
        factor = min(factor, promised(plan))
    elif not (proved or rounds or is_short):
        usual = PROMISED * plan.growth * sqrt(max(p.K, SHORTEST)) * _unit(plan)
        factor = min(factor, usual + _last(plan))
    return np.multiply.outer(factor * rows, columns)


def _unit(plan: Any) -> float:
    """Return the unit roundoff of what sums products."""
    p = plan.problem
    own = p.result if plan.options.error is None or plan.scheme is not None else p.operand.summed
    unit: float = (own if plan.method.arithmetic is None else plan.operand).unit_roundoff
    if p.operand.is_complex:
        # The rounding error of a complex product (four real ones) is up to sqrt(2) gamma_2, not u.
        unit *= 2 * sqrt(2)
    return unit


def is_compared(plan: Any) -> bool:
    """Whether entries of a plan's products are compared, so that all may be made again."""
    able = plan.higher is not None and not plan.backend.is_library
    return able and may_compare(plan.problem, plan.options)


def promised(plan: Any, roundings: float | None = None) -> float:
    """Return what a plan promises whose options name an error, or whose arithmetic rounds.

    `roundings`: those that were measured of the operands' lines (`ladder.py`).
    """
    of_parts = None if plan.rewrite is None else plan.rewrite.promised(plan)
    if of_parts is not None:
        return float(of_parts)
    proved = proved_factor(plan)
    if plan.problem.device is None and not is_compared(plan):
        return proved
    centred = plan.problem.device is not None or plan.scheme is None or may_centre(plan)
    by_data = promise(plan.problem, plan.method, plan.growth, roundings, centred=centred)
    return min(by_data, proved)


def proved_factor(plan: Any) -> float:
    """Return by what the product of norms is multiplied for the bound of the worst case."""
    p, scheme, unit = plan.problem, plan.scheme, _unit(plan)
    if scheme is None:
        factor = (_roundings(plan, p.K) + 1) * unit
    else:
        chunk = max(min(p.K, plan.method.chunks[2]), 1)
        # By Cauchy-Schwarz, the products of norms summed over chunks of K do not exceed the whole.
        steps = _roundings(plan, -(-chunk // scheme.k))
        factor = scheme.error_bound(steps * scheme.k, unit) / steps + unit
        factor += -(-p.K // chunk) * unit
        if plan.guarded:
            factor *= MOST_UNEVEN * sqrt(scheme.m * scheme.n)
        if may_centre(plan):
            factor = 1.01 * factor + _centring_roundings(plan, -(-p.K // chunk)) * unit
    return factor + _last(plan)


def _last(plan: Any) -> float:
    """Return what rounding C adds, to a type of fewer bits than sums have."""
    unit: float = plan.problem.result.unit_roundoff
    return unit if unit > _unit(plan) else 0.0


def _roundings(plan: Any, K: int) -> int:
    """Return how many unit roundoffs a sum of K products may err by."""
    how = plan.method.arithmetic
    if how is None:
        return K
    # Tensor cores add up 8 or 16 products and the sum so far, and cut all off at the largest.
    return how.roundings(K if plan.problem.device is None or how.splits == 1 else 3 * K)


def _centring_roundings(plan: Any, passes: int) -> float:
    """Return how many unit roundoffs of the norms' product means may add (docs/accuracy.md)."""
    segments = plan.problem.K / 256 + plan.scheme.k * passes
    return 37.0 + 6.5 * (2 * segments + 3)


def norms(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the 2-norms along an axis; a vector is taken to hold the norms already."""
    if x.ndim == 1:
        return x.astype(np.float64)
    largest = float(np.abs(x).max(initial=0)) or 1.0
    return largest * np.sqrt(((np.abs(x).astype(np.float64) / largest) ** 2).sum(axis))


@lru_cache(maxsize=1024)
def growth_of_sums(scheme: Scheme | None) -> float:
    """Return `sum_growth` of a scheme; None: the classical algorithm."""
    return 1.0 if scheme is None else sum_growth(scheme.U, scheme.V, scheme.W)


@lru_cache(maxsize=1024)
def growth_of_rounded_sums(scheme: Scheme) -> float:
    """Return a scheme's RMS error, relative to the classical one, if sums of A and B are rounded.

    That is so where elements have fewer bits than accumulators. C is rounded to elements once,
    which is most of the classical algorithm's error. Every sum of several elements is rounded
    alike: each block of C gets such an error from every product that it is made of, once for A's
    sum and once for B's. The growth of Strassen's scheme is 2.65.
    """
    u, v, w = (x.astype(float).reshape(scheme.rank, -1) for x in (scheme.U, scheme.V, scheme.W))
    rounded = sum((np.count_nonzero(x, axis=1) > 1).astype(float) for x in (u, v))
    size = np.square(u).sum(axis=1) * np.square(v).sum(axis=1)
    per_block = np.square(w).T @ (size * rounded) / scheme.k
    return float(np.sqrt(1 + per_block.mean()))
