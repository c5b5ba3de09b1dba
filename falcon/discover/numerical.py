"""Starts modulo 2 of a rank at which walks from sums find nothing: by way of the real numbers.

Hops find real schemes of that rank (`hops`, `reals`), these become rational (`rational`) and, with
a few terms more, schemes modulo 2 (`integral`), far from where walks from direct sums are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .hops import Hops, Start
from .integral import modulo2
from .masks import Format
from .rational import rational
from .reals import Fit

SOLUTIONS = 4  # real schemes kept
# Attempts in a row that lead from these to no start: others may be better. (Of two families of
# 3x3x6:42 one gave starts nearly always, the other kept quarters and thirds.)
FAILURES = 8
MOST_UNKNOWNS = 8_000  # the normal equations of an exact step then fill 512 MB


class Run:
    """A numerical search in steps of some seconds; `state` holds it in a checkpoint.

    Parameters
    ----------
    dims : (m, k, n)
    rank : int
    known : sequence of callables
        Where hops may begin; see `Hops`.
    state : dict, optional
        A search to go on with.

    Attributes
    ----------
    starts : list of ndarray
        Masks of the schemes modulo 2 so far.

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
        state = state or {"hops": None, "solutions": [], "failures": 0, "starts": []}
        self._dims = dims
        self._hops = Hops(dims, rank, known, state["hops"])
        self._solutions = [np.array(x) for x in state["solutions"]]
        self._failures = int(state["failures"])
        self.starts = [np.array(x, np.uint64) for x in state["starts"]]

    @property
    def error(self) -> float:
        """The least sum of squares by which the Brent equations are missed, with a little slack."""
        return self._hops.best

    def step(self, rng: random.Random) -> None:
        """Make one hop, or one attempt to bring a real scheme over to a start modulo 2."""
        drawn = np.random.default_rng(rng.getrandbits(64))
        if self._solutions and rng.random() < 0.5:
            fit = Fit(self._dims, rng.choice(self._solutions))
            exact = rational(fit, drawn)
            start = None if exact is None else modulo2(exact, self._dims, drawn)
            if start is not None:
                self.starts.append(start)
            self._failures = 0 if start is not None else self._failures + 1
            if self._failures == FAILURES:
                self._hops.forget()
                self._solutions, self._failures = [], 0
            return
        solution = self._hops.step(drawn)
        if solution is not None:
            self._solutions = [*self._solutions, solution.x][-SOLUTIONS:]

    def state(self) -> dict[str, Any]:
        """What another `Run` needs to go on."""
        return {"hops": self._hops.state(), "solutions": list(self._solutions),
                "failures": self._failures, "starts": list(self.starts)}  # fmt: skip
