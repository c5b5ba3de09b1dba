"""Interleaved timings, by which falcon compares speeds, and the uncertainty of their ratios.

The speed of a machine drifts, so only times close to each other are compared: in every round each
side is timed once, in a random order, and the result is the median over the rounds of the ratio of
two sides. Rounds are short and many: medians of 70 to 400 agreed to 0.2 % beside a busy neighbour,
where least times were 12 % off. They are added until every ratio is known to `TOLERANCE`, or until
a limit. `disturbance` says whether other programs took so much of the machine that they say little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import comb, exp, inf, log, sqrt
from random import Random
from statistics import median
from typing import Any, Self

import numpy as np

# Pause after a timing: threads of OpenBLAS and OpenMP spin for about 0.1 s after a call and take
# the cores from the next side. Without the pause the same code ran at 0.4 to 0.9 of its speed.
REST_SECONDS = 0.15
# Pause after a timing of what leaves no spinning threads.
PAUSE = 0.02
# Relative uncertainty up to which the median of the ratios counts as known, and the least pairs.
TOLERANCE = 0.02
LEAST_PAIRS = 5
# Two speeds are called equal if the whole interval of their ratio is within this factor of 1.
EQUAL = 1.05
# Other programs disturb a call whose middle half of rounds is that far apart, relative to the
# quickest; half of the calls may be disturbed. They disturb all calls if their process has less
# than that share of a CPU.
_DISTURBED, _LEAST_CPU = 0.15, 0.9
# Beyond this factor other programs do not decide a ratio: products beside busy processes were up to
# 1.5 times off.
CLEAR = 2.0
# Largest number of rounds, as a multiple of the least number.
_MOST_ROUNDS = 40
# Seconds of rounds before a ratio counts as known: other programs come and go within seconds.
_LEAST_SECONDS = 3.0
# A first call that takes less than this is repeated: it may have compiled or loaded something.
_FIRST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, with the bounds of its confidence interval.

    The ends of the interval are two of the ordered values, so that it holds for any distribution of
    the noise: it contains the true median in 95 % of all cases from six values on, in 94 % for
    five.
    """

    median: float
    low: float
    high: float
    count: int
    disturbed: str = ""  # `disturbance` while it was measured

    @classmethod
    def of(cls, values: Iterable[float], disturbed: str = "") -> Estimate:
        """Summarise at least one value."""
        ordered = sorted(values)
        rank = _rank(len(ordered))
        ends = ordered[rank], ordered[-1 - rank]
        return cls(median(ordered), *ends, len(ordered), disturbed)

    @property
    def uncertainty(self) -> float:
        """Distance to the farther end of the interval, relative to the median; 1 for one value."""
        if self.count < 2:
            return 1.0
        return max(self.high - self.median, self.median - self.low) / self.median

    @property
    def known(self) -> bool:
        """Whether there are enough values, and the median is known to `TOLERANCE`."""
        return self.count >= LEAST_PAIRS and self.uncertainty <= TOLERANCE

    @property
    def is_judged(self) -> bool:
        """Whether it has a verdict: there are enough values, and no `doubt`."""
        return self.count >= LEAST_PAIRS and not self.doubt

    @property
    def doubt(self) -> str:
        """What disturbed a ratio that is not `CLEAR`, so that it has no verdict; "": nothing."""
        is_clear = self.low > CLEAR or self.high < 1 / CLEAR
        return "" if is_clear else self.disturbed

    @property
    def verdict(self) -> str:
        """What a ratio of speeds says: "faster", "slower", "as fast", or "undecided".

        The first two if the whole interval is on one side of 1, "as fast" if it is within `EQUAL`.
        """
        if not self.is_judged:
            return "undecided"
        if self.low > 1 or self.high < 1:
            return "faster" if self.low > 1 else "slower"
        return "as fast" if self.low >= 1 / EQUAL and self.high <= EQUAL else "undecided"

    def __str__(self) -> str:
        return f"{self.median:.3f} ±{self.uncertainty * self.median:.3f}"

    def document(self) -> dict[str, Any]:
        """Return the estimate as a JSON object, without what disturbed all of its comparison."""
        found = asdict(self)
        del found["disturbed"]
        return {**found, "uncertainty": round(self.uncertainty, 5), "known": self.known}


