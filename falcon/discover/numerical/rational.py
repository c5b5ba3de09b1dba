"""Make a scheme over the reals rational.

A solution of the Brent equations has free directions: bases, scales of terms, and more. Along them
it is made sparse (reweighted least squares: I. Daubechies et al., 2010), then entries are clamped
to zero and to small numbers, in batches, as long as the free entries can still meet the equations.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

from ..walk.masks import Format
from .reals import SOLVED, Fit, balance, polished

Fractions = list[np.ndarray]  # U, V, W: object arrays of `Fraction`, a column per term

# Errors: at which the check of a batch stops, below which it passes, and at which it goes from
# single to double precision.
ENOUGH, HOLDS, ROUGHLY = 1e-11, 1e-9, 1e-6
LARGEST = 12.0  # entry beyond which a solution diverges
DENOMINATOR = 2000
FAILURES = 20  # single entries in a row that can't be clamped
# Values that entries are clamped to, and what is added to the distance from them.
VALUES = {-1.0: 0.0, 1.0: 0.0, 0.0: 0.05, 2.0: 0.3, -2.0: 0.3, 0.5: 0.3, -0.5: 0.3}


def rational(fit: Fit, rng: np.random.Generator) -> Fractions | None:
    """Move a solution to a rational one with many zeros and ones; None if that fails."""
    balance(fit.factors())
    if _sparse(fit, rng) > SOLVED:
        return None
    balance(fit.factors())
    _clamp(fit, {0.0: 0.0}, most=300, reach=(2.0, 0.05, 0.8))
    _drop(fit)
    _scale(fit)
    for softest in (0.4, 0.02, 0.02):
        _pull(fit, softest)
        _scale(fit)
    # An entry of u and one of v fix the scales of their term.
    fit.free = fit.x != 0
    u, v, w = fit.factors()
    for term in range(fit.rank):
        for x, free in zip((u, v), fit.factors(fit.free), strict=False):
            place = np.where(free[:, term], np.abs(np.abs(x[:, term]) - 1), np.inf).argmin()
            scale = abs(x[place, term])
            x[:, term] /= scale
            w[:, term] *= scale
            x[place, term] = np.sign(x[place, term])
            free[place, term] = False
    if polished(fit) > SOLVED:
        return None
    _clamp(fit, VALUES, most=100, reach=(1.5, 0.02, np.inf))
    return _fractions(fit)


def violations(factors: Fractions, dims: Format) -> int:
    """Brent equations that rational factors violate."""
    m, k, n = dims
    found: dict[tuple[int, int, int], Fraction] = {}
    for term in range(factors[0].shape[1]):
        columns = [[(i, q) for i, q in enumerate(x[:, term]) if q] for x in factors]
        for (a, x), (b, y), (c, z) in product(*columns):
            found[a, b, c] = found.get((a, b, c), Fraction(0)) + x * y * z
    for i, l, j in product(range(m), range(k), range(n)):
        place = i * k + l, l * n + j, i * n + j
        found[place] = found.get(place, Fraction(0)) - 1
    return sum(value != 0 for value in found.values())


def _fractions(fit: Fit) -> Fractions | None:
    """Entries as fractions; None if denominators are not small, or the result is no scheme."""
    exact = np.empty(fit.x.shape, object)
    for place in np.ndindex(*fit.x.shape):
        exact[place] = Fraction(float(fit.x[place])).limit_denominator(DENOMINATOR)
        if abs(float(exact[place]) - fit.x[place]) > 1e-7:
            return None
    factors = fit.factors(exact)
    return None if violations(factors, fit.dims) else factors


def _sparse(fit: Fit, rng: np.random.Generator, steps: int = 30) -> float:
    """Make many entries small; return the error.

    Weights ``(x^2 + e^2)^(p/2 - 1)`` with e from 0.5 to 0.02; random ones at first, so that the
    same solution leads to many.
    """
    power, spread = rng.choice((0.3, 0.5, 0.7)), rng.choice((0.2, 0.5, 1.0))
    noise = np.exp(spread * rng.standard_normal(fit.x.shape))
    for step in range(steps):
        done = step / (steps - 1)
        soft = 0.5 * (0.02 / 0.5) ** done
        square = fit.x**2
        weight = 1e-3 * noise ** max(0.0, 1 - 2 * done) * (square + soft * soft) ** (power / 2 - 1)
        fit.damping = 1e-3
        fit.relax(3, weight + 1e-4 * square, rough=True)
    for share in (1e-5, 1e-6):
        fit.damping = 1e-5
        fit.relax(6, share * (fit.x**2 + 0.02**2) ** (power / 2 - 1))
    return polished(fit)


def _pull(fit: Fit, softest: float) -> None:
    """Pull the non-zeros to 1 and -1; most of them reach these."""
    fit.free = fit.x != 0
    for step in range(30):
        soft = softest * (0.01 / 0.4) ** (step / 29)
        away = np.abs(fit.x) - 1
        weight = np.where(fit.free, 1e-3 * (away * away + soft * soft) ** -0.75, 0.0)
        fit.damping = 1e-4
        fit.relax(3, weight, np.sign(fit.x), rough=True)
    polished(fit)


def _drop(fit: Fit) -> None:
    """Remove terms that have become zero: the rank falls."""
    alive = np.logical_and.reduce([x.any(axis=0) for x in fit.factors()])
    fit.x, fit.free = fit.x[:, alive], fit.free[:, alive]


def _scale(fit: Fit) -> None:
    """Scale the bases and the terms so that most non-zeros are 1 or -1.

    Logarithms are linear in the unknowns; the least sum of absolute values by reweighting.
    """
    m, k, n = fit.dims
    rank, sizes = fit.rank, fit.dims
    starts = np.cumsum([0, m, k, n, rank, rank])
    # Which bases scale a row (dimension, step of its index, sign), and which scales of its term.
    bases = (((0, k, 1), (1, 1, 1)), ((1, n, -1), (2, 1, 1)), ((0, n, -1), (2, 1, -1)))
    of_terms = ((1, 0), (0, 1), (-1, -1))
    rows, logs = [], []
    for x, pair, signs in zip(fit.factors(), bases, of_terms, strict=True):
        places, terms = np.nonzero(np.abs(x) > 1e-9)
        part = np.zeros((len(places), starts[-1]))
        each = np.arange(len(places))
        for axis, step, sign in pair:
            part[each, starts[axis] + places // step % sizes[axis]] = sign
        for which, sign in enumerate(signs):
            part[each, starts[3 + which] + terms] = sign
        rows.append(part)
        logs.append(np.log(np.abs(x[places, terms])))
    matrix, log = np.concatenate(rows), np.concatenate(logs)
    weight = np.ones(len(log))
    scales = np.zeros(starts[-1])
    for step in range(60):
        left = matrix.T * weight
        scales = np.linalg.solve(left @ matrix + 1e-10 * np.eye(len(scales)), -left @ log)
        weight = 1 / (np.abs(matrix @ scales + log) + 0.3 * 0.9**step + 1e-4)
    for x, part in zip(fit.factors(), rows, strict=True):
        places, terms = np.nonzero(np.abs(x) > 1e-9)
        x[places, terms] *= np.exp(part @ scales)


def _holds(fit: Fit) -> bool:
    """Whether the equations can be met with the free entries that are left; meets them then."""
    return (
        fit.relax(10, goal=ROUGHLY, rough=True) < 10 * ROUGHLY and fit.relax(5, goal=ENOUGH) < HOLDS
    )


def _clamp(
    fit: Fit, values: dict[float, float], *, most: int, reach: tuple[float, float, float]
) -> None:
    """Fix free entries at the nearest of some values, in batches, as long as a solution remains.

    Parameters
    ----------
    fit : Fit
        Fixed entries are no longer free.
    values : dict
        The values, and what is added to the distance of each.
    most : int
        Entries of a batch.
    reach : (factor, least, largest)
        A batch keeps within a distance of `factor` times that of its nearest entry, but of
        `least` at least and of `largest` at most.
    """
    factor, least, largest = reach
    wanted = np.array(list(values))[:, None]
    barred = np.array(list(values.values()))[:, None] + np.zeros(fit.x.size)
    batch, failures = most, 0
    while failures < FAILURES:
        distance = np.where(fit.free.ravel(), np.abs(fit.x.ravel() - wanted) + barred, np.inf)
        nearest, best = distance.min(0), distance.argmin(0)
        order = np.argsort(nearest)[:batch]
        limit = min(largest, max(least, factor * nearest[order[0]]))
        order = order[(nearest[order] <= limit) & np.isfinite(nearest[order])]
        if not len(order):
            break
        kept = fit.x.copy(), fit.free.copy()
        fit.x.flat[order] = wanted[best[order], 0]
        fit.free.flat[order] = False
        fit.damping = 1e-4
        if _holds(fit) and np.abs(fit.x).max() < LARGEST:
            batch, failures = min(most, 2 * len(order) + 1), 0
            continue
        fit.x, fit.free = kept
        if len(order) == 1:
            barred[best[order[0]], order[0]] = np.inf
            failures += 1
        batch = max(1, len(order) // 4)
    polished(fit)
