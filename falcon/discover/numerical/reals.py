"""Schemes over the real numbers: least squares on the Brent equations.

The Levenberg-Marquardt steps are made in C (src/fit.h).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..walk import moves
from ..walk.masks import Format, arrays_of
from ._fit import relax

SOLVED = 1e-16  # error below which a scheme solves the Brent equations
DAMPING = 0.1  # of the first Levenberg-Marquardt step
# Relative residual at which conjugate gradients stop, their most iterations, and the least damping.
ROUGH, FINE = (0.1, 150, 1e-4), (0.01, 2000, 1e-12)


@functools.cache
def target(dims: Format) -> np.ndarray:
    """The tensor of the Brent equations, shape (mk, kn, mn), read-only."""
    u, v, w = arrays_of(moves.classical(dims), dims)
    flat = [x.reshape(len(x), -1).astype(float) for x in (u, v, w)]
    tensor = np.asarray(np.einsum("ra,rb,rc->abc", *flat, optimize=True))
    tensor.flags.writeable = False
    return tensor


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
        Of Levenberg-Marquardt, as the last step left it.
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
        """Sum of the squared residuals of the Brent equations."""
        return float((self.residual() ** 2).sum())

    def residual(self) -> np.ndarray:
        """Residual of the Brent equations, shape (mk, kn, mn)."""
        u, v, w = self.factors()
        return np.asarray(np.einsum("ar,br,cr->abc", u, v, w, optimize=True) - self._target)

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
        """Minimise; return the error.

        Parameters
        ----------
        steps : int
            At most.
        weight, centre : float or ndarray like `x`
            ``weight * (x - centre)^2`` is added to the error.
        goal : float
            Error at which to stop.
        rough : bool
            In single precision, with less accurate steps.
        stall : float
            Stop where five steps, after ten, gain less than this share.
        """
        accuracy, iterations, least = ROUGH if rough else FINE
        error, self.x, self.damping = relax(
            self._target,
            self.x,
            np.broadcast_to(np.asarray(weight, float), self.x.shape),
            np.broadcast_to(np.asarray(centre, float), self.x.shape),
            self.free,
            single=rough,
            steps=steps,
            damping=min(self.damping, 1.0),
            goal=goal,
            stall=stall,
            accuracy=accuracy,
            iterations=iterations,
            least_damping=least,
        )
        return error


def balance(factors: Sequence[np.ndarray]) -> None:
    """Give the three factors of a term, columns here, the same sum of absolute values."""
    norms = [np.abs(x).sum(0) + 1e-12 for x in factors]
    mean = (norms[0] * norms[1] * norms[2]) ** (1 / 3)
    for x, norm in zip(factors, norms, strict=True):
        x *= mean / norm


def polished(fit: Fit) -> float:
    """Minimise to full double precision; return the error."""
    fit.damping = 1e-4
    return fit.relax(60, goal=1e-24, stall=0.5)
