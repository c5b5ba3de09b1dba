"""Basin-hopping over the minima of the real problem, until one of them is a scheme.

Most minima violate a few of the Brent equations; hops from the best of them reach one that
violates none (D. J. Wales and J. P. K. Doye, "Global optimization by basin-hopping", 1997).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..walk.masks import Format, Start, arrays_of
from . import orbits
from .reals import SOLVED, Fit, balance, polished

SCALE = 0.4  # standard deviation of fresh coefficients
FRESH, MINIMA = 50, 16  # minima to begin with, and those kept
HOPS = 650  # without a better minimum, after which all are forgotten
# The share of symmetric starts, and FRESH and HOPS for these: they succeed early or never. Most
# symmetries have no scheme of the rank, but 3x4x6:54 was found with one, and never from noise.
SYMMETRIC, SYMMETRIC_FRESH, SYMMETRIC_HOPS = 0.85, 15, 60
ALIKE = 0.002  # difference of errors below which two minima count as one
# Minima with diverging entries come in families: relative width of the errors barred around one.
FAMILY = 0.05
# Decreasing weights of |x|^2 beside the equations: for a fresh minimum, and after a hop.
COOLING, AFTER_HOP = (0.1, 0.05, 0.02, 0.008, 0.003), (0.02, 0.008, 0.003)
# A known scheme as a start: terms redrawn in addition to those beyond the rank, standard deviations
# of the noise, and the share of starts in random orthogonal bases.
REDRAWN, NOISE, TURNED = (0, 0, 3, 6, 10), (0.03, 0.1, 0.2), 0.5
HEATED, HEAT = 0.4, (0.05, 0.1, 0.2)  # share of hops, and weights of |x|^2
NEAR = 0.7  # error of minima that may be solutions
STALL = 2e-3  # relative gain of five steps below which a minimum counts as reached


class Hops:
    """A walk over the minima of the real problem.

    It begins at random terms that a change of bases permutes, at noise, or at most of the terms of
    a known scheme of higher rank (<4,4,4;49> plus the classical <4,4,1;16> for <4,4,5;61>), drawn
    again each time the minima are forgotten.

    Parameters
    ----------
    dims : (m, k, n)
    rank : int
    starts : sequence of callables
        ``start(rng, mod2)`` returns the masks of a scheme of the format.
    state : dict, optional
        A walk to go on with.

    Attributes
    ----------
    minima : list of (float, ndarray)
        Errors and entries of the best minima, best first, at the last weight of |x|^2.
    """

    def __init__(
        self,
        dims: Format,
        rank: int,
        starts: Sequence[Start] = (),
        state: dict[str, Any] | None = None,
    ) -> None:
        state = state or {
            "minima": [],
            "hops": 0,
            "barred": [[], []],
            "start": "",
            "symmetry": None,
        }
        self.dims, self.rank = dims, rank
        self._starts = {repr(start): start for start in starts}
        self._start = str(state["start"])  # which; noise if none of them
        self.minima = [(float(error), np.array(x)) for error, x in state["minima"]]
        self._hops = int(state["hops"])
        # Errors of diverging families: of starts without a symmetry, and with the present one.
        self._barred: list[list[float]] = [list(errors) for errors in state["barred"]]
        made = state["symmetry"]
        self._symmetry = None if made is None else orbits.Symmetry(dims, *made)

    def state(self) -> dict[str, Any]:
        """What another walk needs to go on."""
        return {"minima": list(self.minima), "hops": self._hops,
                "barred": [list(errors) for errors in self._barred], "start": self._start,
                "symmetry": self._symmetry and self._symmetry.state()}  # fmt: skip

    @property
    def best(self) -> float:
        """The least error so far."""
        return self.minima[0][0] if self.minima else float("inf")

    def forget(self) -> None:
        """Forget the minima, but not the diverging families."""
        self.minima, self._hops = [], 0

    def step(self, rng: np.random.Generator) -> Fit | None:
        """Go to one more minimum; return it if it is a solution."""
        self._hops += 1
        fresh, hops = (SYMMETRIC_FRESH, SYMMETRIC_HOPS) if self._symmetry else (FRESH, HOPS)
        if self._hops > fresh + hops:
            self.forget()
            self._hops = 1
        before, best = None, self.best
        if self._hops == 1:
            self._begin(rng)
        if self._hops <= fresh or not self.minima or rng.random() < 0.02:
            fit, cooling = self._fresh(rng)
            error = _cooled(fit, cooling)
        else:
            before = self.minima[min(int(rng.exponential(3.0)), len(self.minima) - 1)]
            fit = self._hopped(before[1], rng)
            error = _cooled(fit, AFTER_HOP)
        reached = error, fit.x
        solution = None
        if error < NEAR and not self._is_barred(error):
            solution = fit if solved(fit) else None
            if solution is not None:
                self._hops = fresh
            else:
                self._barred[self._symmetry is not None].append(error)
                self.minima = [x for x in self.minima if not self._is_barred(x[0])]
        if not self._is_barred(error):
            self._keep(reached, before, rng.random() < 0.05)
        if self._hops > fresh and self.best < best - ALIKE:
            self._hops = fresh
        return solution

    def _begin(self, rng: np.random.Generator) -> None:
        """Choose the kind of start for fresh minima."""
        self._symmetry, self._barred[True] = None, []
        if rng.random() < SYMMETRIC:
            self._symmetry = orbits.drawn(self.dims, self.rank, rng)
        self._start = "" if self._symmetry else str(rng.choice(["", *self._starts]))

    def _keep(
        self,
        reached: tuple[float, np.ndarray],
        before: tuple[float, np.ndarray] | None,
        anyway: bool,
    ) -> None:
        """Put a minimum into the list; if no worse, in place of `before`, which it came from.

        Otherwise it replaces the worst; `anyway` even if it is worse than that.
        """
        error = reached[0]
        held = [x for x in self.minima if x is not before]
        if before is not None and error >= before[0] + 0.02:  # sideways is fine
            held = self.minima
            if any(abs(error - other) < ALIKE for other, _ in held):
                return
        if len(held) >= MINIMA and anyway:
            del held[-1]
        self.minima = sorted([*held, reached], key=lambda x: x[0])[:MINIMA]

    def _is_barred(self, error: float) -> bool:
        barred = self._barred[self._symmetry is not None]
        return any(abs(error - other) < FAMILY * other for other in barred)

    def _fresh(self, rng: np.random.Generator) -> tuple[Fit, Sequence[float]]:
        """A start of noise, maybe with terms of a known scheme; and the weights for it."""
        fit = Fit(self.dims, SCALE * self._noise(rng))
        if self._start not in self._starts:
            return fit, COOLING
        terms = self._starts[self._start](random.Random(int(rng.integers(2**63))), False)
        if len(terms) <= self.rank:  # leads back to where it came from
            return fit, COOLING
        factors = [x.astype(float) for x in arrays_of(terms, self.dims)]
        if rng.random() < TURNED:
            factors = _turned(factors, self.dims, rng)
        known = np.concatenate([x.reshape(len(terms), -1) for x in factors], axis=1).T
        if rng.random() < 0.5:  # otherwise the first ones: of a sum, those of its larger part
            known = known[:, rng.permutation(len(terms))]
        known = known[:, : max(1, self.rank - int(rng.choice(REDRAWN)))]
        balance(fit.factors(known))
        fit.x[:, : known.shape[1]] = known
        fit.x += rng.choice(NOISE) * rng.standard_normal(fit.x.shape)
        return fit, AFTER_HOP

    def _noise(self, rng: np.random.Generator) -> np.ndarray:
        m, k, n = self.dims
        if self._symmetry:
            return self._symmetry.noise(self.rank, rng)
        return rng.standard_normal((m * k + k * n + m * n, self.rank))

    def _hopped(self, x: np.ndarray, rng: np.random.Generator) -> Fit:
        """Add noise everywhere, or redraw terms; some steps with a large weight may follow.

        Random terms, the largest, or those that matter most to a violated equation.
        """
        symmetry = self._symmetry
        fit = Fit(self.dims, symmetry.symmetric(x) if symmetry else x)
        kind = rng.integers(6)
        few = rng.random() < 0.7
        count = min(
            int(rng.integers(2, 10) if few else rng.integers(10, 11 + self.rank // 3)), self.rank
        )
        if symmetry:
            count = max(1, count // symmetry.order)
        if kind == 0:
            fit.x += rng.choice((0.3, 0.4, 0.5)) * self._noise(rng)
            count = 0
        if kind < 3:
            terms = rng.choice(self.rank, count, replace=False)
        elif kind == 3:
            u, v, w = (np.linalg.norm(part, axis=0) for part in fit.factors())
            terms = np.argsort(-u * v * w * np.exp(0.3 * rng.standard_normal(self.rank)))[:count]
        else:
            missed = np.abs(fit.residual())
            worst = np.argsort(-missed, axis=None)[: max(1, round(float((missed**2).sum())))]
            place = np.unravel_index(rng.choice(worst), missed.shape)
            u, v, w = (np.abs(part[row]) for part, row in zip(fit.factors(), place, strict=True))
            terms = np.argsort(-(u * v + v * w + w * u))[:count]
        if symmetry:
            terms = symmetry.orbits(terms)
        fit.x[:, terms] = SCALE * self._noise(rng)[:, terms]
        if rng.random() < HEATED:
            fit.relax(int(rng.choice((5, 10, 20, 40))), rng.choice(HEAT), rough=True)
        return fit


def _turned(
    factors: Sequence[np.ndarray], dims: Format, rng: np.random.Generator
) -> list[np.ndarray]:
    """A scheme in random orthogonal bases; factors (R, m, k), (R, k, n) and (R, m, n)."""
    p, q, s = (np.linalg.qr(rng.standard_normal((size, size)))[0] for size in dims)
    u, v, w = factors
    return [p @ u @ q.T, q @ v @ s.T, p @ w @ s.T]


def solved(fit: Fit) -> bool:
    """Remove the weight of |x|^2; return whether the equations then hold."""
    first, second = (fit.relax(80, weight, rough=True, stall=STALL / 2) for weight in (1e-3, 3e-4))
    if second > 0.3 * first or second > 0.02:  # entries diverge
        return False
    fit.damping = 1e-4
    fit.relax(40, 3e-5, rough=True)
    fit.damping = 1e-4
    fit.relax(15, 1e-6)
    return polished(fit) < SOLVED


def _cooled(fit: Fit, weights: Sequence[float]) -> float:
    error = np.inf
    for weight in weights:
        error = fit.relax(100, weight, rough=True, stall=STALL, goal=1e-3)
    return error
