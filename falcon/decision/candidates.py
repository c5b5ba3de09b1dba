"""Which schemes are candidates: the stored ones in every permutation, and nested in Strassen's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf
from typing import NamedTuple

from falcon._core.formulas import Counts
from falcon._core.model import counts
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon.schemes import Scheme, get, names, symmetries
from falcon.schemes.catalogue import generation, is_for_additions
from falcon.schemes.metrics import one_sign_growth
from falcon.schemes.nesting import nested_additions

# The outer level of compositions, and how much the errors of one may grow.
_OUTER = "strassen"
_MOST_GROWTH = 8.0
# Schemes whose error on entries of one sign is more than so much of their growth do not compete:
# 8x2x4:52 (1.84) came to 1.9 times growth u sqrt(K) norm(a_i) norm(b_j) there, 4x2x5:33 (1.59) to
# 1.5, 3x2x3:15 (1.24) to 1.4; all others to 1.2 at most, where 1.5 is promised.
_MOST_ONE_SIGN = 1.2
# Sets of suited candidates kept, one per combination of small sizes, policy and max_growth.
_MOST_SETS = 1024


@dataclass(frozen=True, eq=False)
class SchemeCandidate:
    """A scheme that may be chosen, or two of them nested, which are composed when it is needed.

    Attributes
    ----------
    inner : Scheme
    outer : Scheme or None
    """

    inner: Scheme
    outer: Scheme | None = None

    @cached_property
    def scheme(self) -> Scheme:
        """The scheme that would run."""
        return self.inner if self.outer is None else self.outer @ self.inner

    @cached_property
    def counts(self) -> Counts:
        """What the cost model knows of it."""
        if self.outer is None:
            return counts(self.inner)
        x, y = self.outer, self.inner
        sums = nested_additions(x, y)
        return Counts(x.m * y.m, x.k * y.k, x.n * y.n, x.rank * y.rank, *sums)

    @cached_property
    def rms_growth(self) -> float:
        """Growth of errors, which multiplies from level to level."""
        return self.inner.rms_growth * (1.0 if self.outer is None else self.outer.rms_growth)

    @property
    def is_integral(self) -> bool:
        """Whether it may run on integers."""
        return self.inner.is_integral and (self.outer is None or self.outer.is_integral)

    @property
    def additions(self) -> float:
        """Additions per element of square operands and result."""
        x = self.counts
        return x.u / (x.m * x.k) + x.v / (x.k * x.n) + x.w / (x.m * x.n)


class Suited(NamedTuple):
    """The candidates that suit a problem, and what the model knows of each."""

    candidates: tuple[SchemeCandidate, ...]
    counts: tuple[Counts, ...]


@dataclass(frozen=True, eq=False)
class SchemeCandidates:
    """All candidates."""

    all: tuple[SchemeCandidate, ...]
    _suited: dict[tuple, Suited] = field(default_factory=dict, repr=False)

    def suited_to(self, problem: Problem, policy: Policy, max_growth: float = inf) -> Suited:
        """Whose blocks are large enough, coefficients suit the dtype, and errors grow little."""
        least, most = policy.smallest_block, policy.nested_block * self._most_parts
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

    @cached_property
    def _most_parts(self) -> int:
        parts = ((x.counts.m, x.counts.k, x.counts.n) for x in self.all)
        return int(max(map(max, parts), default=0))


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
    if x.outer is not None and not nested and x.inner.name != _OUTER:
        return False
    larger = 1 if x.outer is None else nested_block
    parts = (x.counts.m, x.counts.k, x.counts.n)
    fits = all(part * larger <= most for part, most in zip(parts, (m, k, n), strict=True))
    return fits and (x.is_integral if exact else x.rms_growth <= max_growth)


def _keeps_promise(x: Scheme) -> bool:
    """Whether entries of one sign, too, err by no more than `PROMISED` times the growth."""
    return one_sign_growth(x.U, x.V, x.W) <= _MOST_ONE_SIGN * x.rms_growth


def scheme_candidates() -> SchemeCandidates:
    """Return the candidates that there are at this moment."""
    return _candidates_of(generation())


@lru_cache(maxsize=1)
def _candidates_of(_generation: int) -> SchemeCandidates:
    """The stored schemes in every permutation, and within Strassen's what grows little enough.

    Not those that spend growth to save additions, which are too small a part of the time to pay.
    """
    # Of schemes that cost the same the first is kept: "strassen" rather than "2x2x2:7".
    order = sorted(names(), key=lambda name: (name[0].isdigit(), name))
    order = [name for name in order if not is_for_additions(name)]
    # Of images that cost the same, one is enough: the six of a cube, for one. How additions are
    # spread over the combines differs: the one with the fewest per element of A, B and C stays.
    unique: dict[tuple, SchemeCandidate] = {}
    for image in (image for name in order for image in symmetries(get(name))):
        x = SchemeCandidate(image)
        key = (image.format, image.rank, image.phi, image.is_integral)
        if x.additions < unique.setdefault(key, x).additions:
            unique[key] = x
    single = [x for x in unique.values() if not x.inner.is_classical and _keeps_promise(x.inner)]
    outer = get(_OUTER)
    nested = [SchemeCandidate(x.inner, outer) for x in single]
    return SchemeCandidates((*single, *(x for x in nested if x.rms_growth <= _MOST_GROWTH)))
