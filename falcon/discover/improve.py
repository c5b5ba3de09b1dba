"""Walks at fixed rank towards fewer non-zeros, less error growth or fewer additions.

One worker keeps a population of schemes of one rank. Most steps take one of them, sometimes leave
its family first (by a random walk, or by a hop: a few extra terms, removed again by a sparse walk),
anneal it (flips and changes of basis, accepted by the Metropolis rule on non-zeros or on Phi) and
keep the result if it is among the best. Other steps look for new families, by walking down to this
rank from a sum or a projection of known schemes, through the real numbers, or from walks over
families: annealing reaches the same minimum within a family, and the minima of two families may
differ by half. If additions are the objective, most steps are walks on additions (`additions`). An
archive holds the Pareto front over non-zeros, additions and Phi.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .walk import additions, lifting, masks, sums
from .walk._core import Walker, violations
from .walk.masks import Format, Start
from .worker import THIN, Find, Worker

OBJECTIVES = ("nnz", "growth", "additions")
POPULATION = 24
MOVES = (200_000, 1_000_000, 4_000_000)
# Temperatures (hot, cold) per objective, each scaled at random by up to a factor of two: measured
# to reach the same floor within a family of schemes from most seeds.
TEMPERATURES = {"nnz": (1.6, 0.25), "growth": (10.0, 1.2), "additions": (1.6, 0.25)}
# Flips of a walk out of the family of a scheme, and of those without gain before a term is added.
LEAVE_FLIPS = (300_000, 1_000_000, 3_000_000)
LEAVE_PLUS_AFTER = (2_000, 10_000, 50_000)
# A hop: flips, each followed by a plus-transition, and the most terms that these add; then an
# annealing at constant temperature that removes them, in up to HOP_TRIES runs of HOP_MOVES moves.
HOP_FLIPS, HOP_TERMS = (3, 10, 30, 100), (1, 1, 2, 2, 3)
HOP_TEMPERATURES = {
    "nnz": (0.5, 0.7, 0.9, 1.2),
    "growth": (4.0, 6.0, 9.0, 13.0),
    "additions": (0.5, 0.7, 0.9, 1.2),
}
HOP_MOVES, HOP_TRIES = 100_000, 30
# Moves after a hop, and their hottest temperatures as shares of the usual one.
NEAR_MOVES, NEAR_HEATS = (200_000, 500_000), (0.3, 0.6, 1.0)
# Moves of a walk on additions, and its hottest temperatures as shares of the usual one.
WALK_MOVES, WALK_HEATS = 1_000, (0.3, 0.6, 1.0)
ELSEWHERE = 0.6  # share of the steps that come from the reals or from walks over families
# A walk down: flips without gain before it is given up, and before a plus-transition.
DESCENT = 2_000_000
DESCENT_PLUS_AFTER = (5_000, 20_000, 50_000)
# A scheme from a walk down is annealed for TRIAL moves, and longer if its cost is then below NEAR
# times the best.
TRIAL, NEAR = 600_000, 1.15
QUICK_ROUNDS, ROUNDS = 40, 1500


@dataclass(frozen=True)
class Entry:
    """A scheme and what it costs."""

    terms: np.ndarray
    nnz: int
    additions: int
    phi: int
    programs: sums.Programs

    @property
    def costs(self) -> tuple[int, int, int]:
        """The three costs of the Pareto front."""
        return self.nnz, self.additions, self.phi

    def key(self, objective: str) -> tuple[int, int, int]:
        """Order by one objective, ties by the others."""
        nnz, additions, phi = self.costs
        return {
            "nnz": (nnz, additions, phi),
            "growth": (phi, additions, nnz),
            "additions": (additions, nnz, phi),
        }[objective]


class Improver:
    """One worker's improvement of schemes of one format and rank.

    Parameters
    ----------
    dims : (m, k, n)
    schemes : sequence of ndarray of uint64, shape (R, 3, 2)
        Starts, all of one rank; may be empty if there are `sources`.
    search : Worker
        Finds further schemes of this rank: annealing reaches the same minimum from all schemes
        that flips connect, so more starts help more than longer runs.
    objective : {"nnz", "growth", "additions"}
    seed, number : int
        The run's seed and this worker's number.
    fresh : sequence of ndarray of uint64, shape (R, 3, 2)
        Further starts that are in no file, such as direct sums: those better than `schemes` are
        finds of the first step.
    sources : sequence of callables
        ``start(rng, mod2)`` returns a scheme of a higher rank to walk down from. Not used if
        `search` goes through the reals or over families, which are then the source.
    rank : int, optional
        The rank wanted, if there are no schemes of it yet.
    """

    def __init__(
        self,
        dims: Format,
        schemes: list[np.ndarray],
        search: Worker,
        objective: str,
        seed: int,
        number: int,
        fresh: Sequence[np.ndarray] = (),
        sources: Sequence[Start] = (),
        rank: int | None = None,
    ) -> None:
        if objective not in OBJECTIVES:
            raise ValueError(f"objective {objective!r}; expected one of {', '.join(OBJECTIVES)}")
        self.dims = dims
        self.objective = objective
        self.rng = random.Random(f"{objective}/{seed}/{number}")
        self.rank = rank or len([*schemes, *fresh][0])
        self.moves = 0
        self.front: list[Entry] = []
        self.saved: dict[str, Any] | None = None
        self._lower: list[np.ndarray] = []  # schemes of lower rank, met by chance
        self._starts = [*schemes, *fresh]
        self._search = search
        self._elsewhere = search.rings in ("reals", "families")
        self._sources = [search.elsewhere] if self._elsewhere else sources
        # Walks down from each source, and those of them that reached the rank and were lifted.
        self._descents = [[0, 0] for _ in self._sources]
        self._population: list[tuple[int, np.ndarray]] = []
        self._written: dict[str, tuple[int, ...]] = {}  # keys of what is in a file, by objective
        for terms in schemes:
            self._judge(terms)
        if self.front:
            self._written = {name: self._first(name).key(name) for name in OBJECTIVES}
        for terms in fresh:
            self._judge(terms)

    @property
    def best(self) -> Entry:
        """The best scheme by this worker's objective."""
        return min(self.front, key=lambda entry: entry.key(self.objective))

    @property
    def flips(self) -> int:
        """Moves so far, those of the search for further starts included."""
        return self.moves + self._search.flips

    @property
    def standing(self) -> tuple[int, ...]:
        """Sort key of workers, best first."""
        return self.best.key(self.objective) if self.front else (2**62,)

    def describe(self) -> str:
        """The state of the search, for `Progress`."""
        if not self.front:
            return f"rank {self.rank}, none yet"
        nnz, additions, phi = self.best.costs
        return f"rank {self.rank}, nnz {nnz}, additions {additions}, phi {phi}"

    def step(self) -> list[Find]:
        """Make one step (about a second); return what is new on the front."""
        draw = self.rng.random()
        if draw < (0.1 if self._sources else 0.2) and not self._elsewhere:
            self._search.step()
            self._lower += [x for r in range(1, self.rank) for x in self._search.found(r)[:1]]
        elif self._sources and (draw < self._descending or not self.front):
            self._descend()
        elif not self.front:
            pass
        elif self.objective == "additions" and draw < 0.8:
            some = [self.best.terms, *(terms for _, terms in self._population)]
            self._economise(self.rng.choice(some))
        else:
            self._anneal()
        finds = [Find(terms) for terms in self._lower]
        self._lower = []
        for name in OBJECTIVES if self.front else ():
            entry = self._first(name)
            key = entry.key(name)
            if name not in self._written or key < self._written[name]:
                self._written[name] = key
                finds.append(Find(entry.terms, name, entry.programs))
        self.saved = self.state()
        return finds

    @property
    def _descending(self) -> float:
        """Share of the steps that walk down from sources: lower if few reach the rank."""
        if self._elsewhere:
            return ELSEWHERE
        if self.objective == "additions":
            return 0.2
        tries, hits = (sum(counts) for counts in zip(*self._descents, strict=True))
        return 0.2 + 0.3 * min(1, (hits + 4) / (tries / 10 + 4))

    def _first(self, objective: str) -> Entry:
        return min(self.front, key=lambda entry: entry.key(objective))

    def _anneal(self) -> None:
        rng = self.rng
        terms, draw = self._draw(), rng.random()
        if draw < 0.5:
            terms = self._hopped(terms, mod2=rng.random() < 0.6)
            terms = self._annealed(terms, rng.choice(NEAR_MOVES), rng.choice(NEAR_HEATS))
        else:
            if draw < 0.8:
                terms = self._left(terms, mod2=rng.random() < 0.7)
            terms = self._annealed(terms, rng.choice(MOVES), 2 ** rng.uniform(-1, 1))
        self._settle(terms)

    def _annealed(self, terms: np.ndarray, moves: int, scale: float) -> np.ndarray:
        """Anneal; return the best scheme met, or one of a lower rank."""
        hot, cold = TEMPERATURES[self.objective]
        phi = self.objective == "growth"
        walker = Walker(self.dims, terms, self.rng.getrandbits(64))
        cost, terms = walker.anneal(moves, phi=phi, hot=hot * scale, cold=cold * min(scale, 1))
        self.moves += moves
        if cost < 0:
            self._lower.append(terms)
        return terms

    def _descend(self) -> None:
        """Walk down from a source, preferably one that has often led to the rank."""
        rng = self.rng
        chances = [(hits + 1) / (tries + 4) for tries, hits in self._descents]
        (number,) = rng.choices(range(len(chances)), chances)
        counts = self._descents[number]
        counts[0] += 1
        rings = self._search.rings
        mod2 = rng.random() < 0.8 if rings == "both" else rings != "ternary"
        terms = self._sources[number](rng, mod2)
        if not len(terms):
            return
        walker = Walker(self.dims, terms, rng.getrandbits(64), mod2=mod2)
        plus_after, margin = rng.choice(DESCENT_PLUS_AFTER), rng.choice((1, 2))
        while walker.rank > self.rank:
            if not walker.walk(DESCENT, plus_after=plus_after, margin=margin):
                break
        self.moves += walker.flips
        if walker.rank > self.rank:
            return
        terms = self._lifted(walker.terms) if mod2 else walker.terms
        if 0 < len(terms) < self.rank:
            self._lower.append(terms)
        if len(terms) != self.rank:
            return
        counts[1] += 1
        terms = self._annealed(terms, TRIAL, 1.0)
        if len(terms) != self.rank:
            return
        if not self.front or self._cost(terms) < NEAR * self._cost(self.best.terms):
            for moves in MOVES:
                again = self._annealed(terms, moves, 2 ** rng.uniform(-1, 1))
                if len(again) == self.rank and self._cost(again) < self._cost(terms):
                    terms = again
            self._settle(terms)

    def _cost(self, terms: np.ndarray) -> int:
        """The cost that annealing lowers: Phi, or non-zeros (for additions too)."""
        return masks.phi(terms) if self.objective == "growth" else masks.nnz(terms)

    def _lifted(self, terms: np.ndarray) -> np.ndarray:
        """Make a scheme modulo 2 sparse and lift it; empty if it does not lift."""
        walker = Walker(self.dims, terms, self.rng.getrandbits(64), mod2=True)
        _, sparse = walker.anneal(THIN)
        found = lifting.lift(sparse, self.dims, self.rng)
        return found if len(found) else lifting.lift(terms, self.dims, self.rng)

    def _draw(self) -> np.ndarray:
        draw = self.rng.random()
        fresh = self._search.found(self.rank)
        if fresh and draw < 0.3:
            return self.rng.choice(fresh)
        if self._starts and (draw < 0.4 or not self._population):
            return self.rng.choice(self._starts)
        return self.rng.choice(self._population)[1]

    def _left(self, terms: np.ndarray, mod2: bool) -> np.ndarray:
        """Leave the family of a scheme: plus-transitions, then down to the rank again.

        Modulo 2 no flip is refused, so more families can be reached. Returns `terms` if the walk
        does not reach the rank again or its scheme cannot be lifted.
        """
        rng = self.rng
        walker = Walker(self.dims, terms, rng.getrandbits(64), mod2=mod2)
        flips, plus_after = rng.choice(LEAVE_FLIPS), rng.choice(LEAVE_PLUS_AFTER)
        walker.walk(flips, plus_after=plus_after, margin=rng.choice((1, 2)))
        for _ in range(20):
            if walker.rank <= self.rank:
                break
            walker.walk(500_000, plus_after=10**12, margin=0)
        return self._returned(walker, terms, mod2)

    def _hopped(self, terms: np.ndarray, mod2: bool) -> np.ndarray:
        """Hop to a family nearby: add a few terms, remove them by a walk that stays sparse."""
        rng = self.rng
        walker = Walker(self.dims, terms, rng.getrandbits(64), mod2=mod2)
        walker.walk(rng.choice(HOP_FLIPS), plus_after=1, margin=rng.choice(HOP_TERMS))
        temperature = rng.choice(HOP_TEMPERATURES[self.objective])
        phi = self.objective == "growth"
        for _ in range(HOP_TRIES):
            if walker.rank <= self.rank:
                break
            walker.anneal(HOP_MOVES, phi=phi, hot=temperature, cold=temperature)
            self.moves += HOP_MOVES
        return self._returned(walker, terms, mod2)

    def _returned(self, walker: Walker, terms: np.ndarray, mod2: bool) -> np.ndarray:
        """The end of a walk, lifted if `mod2`; its start `terms` if it is above the rank."""
        if walker.rank > self.rank:
            return terms
        found = walker.terms
        if mod2:
            found = self._lifted(found)
        if 0 < len(found) < self.rank:
            self._lower.append(found)
        return found if len(found) == self.rank else terms

    def _economise(self, terms: np.ndarray) -> None:
        """Walk on additions, and judge the result."""
        hot = additions.HOT * self.rng.choice(WALK_HEATS)
        terms = additions.walk(terms, self.dims, WALK_MOVES, self.rng, hot=hot)
        self.moves += WALK_MOVES
        if len(terms) == self.rank:
            self._judge(terms)
        else:
            self._lower.append(terms)

    def _settle(self, terms: np.ndarray) -> None:
        """Judge a scheme; if additions are the objective, walk on these from it too."""
        if len(terms) == self.rank:
            self._judge(terms)
            if self.objective == "additions":
                self._economise(terms)

    def _judge(self, terms: np.ndarray, programs: sums.Programs | None = None) -> None:
        """Put a scheme into the population and, if no other dominates it, into the archive."""
        nnz, phi = masks.nnz(terms), masks.phi(terms)
        rounds = QUICK_ROUNDS if self.front else ROUNDS
        additions, programs = sums.reduce(terms, self.dims, rounds, self.rng, programs)
        if self.front and additions <= self.best.additions * 1.03:
            additions, programs = sums.reduce(terms, self.dims, ROUNDS, self.rng, programs)
        entry = Entry(terms, nnz, additions, phi, programs)
        cost = entry.key(self.objective)[0]
        held = self._population
        if len(held) < POPULATION:
            held.append((cost, terms))
        else:
            worst = max(range(len(held)), key=lambda x: held[x][0])
            if cost <= held[worst][0]:
                held[worst] = (cost, terms)
        if not any(all(x <= y for x, y in zip(e.costs, entry.costs, strict=True))
                   for e in self.front):  # fmt: skip
            self.front = [
                e for e in self.front
                if not all(x <= y for x, y in zip(entry.costs, e.costs, strict=True))
            ]  # fmt: skip
            self.front.append(entry)

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs; arrays stand for lists of numbers in JSON."""
        return {
            "moves": self.moves,
            "random": self.rng.getstate(),
            "front": [(entry.terms, entry.programs) for entry in self.front],
            "population": [terms for _, terms in self._population],
            "written": self._written,
            "descents": self._descents,
            "search": self._search.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint.

        Raises
        ------
        ValueError
            A stored scheme violates a Brent equation.
        """
        self._search.restore(state["search"])
        self.front, self._population = [], []
        for stored, programs in state["front"] + [(x, None) for x in state["population"]]:
            terms = np.array(stored, np.uint64)
            if len(terms) != self.rank or violations(self.dims, terms):
                raise ValueError(f"the checkpoint holds what is no scheme of rank {self.rank}")
            self._judge(terms, programs)
        version, internal, gauss = state["random"]
        self.rng.setstate((version, tuple(internal), gauss))
        self.moves = state["moves"]
        self._descents = [list(counts) for counts in state["descents"]]
        self._written = {name: tuple(key) for name, key in state["written"].items()}
