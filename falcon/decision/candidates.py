"""Which schemes are candidates: the stored ones in every permutation, and nested in Strassen's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import NamedTuple

from falcon._core.formulas import Counts
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon._tools.lazy import lazy
from falcon.schemes import Scheme, get, names
from falcon.schemes.algebra import symmetry
from falcon.schemes.catalogue import facts_of, generation, is_for_additions
from falcon.schemes.facts import Facts
from falcon.schemes.nesting import Size, nested_additions

# The outer scheme of compositions, and the largest growth of a composition.
_OUTER = "strassen"
_MOST_GROWTH = 8.0
# A scheme is no candidate if its error on entries of one sign is more than this times its growth:
# there 8x2x4:52 (1.84) reached 1.9 times growth u sqrt(K) norm(a_i) norm(b_j), 4x2x5:33 (1.59)
# 1.5, 3x2x3:15 (1.24) 1.4; all others at most 1.2, where 1.5 is promised.
_MOST_ONE_SIGN = 1.2
# Cached sets of suited candidates, one per combination of small sizes, policy and max_growth.
_MOST_SETS = 1024


@dataclass(frozen=True, eq=False)
class SchemeCandidate:
    """A stored scheme, alone or nested in Strassen's, that may be chosen; built when needed."""

    name: str  # of the stored or registered scheme
    facts: Facts  # size, cost and growth of the image that would run
    outer: SchemeCandidate | None = None

    @lazy
    def inner(self) -> Scheme:
        """The image of the stored scheme."""
        return symmetry(get(self.name), self.facts.image)

    @lazy
    def scheme(self) -> Scheme:
        """The scheme that would run."""
        return self.inner if self.outer is None else self.outer.scheme @ self.inner

    @property
    def is_made(self) -> bool:
        """Whether `scheme` has been built."""
        return "scheme" in self.__dict__

    @lazy
    def counts(self) -> Counts:
        """Format, rank and additions, for the cost model."""
        y = self.facts
        if self.outer is None:
            return Counts(y.m, y.k, y.n, y.rank, y.u, y.v, y.w)
        x = self.outer.facts
        sums = nested_additions(_sizes(x), _sizes(y))
        return Counts(x.m * y.m, x.k * y.k, x.n * y.n, x.rank * y.rank, *sums)

    @lazy
    def rms_growth(self) -> float:
        """Growth of errors: the product over the levels."""
        return self.facts.growth * (1.0 if self.outer is None else self.outer.rms_growth)

    @lazy
    def sum_growth(self) -> float:
        """Growth of sums of integers: the product over the levels."""
        return self.facts.sums * (1.0 if self.outer is None else self.outer.sum_growth)

    @property
    def is_integral(self) -> bool:
        """Whether it may run on integers."""
        return self.facts.is_integral and (self.outer is None or self.outer.is_integral)


def _sizes(x: Facts) -> tuple[Size, Size, Size]:
    """Inputs, outputs and additions of the three combines."""
    return (x.m * x.k, x.rank, x.u), (x.k * x.n, x.rank, x.v), (x.rank, x.m * x.n, x.w)


class Suited(NamedTuple):
    """The candidates that suit a problem, and their counts."""

    candidates: tuple[SchemeCandidate, ...]
    counts: tuple[Counts, ...]


@dataclass(frozen=True, eq=False)
class SchemeCandidates:
    """All candidates."""

    all: tuple[SchemeCandidate, ...]
    _suited: dict[tuple, Suited] = field(default_factory=dict, repr=False)

    def suited_to(self, problem: Problem, policy: Policy, max_growth: float = inf) -> Suited:
        """Return those whose blocks, coefficients and growth suit the problem and the limits."""
        least, most = policy.smallest_block, policy.nested_block * self._most_parts
        if problem.is_exact:  # nothing is rounded, but floats hold sums of few bits
            max_growth = problem.headroom or inf
        m, k, n = (min(size // least, most) for size in (problem.M, problem.K, problem.N))
        key = m, k, n, problem.is_exact, max_growth, policy.nested, policy.nested_block
        found = self._suited.get(key)
        if found is None:
            suited = tuple(x for x in self.all if _suits(x, *key))
            found = Suited(suited, tuple(x.counts for x in suited))
            if len(self._suited) >= _MOST_SETS:
                self._suited.clear()
            self._suited[key] = found
        return found

    @lazy
    def _most_parts(self) -> int:
        n_blocks = ((x.counts.m, x.counts.k, x.counts.n) for x in self.all)
        return int(max(map(max, n_blocks), default=0))


def _suits(
    x: SchemeCandidate,
    m: int,
    k: int,
    n: int,
    exact: bool,
    max_growth: float,
    nested: bool,
    nested_block: int,
) -> bool:
    if x.outer is not None and not nested and x.name != _OUTER:
        return False
    larger = 1 if x.outer is None else nested_block
    n_blocks = (x.counts.m, x.counts.k, x.counts.n)
    if not all(part * larger <= most for part, most in zip(n_blocks, (m, k, n), strict=True)):
        return False
    growth = x.sum_growth if exact else x.rms_growth
    return growth <= max_growth and (x.is_integral or not exact)


def _competes(x: Facts) -> bool:
    """Whether it saves products, and its error on entries of one sign is small enough."""
    return x.rank < x.m * x.k * x.n and x.one_sign <= _MOST_ONE_SIGN * x.growth


def scheme_candidates() -> SchemeCandidates:
    """Return the candidates, with all schemes that are registered now."""
    return _candidates_of(generation())


@lru_cache(maxsize=1)
def _candidates_of(_generation: int) -> SchemeCandidates:
    """Return the schemes in every permutation, and those nested in Strassen's of little growth.

    Left out are schemes that save additions by more growth: additions take too little of the time.
    """
    # Of schemes that cost the same the first is kept: "strassen" rather than "2x2x2:7".
    order = sorted(names(), key=lambda name: (name[0].isdigit(), name))
    order = [name for name in order if not is_for_additions(name)]
    # One of several images of equal cost is enough (a cubic format has six). They distribute the
    # additions over the combines differently: keep the one with the fewest per element.
    unique: dict[tuple, SchemeCandidate] = {}
    for name in order:
        for x in facts_of(name):
            key = (x.m, x.k, x.n, x.rank, x.phi, x.is_integral)
            if key not in unique or x.additions < unique[key].facts.additions:
                unique[key] = SchemeCandidate(name, x)
    single = [x for x in unique.values() if _competes(x.facts)]
    outer = SchemeCandidate(_OUTER, facts_of(_OUTER)[0])
    nested = [SchemeCandidate(x.name, x.facts, outer) for x in single]
    return SchemeCandidates((*single, *(x for x in nested if x.rms_growth <= _MOST_GROWTH)))
