"""Interleaved timings: the only way in which falcon compares speeds, and how well a ratio is known.

The speed of a machine drifts, so times are compared only with their neighbours: in every round each
side is timed once, in an order that rotates, and what counts is the median over the rounds of the
ratio of two sides. Rounds are added until every ratio is known to `TOLERANCE`, or until a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import comb, exp, log, sqrt
from statistics import median
from typing import Any

# Threads of OpenBLAS and OpenMP spin for about 0.1 s after a call and would take the cores from the
# next side: without a rest the same code ran at 0.4 to 0.9 of its speed.
REST_SECONDS = 0.15
# How well the median of the ratios must be known, and from how many pairs at least.
TOLERANCE = 0.02
LEAST_PAIRS = 5
# Rounds that may be made where the least number of them does not suffice, as a multiple of it.
_MOST_ROUNDS = 4
# A first call that takes less is repeated: it may have compiled or loaded something.
_FIRST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, with the bounds of its confidence interval.

    The interval lies between two of the ordered values, so that it holds whatever the noise is
    like: the true median is within it in 95 % of all cases, from six values on; in 94 % for five.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate:
        """Summarise at least one value."""
        ordered = sorted(values)
        rank = _rank(len(ordered))
        return cls(median(ordered), ordered[rank], ordered[-1 - rank], len(ordered))

    @property
    def uncertainty(self) -> float:
        """Distance to the farther end of the interval, relative to the median; 1 for one value."""
        if self.count < 2:
            return 1.0
        return max(self.high - self.median, self.median - self.low) / self.median

    @property
    def known(self) -> bool:
        """Whether there are values enough for the median to be known to `TOLERANCE`."""
        return self.count >= LEAST_PAIRS and self.uncertainty <= TOLERANCE

    def __str__(self) -> str:
        mark = "" if self.known else "*"
        return f"{self.median:.3f} ±{self.uncertainty * self.median:.3f}{mark}"

    def document(self) -> dict[str, Any]:
        """Return what a JSON file holds of it."""
        return {**asdict(self), "uncertainty": round(self.uncertainty, 5), "known": self.known}


@cache
def _rank(count: int) -> int:
    """Return how many of so many ordered values lie outside the interval on either side.

    The number of values below the median is binomial: David and Nagaraja, Order Statistics, 7.1.
    """
    rank, missed = 0, 2 * 0.5**count
    while (missed := missed + 2 * comb(count, rank + 1) * 0.5**count) <= 0.05:
        rank += 1
    return rank


def geometric_mean(estimates: Iterable[Estimate]) -> tuple[float, float]:
    """Return the geometric mean of medians and the half width of its interval, relative to it.

    The medians' errors are taken as independent.
    """
    found = list(estimates)
    mean = exp(sum(log(x.median) for x in found) / len(found))
    return mean, sqrt(sum(x.uncertainty**2 for x in found)) / len(found)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes
    ----------
    name : str
    time : callable
        Given a number of calls, makes them in a row and returns the seconds of the fastest (on a
        GPU, whose queue hides single calls, the mean).
    rest : float
        Seconds after a timing in which its threads may still disturb others.
    """

    name: str
    time: Callable[[int], float]
    rest: float = REST_SECONDS

    @classmethod
    def of(cls, name: str, call: Callable[[], Any], rest: float = REST_SECONDS) -> Side:
        """Return a side that is a function of this process."""

        def fastest(calls: int) -> float:
            return min(timed(call) for _ in range(calls))

        return cls(name, fastest, rest)


@dataclass(frozen=True, slots=True)
class Record:
    """What one side of a comparison took.

    Attributes
    ----------
    name : str
    seconds : tuple of float
        One per round; position i of all records of a comparison is the same round.
    """

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return median(self.seconds)

    def over(self, other: Record) -> Estimate:
        """How many times as fast as `other` this side is: above 1 it is faster."""
        return Estimate.of(y / x for x, y in zip(self.seconds, other.seconds, strict=True))


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of a call, never 0."""
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)


def repeats_for(seconds: float) -> int:
    """How many calls of so many seconds make a timing: 0.1 s of up to 5, or 0.02 s of up to 40."""
    return max(min(5, int(0.1 / seconds) + 1), min(40, int(0.02 / seconds) + 1))


def records_of(rounds: Sequence[Mapping[str, float]]) -> list[Record]:
    """Return a record of every side that all of at least one round hold, in the first's order."""
    names = [name for name in rounds[0] if all(name in x for x in rounds)]
    return [Record(name, tuple(x[name] for x in rounds)) for name in names]


def interleave(
    sides: Sequence[Side],
    rounds: int = LEAST_PAIRS,
    *,
    most: int | None = None,
    seconds: float = 60.0,
    earlier: Sequence[Mapping[str, float]] = (),
    after_round: Callable[[dict[str, float]], None] | None = None,
) -> list[Record]:
    """Time all sides in turn until the ratio of the first to every other one is known.

    Parameters
    ----------
    sides : sequence of Side
        All make the same number of calls per timing, by the shortest of them (`repeats_for`).
    rounds : int
        Timings that each side has at least.
    most : int, optional
        Timings after which it ends, though a ratio is not known; 4 * `rounds` by default.
    seconds : float
        Time after which it ends, likewise.
    earlier : sequence of dict
        Rounds that were made before, and count.
    after_round : callable, optional
        Called with the seconds of each side; it may raise to stop.
    """
    if len({x.name for x in sides}) < len(sides):
        raise ValueError(f"two sides have one name among {', '.join(x.name for x in sides)}")
    done = [dict(x) for x in earlier]
    most = most or _MOST_ROUNDS * rounds
    start = time.monotonic()
    if _enough(done, rounds, most, 0.0, seconds):
        return records_of(done)
    calls = max(_first_look(side) for side in sides)
    while not _enough(done, rounds, most, time.monotonic() - start, seconds):
        first = len(done) % len(sides)
        found = {}
        for side in (*sides[first:], *sides[:first]):
            found[side.name] = float(f"{side.time(calls):.5g}")
            time.sleep(side.rest)
        done.append({side.name: found[side.name] for side in sides})
        if after_round is not None:
            after_round(done[-1])
    return records_of(done)


def _first_look(side: Side) -> int:
    """Call a side untimed; return how many of its calls make a timing."""
    seconds = side.time(1)
    if seconds < _FIRST_SECONDS:
        seconds = side.time(1)
    time.sleep(side.rest)
    return repeats_for(seconds)


def _enough(
    done: list[dict[str, float]], least: int, most: int, elapsed: float, limit: float
) -> bool:
    if len(done) < least:
        return False
    if len(done) >= most or elapsed > limit:
        return True
    first, *others = records_of(done)
    return all(first.over(x).known for x in others)
