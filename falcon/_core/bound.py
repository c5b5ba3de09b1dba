"""Error bounds of a plan's products: see `Plan.error_bound`."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from .spread import MOST_UNEVEN

# Errors of plans that "auto" chooses stay below this times growth u sqrt(K) norm(a_i) norm(b_j).
PROMISED = 1.5


def error_bound(plan: Any, a: Any, b: Any, proved: bool) -> np.ndarray:
    """Return the bound for each entry; parameters as for `Plan.error_bound`."""
    p, scheme = plan.problem, plan.scheme
    rows, columns = _norms(a, 1), _norms(b, 0)
    if plan.parts:
        bound = np.empty((p.M, p.N))
        for x in plan.parts:
            found = error_bound(x.plan, rows[x.rows], columns[x.columns], proved)
            bound[x.rows, x.columns] = found
            bound[x.columns, x.rows] = found.T
        return bound
    if scheme is not None and not plan.guarded:
        rows, columns = (np.full_like(x, x.max(initial=0)) for x in (rows, columns))
    unit = 2.0**-11 if p.tf32 else p.result.unit_roundoff
    if p.operand.is_complex:
        # The rounding error of a complex product (four real ones) is up to sqrt(2) gamma_2, not u.
        unit *= 2 * sqrt(2)
    if p.is_exact:
        factor = 0.0
    elif not proved:
        factor = PROMISED * plan.growth * sqrt(p.K) * unit
    elif scheme is None:
        factor = (p.K + 1) * unit
    else:
        chunk = max(min(p.K, plan.option.chunks[2]), 1)
        # By Cauchy-Schwarz, the products of norms summed over chunks of K do not exceed the whole.
        factor = scheme.error_bound(chunk, unit) / -(-chunk // scheme.k) + unit
        factor += -(-p.K // chunk) * unit
        if plan.guarded:
            factor *= MOST_UNEVEN * sqrt(scheme.m * scheme.n)
    return np.multiply.outer(factor * rows, columns)


def _norms(x: Any, axis: int) -> np.ndarray:
    """Return the 2-norms along an axis; a vector is taken to hold the norms already."""
    x = np.asarray(x)
    if x.ndim == 1:
        return x.astype(np.float64)
    largest = float(np.abs(x).max(initial=0)) or 1.0
    return largest * np.sqrt(((np.abs(x).astype(np.float64) / largest) ** 2).sum(axis))
