"""Schemes over the real numbers: least squares on the Brent equations.

Steps are Levenberg and Marquardt's. The normal equations of a sum of rank-one terms are made of
small Gram matrices, so that a product with them costs little more than the error itself, and
conjugate gradients solve them roughly in milliseconds (as in L. Sorber, M. Van Barel and L. De
Lathauwer, "Optimization-based algorithms for tensor decompositions", 2013).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import moves
from .masks import Format, arrays_of

SOLVED = 1e-16  # error below which a scheme solves the Brent equations
# Levenberg and Marquardt's weight of a step: at first, at least, and attempts to take a step.
DAMPING, LEAST_DAMPING, ATTEMPTS = 0.1, {"f": 1e-4, "d": 1e-13}, 8
ACCURACY, ITERATIONS = 0.1, 150  # of conjugate gradients: relative residual, and most of them


def target(dims: Format) -> np.ndarray:
    """The tensor of the Brent equations, shape (mk, kn, mn)."""
    u, v, w = arrays_of(moves.classical(dims), dims)
    flat = [x.reshape(len(x), -1).astype(float) for x in (u, v, w)]
    return np.asarray(np.einsum("ra,rb,rc->abc", *flat, optimize=True))


class Fit:
    """Real factors on the way to a scheme.

    Parameters
    ----------
    dims : (m, k, n)
    x : ndarray, shape (mk + kn + mn, R)
        U, V and W one below the other, a column per term. Steps replace it.

    Attributes
    ----------
    free : bool ndarray, same shape
        Entries that steps may change.
    damping : float
        Levenberg and Marquardt's, as the last step left it.
    """

    def __init__(self, dims: Format, x: np.ndarray) -> None:
        m, k, n = dims
        self.dims = dims
        self.x = np.array(x, float)
        self.free = np.ones(self.x.shape, bool)
        self.damping = DAMPING
        ends = np.cumsum([0, m * k, k * n, m * n])
        self._rows = [slice(ends[mode], ends[mode + 1]) for mode in range(3)]
        self._target = target(dims)

    @property
    def rank(self) -> int:
        """R, the number of terms."""
        return self.x.shape[1]

    def factors(self, x: np.ndarray | None = None) -> list[np.ndarray]:
        """Views of U, V and W in this or in another array of the same shape."""
        return [(self.x if x is None else x)[rows] for rows in self._rows]

    def error(self) -> float:
        """Sum of the squares by which the Brent equations are missed."""
        return float((self.residual() ** 2).sum())

    def residual(self) -> np.ndarray:
        """What the Brent equations are missed by, shape (mk, kn, mn)."""
        u, v, w = self.factors()
        return np.asarray((u @ _khatri_rao(v, w).T).reshape(self._target.shape) - self._target)

    def relax(
        self,
        steps: int,
        weight: float | np.ndarray = 0.0,
        centre: float | np.ndarray = 0.0,
        *,
        goal: float = 0.0,
        rough: bool = False,
        stall: float = 0.0,
    ) -> float:
        """Go downhill; return the error.

        Parameters
        ----------
        steps : int
            At most.
        weight, centre : float or ndarray like `x`
            ``weight * (x - centre)^2`` is added to the error.
        goal : float
            Error that is enough.
        rough : bool
            In float32, with steps that solve their equations to a tenth only, all entries free.
            Otherwise in float64, with exact steps.
        stall : float
            Stop where six steps gain less than this share.
        """
        kind = np.dtype(np.float32 if rough else np.float64)
        x = self.x.astype(kind)
        pull = np.broadcast_to(np.asarray(weight, kind), x.shape)
        rest = np.broadcast_to(np.asarray(centre, kind), x.shape)

        def total(x: np.ndarray, error: float) -> float:
            return error + float(np.vdot(pull * (x - rest), x - rest))

        prepare: Callable[[np.ndarray], Any] = self._grams if rough else self._normal
        step_of: Callable[..., np.ndarray] = self._rough_step if rough else self._exact_step
        error, gradient = self._gradient(x)
        best = total(x, error)
        self.damping = min(self.damping, 1.0)
        seen: list[float] = []
        for _ in range(steps):
            if error <= goal:
                break
            slope = gradient + pull * (x - rest)
            made = prepare(x)  # the same for every damping
            growth = 2.0
            for _ in range(ATTEMPTS):
                step = step_of(made, x, slope, pull + kind.type(self.damping))
                tried = x + step
                tried_error, tried_gradient = self._gradient(tried)
                tried_best = total(tried, tried_error)
                if tried_best < best:
                    break
                self.damping *= growth
                growth *= 2
            else:
                break
            expected = float(np.vdot(step, self.damping * step - slope))
            quality = (best - tried_best) / max(expected, 1e-300)
            self.damping *= max(1 / 5, 1 - (2 * quality - 1) ** 3)
            self.damping = max(self.damping, LEAST_DAMPING[kind.char])
            x, error, gradient, best = tried, tried_error, tried_gradient, tried_best
            seen.append(best)
            if stall and len(seen) > 10 and seen[-6] - best < stall * best:
                break
        self.x = np.where(self.free, x, self.x)
        return error

    def _gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The error, and half of its gradient."""
        u, v, w = self.factors(x)
        vw = _khatri_rao(v, w)
        missed = u @ vw.T - self._target.reshape(len(u), -1).astype(x.dtype, copy=False)
        over_u = (missed.T @ u).reshape(len(v), len(w), -1)
        gradient = np.concatenate([
            missed @ vw,
            np.einsum("bcr,cr->br", over_u, w),
            np.einsum("bcr,br->cr", over_u, v),
        ])  # fmt: skip
        return float(np.vdot(missed, missed)), gradient

    def _grams(self, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Gram matrices of the factors; and J^T J within a row of each factor, their products."""
        grams = [factor.T @ factor for factor in self.factors(x)]
        return grams, [grams[mode - 2] * grams[mode - 1] for mode in range(3)]

    def _rough_step(
        self,
        made: tuple[list[np.ndarray], list[np.ndarray]],
        x: np.ndarray,
        slope: np.ndarray,
        shift: np.ndarray,
    ) -> np.ndarray:
        """Solve (J^T J + diag(shift)) step = -slope to a tenth, by conjugate gradients.

        `made` are the Gram matrices at x.
        """
        grams, parts = made
        factors = self.factors(x)
        if shift.min() == shift.max():
            diagonal = shift[0, 0] * np.eye(self.rank, dtype=x.dtype)
            inverses = [np.linalg.inv(part + diagonal) for part in parts]
        else:  # a block for each row
            rows = np.repeat(np.arange(3), [len(factor) for factor in factors])
            blocks = np.stack(parts)[rows]
            each = np.arange(self.rank)
            blocks[:, each, each] += shift
            inverses = self.factors(np.linalg.inv(blocks))

        def conditioned(y: np.ndarray) -> np.ndarray:
            return np.concatenate([
                z @ inverse if inverse.ndim == 2 else (inverse @ z[:, :, None])[:, :, 0]
                for z, inverse in zip(self.factors(y), inverses, strict=True)
            ])  # fmt: skip

        def times(y: np.ndarray) -> np.ndarray:
            out = shift * y
            crossed = [z.T @ factor for z, factor in zip(self.factors(y), factors, strict=True)]
            for mode, place in enumerate(self._rows):
                mixed = crossed[mode - 2] * grams[mode - 1] + crossed[mode - 1] * grams[mode - 2]
                out[place] += y[place] @ parts[mode] + factors[mode] @ mixed
            return out

        return _conjugate_gradients(times, conditioned, -slope)

    def _exact_step(
        self, made: np.ndarray, x: np.ndarray, slope: np.ndarray, shift: np.ndarray
    ) -> np.ndarray:
        """Solve (J^T J + diag(shift)) step = -slope for the free entries; `made` is J^T J at x."""
        free = np.flatnonzero(self.free)
        matrix = made.copy()
        matrix[np.diag_indices(len(free))] += shift.ravel()[free]
        out = np.zeros(x.shape)
        out.flat[free] = np.linalg.solve(matrix, -slope.ravel()[free])
        return out

    def _normal(self, x: np.ndarray) -> np.ndarray:
        """The matrix J^T J of the free entries."""
        free = np.flatnonzero(self.free)
        grams, parts = self._grams(x)
        rows, terms = np.divmod(free, self.rank)
        ends = np.searchsorted(rows, [0, *(place.stop for place in self._rows)])
        blocks = [slice(ends[mode], ends[mode + 1]) for mode in range(3)]
        matrix = np.zeros((len(free), len(free)))
        for mode, block in enumerate(blocks):
            same = rows[block, None] == rows[None, block]
            matrix[block, block] = same * parts[mode][terms[block, None], terms[None, block]]
        for p, q in ((0, 1), (0, 2), (1, 2)):
            # d/dx[i,r] and d/dy[j,s] meet in x[i,s] y[j,r] gram[r,s].
            left, right = blocks[p], blocks[q]
            cross = x[rows[left, None], terms[None, right]]
            cross *= x[rows[None, right], terms[left, None]]
            cross *= grams[3 - p - q][terms[left, None], terms[None, right]]
            matrix[left, right] = cross
            matrix[right, left] = cross.T
        return matrix


def polished(fit: Fit) -> float:
    """Go all the way to a solution; the error."""
    fit.damping = 1e-4
    return fit.relax(60, goal=1e-24, stall=0.5)


def _khatri_rao(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Outer products of the columns, shape (rows of x times rows of y, R)."""
    return (x[:, None, :] * y[None, :, :]).reshape(-1, x.shape[1])


def _conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray],
    conditioned: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
) -> np.ndarray:
    """Solve ``times(x) = right`` roughly; `conditioned` is nearly the inverse."""
    kind = right.dtype
    x, rest = np.zeros_like(right), right
    ahead = conditioned(rest)
    direction = ahead
    size = first = float(np.vdot(rest, ahead))
    for _ in range(ITERATIONS):
        image = times(direction)
        along = float(np.vdot(direction, image))
        if along <= 0:  # rounding has used the directions up
            break
        length = kind.type(size / along)
        x = x + length * direction
        rest = rest - length * image
        ahead = conditioned(rest)
        before, size = size, float(np.vdot(rest, ahead))
        if not size > ACCURACY**2 * first:
            break
        direction = ahead + kind.type(size / before) * direction
    return x