@cache
def _rank(count: int) -> int:
    """Return how many of `count` ordered values lie outside the interval on either side.

    The number of values below the median is binomial: David and Nagaraja, Order Statistics, 7.1.
    """
    rank, missed = 0, 2 * 0.5**count
    while (missed := missed + 2 * comb(count, rank + 1) * 0.5**count) <= 0.05:
        rank += 1
    return rank


def geometric_mean(estimates: Iterable[Estimate]) -> Estimate | None:
    """Return the geometric mean of the medians that are decided; None if there are none.

    Its interval is that of independent errors; `count` is the least of theirs.
    """
    found = [x for x in estimates if x.verdict != "undecided"]
    if not found:
        return None
    mean = exp(sum(log(x.median) for x in found) / len(found))
    low, high = (
        exp(sqrt(sum(log(x.median / getattr(x, end)) ** 2 for x in found)) / len(found))
        for end in ("low", "high")
    )
    return Estimate(mean, mean / low, mean * high, min(x.count for x in found))


def disturbance(times: Iterable[Sequence[float]], share: float = 1.0) -> str:
    """Return how other programs disturbed calls that were timed in turn; "" if they did not.

    `times`: of each call, its seconds in every round.
    `share`: of a CPU that the process had meanwhile.
    """
    if share < _LEAST_CPU:
        return f"this process had {share:.0%} of a CPU"
    low, high = np.percentile([*times], (25, 75), axis=1)
    spread = float(np.median(high / low - 1))
    return f"equal calls took times that differ by {spread:.0%}" if spread > _DISTURBED else ""


def withheld(disturbed: str) -> str:
    """Return why a comparison that was disturbed, as `disturbance` says, has no verdict."""
    return f"other programs disturbed it ({disturbed}); run it again when the machine is quiet"


