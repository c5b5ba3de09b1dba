"""Starts modulo 2 through the real numbers, for ranks that walks from direct sums do not reach.

Hops find real schemes of the rank (`hops`, `reals`); these are made rational (`rational`) and then,
with a few extra terms, schemes modulo 2 (`integral`). They are far from the schemes that walks from
direct sums reach.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..walk.masks import Format, Start
from .hops import Hops
from .integral import modulo2
from .rational import rational
from .reals import Fit

SOLUTIONS = 4  # real schemes kept
# Attempts to convert these before the hops start again, maybe towards another family. (One family
# of 3x3x6:42 has ternary members; two that are found as often seem to need halves.)
ATTEMPTS = 4
STARTS = 8  # schemes modulo 2 kept
MOST_UNKNOWNS = 8_000  # with more, a minimum takes seconds


class Run:
    """A numerical search; `state` holds it in a checkpoint.

    A step takes from some 0.01 s (a hop) to some 10 s (a conversion).

    Parameters
    ----------
    dims : (m, k, n)
    rank : int
    known : sequence of callables
        Starts of hops; see `Hops`.
    state : dict, optional
        A search to go on with.

    Attributes
    ----------
    starts : list of ndarray
        Masks of the last schemes modulo 2.

    Raises
    ------
    ValueError
        The problem is too large.
    """

    def __init__(
        self,
        dims: Format,
        rank: int,
        known: Sequence[Start] = (),
        state: dict[str, Any] | None = None,
    ) -> None:
        m, k, n = dims
        unknowns = rank * (m * k + k * n + m * n)
        if unknowns > MOST_UNKNOWNS:
            raise ValueError(
                f"format {m}x{k}x{n} has {unknowns} unknown coefficients at rank {rank}; a search "
                f"over the real numbers takes at most {MOST_UNKNOWNS}"
            )
        state = state or {"hops": None, "solutions": [], "attempts": 0, "starts": []}
        self._dims = dims
        self._hops = Hops(dims, rank, known, state["hops"])
        self._solutions = [np.array(x) for x in state["solutions"]]
        self._attempts = int(state["attempts"])
        self.starts = [np.array(x, np.uint64) for x in state["starts"]]

    @property
    def error(self) -> float:
        """The least error of a minimum so far; see `Hops.minima`."""
        return self._hops.best

    def step(self, rng: random.Random) -> bool | None:
        """Hop and return None, or convert a real scheme and return whether that made a start."""
        drawn = np.random.default_rng(rng.getrandbits(64))
        if self._solutions and rng.random() < 0.5:
            return self._convert(Fit(self._dims, rng.choice(self._solutions)), drawn)
        solution = self._hops.step(drawn)
        if solution is not None:
            self._solutions = [*self._solutions, solution.x][-SOLUTIONS:]
        return None

    def _convert(self, fit: Fit, rng: np.random.Generator) -> bool:
        exact = rational(fit, rng)
        start = None if exact is None else modulo2(exact, self._dims, rng)
        if start is not None:
            self.starts = [*self.starts, start][-STARTS:]
        self._attempts += 1
        if self._attempts == ATTEMPTS:
            self._hops.forget()
            self._solutions, self._attempts = [], 0
        return start is not None

    def state(self) -> dict[str, Any]:
        """What another `Run` needs to go on."""
        return {"hops": self._hops.state(), "solutions": list(self._solutions),
                "attempts": self._attempts, "starts": list(self.starts)}  # fmt: skip
