"""One worker's search for schemes of low rank: pools of schemes per rank, walks, moves, lifting.

The result of a worker depends on its format, starts, seed and number only: it shares nothing with
other workers, so a run can be repeated. There are two pools, over {-1, 0, 1} and modulo 2; a scheme
modulo 2 counts once it has been lifted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .numerical import starts as numerical
from .walk import families, lifting, sums, symmetric
from .walk._core import Walker, violations
from .walk.masks import Format, Start, ascending

# Flips of one walk from a scheme of the pool. Walks of 5 million flips found most of the finds;
# longer ones stay far from low ranks.
WALK = 5_000_000
# Share of walks that begin at a start, not at a scheme of the pool: if the classical algorithm is
# the only start, and otherwise. Sums and projections of known schemes differ from draw to draw, and
# most of the ranks reached from them were reached within 3 million flips.
FRESH = (0.1, 0.5)
POOL = 40  # schemes kept per rank
# Flips without gain before a plus-transition: no one value is best for all formats.
PLUS_AFTER = (5_000, 20_000, 50_000, 200_000)

# Moves of the annealing on non-zeros before a lift: 40 ms. Of eight <2,4,7;45> modulo 2 from a
# walk, with some 690 non-zeros, none lifts; one does after annealing has left 374.
THIN = 1_000_000

# Of the schemes of the lowest rank modulo 2 that do not lift, every APART-th is lifted with
# coefficients 2 (some tenths of a second), at most MOST_APART times; up to WALKS_BACK walks over
# {-1, 0, 1} then remove the extra terms: <3,3,8;56> with one 2 had 57 terms, and 56 after 16 walks.
APART, MOST_APART, WALKS_BACK = 5, 10, 40
PLUS_AFTER_BACK = (2_000, 5_000, 20_000, 50_000)

REAL_STEPS = 20  # numerical steps of one search for a start
FAMILY_STEPS = 5  # walks over families before one of them is a start
WALKS_PER_START = 20  # after each start that a numerical search has found

Pool = dict[int, list[np.ndarray]]


class Find(NamedTuple):
    """A scheme to be written to a file."""

    terms: np.ndarray
    # The objective at which it is the best of its rank; empty for a new rank.
    objective: str = ""
    programs: sums.Programs | None = None


class Worker:
    """A resumable search.

    Parameters
    ----------
    dims : (m, k, n)
    starts : sequence of callables
        ``start(rng, mod2)`` returns the masks of a scheme of the format.
    seed, number : int
        The run's seed and this worker's number.
    rings : str
        "ternary", "mod2", "both"; "symmetric": symmetric walks modulo 2 alone; "families": modulo
        2, evenly over many families of this format and those near it; or "reals": modulo 2, from
        real schemes of the rank wanted, for which `starts` are starts of hops.
    rank : int, optional
        The rank wanted, if any: decides how symmetric walks begin.
    near : dict, optional
        For "families": starts by format (`families.near`), instead of `starts`.

    Raises
    ------
    ValueError
        Symmetric walks of a format that is no cube; families without `near`; or reals without a
        rank or with too many unknowns.
    """

    def __init__(
        self,
        dims: Format,
        starts: Sequence[Start],
        seed: int,
        number: int,
        rings: str = "both",
        rank: int | None = None,
        near: Mapping[Format, Sequence[Start]] | None = None,
    ) -> None:
        self.dims = dims
        self.flips = 0
        self.rng = random.Random(f"{seed}/{number}")
        self.pools: tuple[Pool, Pool] = ({}, {})  # ternary, modulo 2
        # The state after the last whole step: what a checkpoint may hold at any time.
        self.saved: dict[str, Any] | None = None
        self._starts = starts if rings != "reals" else []
        # Not the classical algorithm, the first start: no real scheme of low rank is near it.
        self._known = starts[1:] if rings == "reals" else []
        self._fresh = FRESH[len(starts) > 1]
        self.rings = rings
        self._rank = rank
        cube = dims[0] == dims[1] == dims[2]
        self._blends = cube and rings != "reals"  # some walks modulo 2 are symmetric
        self._symmetric: symmetric.Run | None = None  # a symmetric walk under way
        self._near = near or {}
        if rings == "families" and ascending(dims) not in self._near:
            raise ValueError("a search over families needs starts of its format, in `near`")
        self._families = families.Run(dims, self._near) if rings == "families" else None
        self._refused: dict[int, int] = {}  # schemes modulo 2 that did not lift, by rank
        self._numerical: numerical.Run | None = None
        self._owed = 0  # walks before the numerical search goes on
        if rings == "symmetric" and not cube:
            raise ValueError(f"format {dims}: symmetric walks need three equal dimensions")
        if rings == "reals":
            if rank is None:
                raise ValueError("a search over the real numbers needs a rank")
            self._numerical = numerical.Run(dims, rank, self._known)
            self._fresh = FRESH[True]

    @property
    def best(self) -> int:
        """Lowest rank of a scheme over the integers so far."""
        return min(self.pools[0], default=self.dims[0] * self.dims[1] * self.dims[2] + 1)

    @property
    def best_mod2(self) -> int | None:
        """Lowest rank modulo 2 so far."""
        return min(self.pools[1], default=None)

    def found(self, rank: int) -> list[np.ndarray]:
        """Schemes of a rank over the integers that the pool holds."""
        return self.pools[0].get(rank, [])

    @property
    def standing(self) -> tuple[int, ...]:
        """Sort key of workers, best first."""
        return (self.best,)

    def describe(self) -> str:
        """The state of the search, for `Progress`."""
        best = self.best if self.pools[0] else "-"
        reached = f"rank {best}, modulo 2 at {self.best_mod2 or '-'}"
        if self._numerical:
            starts = len(self._numerical.starts)
            reached += f", reals: least error {self._numerical.error:.2g}, {starts} starts"
        if self._families:
            reached += f" in {self._families.count} families"
        return reached

    def step(self) -> list[Find]:
        """Make one walk (a fraction of a second); return schemes of a rank not seen before."""
        before = self.best
        rng = self.rng
        mod2 = self.rings in ("mod2", "reals") or (self.rings == "both" and rng.random() < 0.5)
        if self._numerical and not self._owed:
            if self._numerical.step(rng):
                self._starts = [_fixed(terms) for terms in self._numerical.starts]
                self._owed = WALKS_PER_START
        elif self._families:
            flips, found = self._families.step(rng)
            self.flips += flips
            for terms in found:
                self._keep(True, terms)
        elif self.rings == "symmetric" or (self._blends and mod2 and rng.random() < 0.6):
            self._symmetric_walk()
        else:
            self._walk(mod2)
            self._owed = max(0, self._owed - 1)
        self.saved = self.state()
        ranks = [rank for rank in sorted(self.pools[0], reverse=True) if rank < before]
        return [Find(self.pools[0][rank][0]) for rank in ranks]

    # --- walks ------------------------------------------------------------------------------

    def _walk(self, mod2: bool) -> None:
        rng = self.rng
        pool = self.pools[mod2]
        fresh = not pool or rng.random() < self._fresh
        terms = rng.choice(self._starts)(rng, mod2) if fresh else self._draw(pool)
        if mod2 and not fresh and rng.random() < 0.1 and self.pools[0]:
            terms = self._draw(self.pools[0])
        walker = Walker(self.dims, terms, rng.getrandbits(64), mod2=mod2)
        if fresh:
            self._keep(mod2, walker.terms)
        plus_after, margin = rng.choice(PLUS_AFTER), rng.choice((1, 2, 2, 3))
        while True:
            done = walker.flips
            rank = walker.rank
            fell = walker.walk(WALK, plus_after=plus_after, margin=margin)
            self.flips += walker.flips - done
            if fell or walker.rank == rank:
                self._keep(mod2, walker.terms)
            if not fell:
                return

    def elsewhere(self, _rng: random.Random, _mod2: bool) -> np.ndarray:
        """A scheme modulo 2 of another family, through the reals or from walks over families.

        Its rank is the one wanted or lower, or a little higher through the reals (at most one real
        scheme is converted, in 1 to 10 s). A scheme of no terms if none has been found.

        Raises
        ------
        ValueError
            The search is over other rings.
        """
        if self._families:
            for _ in range(FAMILY_STEPS):
                flips, found = self._families.step(self.rng)
                self.flips += flips
                lower = [terms for terms in found if len(terms) < (self._rank or 0)]
                if lower:
                    return lower[-1]
            return self._families.scheme(self._rank or 0, self.rng)
        if self._numerical is None:
            raise ValueError(f'rings {self.rings!r}: other families need "reals" or "families"')
        for _ in range(REAL_STEPS):
            made = self._numerical.step(self.rng)
            if made:
                return self._numerical.starts[-1]
            if made is not None:
                break
        return families.NONE

    def _symmetric_walk(self) -> None:
        if self._symmetric is None or self._symmetric.over:
            self._symmetric = symmetric.Run(self.dims[0], self.rng, self._rank)
        flips, found = self._symmetric.step(min(WALK, self._symmetric.patience), self.rng)
        self.flips += flips
        for terms in found:
            if len(terms) <= (self.best_mod2 or len(terms)):
                self._keep(True, terms)

    def _draw(self, pool: Pool) -> np.ndarray:
        """A scheme of the pool, of the lowest ranks most often."""
        ranks = sorted(pool)
        level = 0
        while level + 1 < len(ranks) and self.rng.random() < 0.35:
            level += 1
        return self.rng.choice(pool[ranks[level]])

    def _keep(self, mod2: bool, terms: np.ndarray) -> None:
        """Put a scheme into its pool, and if it can be lifted into that over the integers."""
        held = self.pools[mod2].setdefault(len(terms), [])
        if len(held) < POOL:
            held.append(terms)
        else:
            held[self.rng.randrange(POOL)] = terms
        # Lifting costs milliseconds; below the best rank every scheme is worth them.
        if mod2 and (len(terms) < self.best or (len(terms) == self.best and self._rare())):
            self._lift(terms)

    def _lift(self, terms: np.ndarray) -> None:
        """Lift a scheme modulo 2, made sparse first: walks leave dense ones, which seldom lift."""
        walker = Walker(self.dims, terms, self.rng.getrandbits(64), mod2=True)
        cost, sparse = walker.anneal(THIN)
        if cost < 0:  # the rank has fallen
            self._keep(True, sparse)
            return
        for some in (sparse, terms):
            lifted = lifting.lift(some, self.dims, self.rng)
            if len(lifted):
                self._keep(False, lifted)
                return
        rank = len(terms)
        if rank < self.best and rank == self.best_mod2 and self.rings != "symmetric":
            self._refused[rank] = self._refused.get(rank, 0) + 1
            if self._refused[rank] % APART == 0 and self._refused[rank] <= APART * MOST_APART:
                self._lift_apart(sparse)

    def _lift_apart(self, terms: np.ndarray) -> None:
        """Lift a scheme modulo 2 with a few extra terms, and remove these by walks."""
        rng = self.rng
        lifted = lifting.lift_apart(terms, self.dims, rng)
        for _ in range(WALKS_BACK if len(lifted) else 0):
            if len(lifted) <= len(terms):
                break
            walker = Walker(self.dims, lifted, rng.getrandbits(64))
            before = walker.rank
            walker.walk(
                WALK // 2, plus_after=rng.choice(PLUS_AFTER_BACK), margin=rng.choice((1, 2))
            )
            self.flips += walker.flips
            if walker.rank <= before:
                lifted = walker.terms
        if 0 < len(lifted) < self.best:
            self._keep(False, lifted)

    def _rare(self) -> bool:
        return self.rng.random() < 0.05

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs; arrays stand for lists of numbers in JSON."""
        pools = [
            {str(rank): list(held) for rank, held in sorted(pool.items())[:3]}
            for pool in self.pools
        ]
        walk = self._symmetric.state() if self._symmetric else None
        return {"flips": self.flips, "random": self.rng.getstate(), "pools": pools,
                "symmetric": walk, "refused": sorted(self._refused.items()),
                "owed": self._owed, "families": self._families and self._families.state(),
                "numerical": self._numerical and self._numerical.state()}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint.

        Raises
        ------
        ValueError
            A stored scheme violates a Brent equation.
        """
        version, internal, gauss = state["random"]
        self.rng.setstate((version, tuple(internal), gauss))
        self.flips = state["flips"]
        self._refused = dict(state["refused"])
        self._owed = state["owed"]
        walk = state["symmetric"]
        self._symmetric = symmetric.Run(self.dims[0], self.rng, state=walk) if walk else None
        if state.get("families"):
            self._families = families.Run(self.dims, self._near, state["families"])
        if state.get("numerical"):
            self._numerical = numerical.Run(
                self.dims, self._rank or 0, self._known, state["numerical"]
            )
            self._starts = [_fixed(terms) for terms in self._numerical.starts]
        for mod2, pool in enumerate(state["pools"]):
            for rank, held in pool.items():
                schemes = [np.array(x, np.uint64) for x in held]
                for terms in schemes:
                    wrong = violations(self.dims, terms, mod2=bool(mod2))
                    if len(terms) != int(rank) or wrong:
                        raise ValueError(
                            f"the checkpoint holds a scheme of rank {rank} that violates {wrong} "
                            "Brent equations"
                        )
                self.pools[mod2][int(rank)] = schemes


def _fixed(terms: np.ndarray) -> Start:
    """A start that is always the same scheme modulo 2."""
    return lambda _rng, _mod2: terms