def variation(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """Return how much the times of equal calls differ: that above 9 of 10 over that below 9 of 10.

    Calls are made for so many seconds with short pauses, at least two.
    """
    end, times = time.monotonic() + seconds, [timed(call) for _ in range(2)]
    while time.monotonic() < end:
        times.append(timed(call))
        time.sleep(0.02)
    times.sort()
    return times[-1 - len(times) // 10] / times[len(times) // 10]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    name: str
    # Given a number of calls, makes them in a row and returns the median of their seconds (on a
    # GPU, where single calls cannot be timed, the mean).
    time: Callable[[int], float]
    # Seconds to wait after a timing, while its threads may still disturb others.
    rest: float = REST_SECONDS
    # Returns the seconds of CPUs that its process has used in timings so far, and how long they
    # took; None: it is not known, or runs on a GPU.
    spent: Callable[[], Sequence[float]] | None = None

    @classmethod
    def of(
        cls, name: str, call: Callable[[], Any], rest: float = REST_SECONDS, **fields: Any
    ) -> Self:
        """Return a side that times a function in this process; `fields`: its other fields."""
        timer = Timer(call)
        return cls(name, timer, rest, timer.spent, **fields)


@dataclass(frozen=True, slots=True)
class Record:
    """The times of one side of a comparison."""

    name: str
    # One per round; position i is the same round in all records of a comparison.
    seconds: tuple[float, ...]
    disturbed: str = ""  # `disturbance` of the comparison

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return median(self.seconds)

    def over(self, other: Record) -> Estimate:
        """Return the speed of this side relative to `other`: above 1, this side is faster."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return Estimate.of((y / x for x, y in pairs), self.disturbed or other.disturbed)


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of a call, never 0."""
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)


class Timer:
    """Times a function in this process, and counts how much of a CPU the process had."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._used, self._passed = call, 0.0, 0.0

    def __call__(self, calls: int) -> float:
        """Return the median seconds of some calls in a row, of which the first wakes threads."""
        used, began = time.process_time(), time.perf_counter()
        found = median(timed(self._call) for _ in range(calls))
        self._passed += time.perf_counter() - began
        self._used += time.process_time() - used
        return found

    def spent(self) -> tuple[float, float]:
        """Return the seconds of CPUs, of all threads, and how long the timings took."""
        return self._used, self._passed


def repeats_for(seconds: float) -> int:
    """Return how many calls make a timing: up to 3 in 0.1 s, or up to 40 in 0.02 s."""
    return max(min(3, int(0.1 / seconds) + 1), min(40, int(0.02 / seconds) + 1))


def interleave(
    sides: Sequence[Side],
    rounds: int = LEAST_PAIRS,
    *,
    most: int | None = None,
    seconds: float = 60.0,
    limit: float = inf,
    calls: int | None = None,
    after_round: Callable[[dict[str, float]], None] | None = None,
    seed: int = 0,
) -> list[Record]:
    """Time all sides in turn until the ratio of the first to every other one is known.

    `sides`: all make the same number of calls per timing, that of the fastest side (`repeats_for`).
    `rounds`: least number of rounds.
    `most`: rounds after which it ends even if a ratio is not known; 40 * `rounds` by default.
    `seconds`: time after which it ends even if a ratio is not known.
    `limit`: time that it may take even before `rounds`; it makes one round, and no further one that
    would exceed it.
    `calls`: calls per timing, without warming up; by default those of the fastest side.
    `after_round`: called with the seconds of each side; it may raise to stop.
    `seed`: of the orders (`_orders`): the same number gives the same ones.
    """
    if len({x.name for x in sides}) < len(sides):
        raise ValueError(f"two sides have one name among {', '.join(x.name for x in sides)}")
    done: list[dict[str, float]] = []
    most = most or _MOST_ROUNDS * rounds
    start = time.monotonic()
    calls = calls or max(_warm_up(side) for side in sides)
    elapsed, last = time.monotonic() - start, 0.0
    before = _spent(sides)
    orders = _orders(sides, Random(seed))
    while not (done and elapsed + last > limit) and not _enough(
        done, rounds, most, elapsed, seconds
    ):
        found = {}
        for side in next(orders):
            found[side.name] = float(f"{side.time(calls):.5g}")
            time.sleep(side.rest)
        done.append({side.name: found[side.name] for side in sides})
        if after_round is not None:
            after_round(done[-1])
        passed, elapsed = elapsed, time.monotonic() - start
        last = elapsed - passed
    (used, took), records = _spent(sides) - before, _records(done)
    why = disturbance([x.seconds for x in records], used / took if took else 1.0)
    return [replace(x, disturbed=why) for x in records]


def _spent(sides: Sequence[Side]) -> np.ndarray:
    """Return what timings have spent so far, of all sides that know."""
    return np.sum([(0.0, 0.0), *(x.spent() for x in sides if x.spent is not None)], axis=0)


def _orders(sides: Sequence[Side], random: Random) -> Iterator[list[Side]]:
    """Yield the orders of rounds: that of the sides, then random ones.

    A side may be slower right after another one, which left the caches and the clock to it: so the
    side before it changes at random. A round begins with the side that ended the last one: so that
    of two sides each is measured after itself as often as after the other.
    """
    order = [*sides]
    while True:
        yield order
        *others, last = order
        order = [last, *random.sample(others, len(others))]


def _records(rounds: Sequence[Mapping[str, float]]) -> list[Record]:
    return [Record(name, tuple(x[name] for x in rounds)) for name in rounds[0]]


def _warm_up(side: Side) -> int:
    """Warm up a side; return how many of its calls make a timing."""
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
    if elapsed < _LEAST_SECONDS:
        return False
    first, *others = _records(done)
    return all(first.over(x).known for x in others)
