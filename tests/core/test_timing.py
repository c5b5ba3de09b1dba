"""Interleaved timings: sides take turns, ratios are pairwise, rounds go on until they are known."""

from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest

from falcon._tools.timing import (
    Estimate,
    Record,
    Side,
    disturbance,
    geometric_mean,
    interleave,
    variation,
)


class Sides:  # whose calls alone move the clock
    def __init__(self, clock):
        self.move, self.slept, self.log = clock.move, clock.slept, []

    def side(self, name, *seconds, rest=0.5):
        """A side whose calls take these seconds, the last of them for ever."""
        left = list(seconds)

        def call():
            self.log.append(name)
            self.move(left.pop(0) if len(left) > 1 else left[0])

        return Side.of(name, call, rest)


@pytest.fixture
def clock(doors):
    return Sides(doors.clock(rests=False))


def test_an_estimate():
    found = Estimate.of([4.0, 1.0, 3.0, 2.0, 5.0])
    assert found == Estimate(3.0, 1.0, 5.0, 5)
    assert found.uncertainty == pytest.approx(2 / 3)
    assert not found.known
    assert str(found) == "3.000 ±2.000"
    assert found.document()["known"] is False
    assert Estimate.of(range(1, 21)) == Estimate(10.5, 6, 15, 20)


def test_one_or_few_pairs_tell_nothing():
    assert Estimate.of([2.0]).uncertainty == 1.0
    assert not Estimate.of([2.0] * 4).known
    assert Estimate.of([2.0] * 5).known
    assert str(Estimate.of([2.0] * 5)) == "2.000 ±0.000"


@pytest.mark.parametrize("count", [5, 6, 8, 9, 12, 20, 41])
def test_the_interval_holds_the_median(count):
    """For any distribution of the noise; here it is skewed, as times are."""
    random, held = np.random.default_rng(count), 0
    for _ in range(2000):
        found = Estimate.of(random.exponential(1.0, count))
        held += found.low <= np.log(2) <= found.high
    assert held / 2000 > (0.92 if count == 5 else 0.94)


def test_ratios_are_those_of_pairs():
    one, two = Record("x", (1.0, 2.0, 3.0)), Record("y", (2.0, 2.0, 9.0))
    # The median of the pairwise ratios 2, 1 and 3, not the ratio of the medians.
    assert one.over(two).median == 2.0
    assert two.over(one).median == 0.5
    assert (one.median, two.median) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((2.1, 9.0), "faster"), ((0.1, 0.4), "slower"), ((1.9, 9.0), "undecided")],
)
def test_other_programs_do_not_make_a_ratio_of_more_than_two(ends, verdict):
    found = Estimate(sum(ends) / 2, *ends, 5, "this process had 10% of a CPU")
    assert found.verdict == verdict
    assert found.doubt == (found.disturbed if verdict == "undecided" else "")


def test_geometric_mean():
    some = [Estimate(2.0, 1.9, 2.2, 9), Estimate(0.5, 0.5, 0.5, 7)]
    undecided = Estimate(22.4, 0.6, 44.2, 9), Estimate(1.9, 1.8, 2.5, 9, "disturbed")
    mean = geometric_mean([*some, *undecided, Estimate(9.0, 1.0, 20.0, 4)])  # of too few pairs
    assert mean.median == pytest.approx(1.0)
    assert (mean.low, mean.high) == pytest.approx((0.95**0.5, 1.1**0.5))
    assert mean.count == 7
    assert geometric_mean([*undecided, Estimate(9.0, 1.0, 20.0, 4)]) is None


@pytest.mark.parametrize(
    ("low", "high", "count", "verdict"),
    [
        (1.01, 1.2, 5, "faster"),
        (0.5, 0.99, 9, "slower"),
        (0.96, 1.04, 9, "as fast"),
        (0.99, 1.24, 9, "undecided"),  # a wide interval is no equality
        (1.1, 1.2, 4, "undecided"),
    ],
)
def test_three_verdicts(low, high, count, verdict):
    assert Estimate((low + high) / 2, low, high, count).verdict == verdict


@pytest.mark.parametrize(
    ("times", "share", "said"),
    [
        ([(1.0, 1.1, 1.0, 1.1), (2.0, 2.2, 2.0, 2.1)], 0.95, ""),
        ([(1.0, 3.0, 1.0, 1.0, 1.0)], 1.9, ""),  # one round of five
        ([(1.0,) * 5], 0.1, "this process had 10% of a CPU"),
        ([(1.0, 1.0, 1.5, 1.5)], 1.0, "equal calls took times that differ by 50%"),
    ],
)
def test_a_disturbed_machine(times, share, said):
    assert disturbance(times, share) == said


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_sides_know_whether_they_were_disturbed(doors, share):
    """What is waited for, and sides that do not say what they spent, do not count."""
    clock = doors.clock()
    clock.share = share
    here = [Side.of(name, lambda s=s: clock.move(s)) for name, s in (("x", 1.0), ("y", 1.4))]
    mine, other = interleave(here)
    found = other.over(mine)
    assert found.verdict == ("undecided" if share < 0.9 else "slower")
    assert found.disturbed == mine.disturbed == other.disturbed
    assert found.disturbed == ("this process had 10% of a CPU" if share < 0.9 else "")
    elsewhere = [Side(x.name, x.time, x.rest) for x in here]
    assert not any(x.disturbed for x in interleave(elsewhere))


def test_times_that_differ_too_much_decide_nothing(clock):
    noisy = [clock.side("x", *[1.0, 1.5] * 99), clock.side("y", *[2.0, 3.0] * 99)]
    mine, other = interleave(noisy, 8, most=8)
    assert mine.disturbed == "equal calls took times that differ by 50%"
    assert mine.over(other).low > 1 and mine.over(other).verdict == "undecided"


def test_variation(clock):
    """Of every third call taking twice as long; the longest and shortest tenths do not count."""
    seconds = [9.0, 0.1, *[1.0, 1.0, 2.0] * 12]
    assert variation(lambda: clock.move(seconds.pop()), sum(seconds)) == 2.0
    assert variation(lambda: clock.move(1.0), 0.0) == 1.0


def log_of(clock, names, rounds, **how):
    """Return the sides of each round."""
    clock.log.clear()
    interleave([clock.side(name, 1.0) for name in names], rounds, most=rounds, **how)
    log = clock.log[len(names) :]  # without warming up
    return [log[at : at + len(names)] for at in range(0, len(log), len(names))]


def test_sides_take_turns(clock):
    sides = [clock.side(name, 9.0, 1.0) for name in "xyz"]
    found = interleave(sides, 3, most=3)
    assert clock.log[:6] == [*"xyz"] * 2  # warming up, and the first round
    assert [sorted(clock.log[at : at + 3]) for at in (6, 9)] == [[*"xyz"]] * 2
    assert [x.name for x in found] == ["x", "y", "z"]
    assert all(x.seconds == (1.0, 1.0, 1.0) for x in found)
    assert clock.slept == [0.5] * 12


@pytest.mark.parametrize("names", ["xy", "xyz", "uvwxyz"])
def test_the_order_of_every_round_is_random(clock, names):
    """Each side is measured after each other one, and after itself, about as often."""
    rounds, count = 600, len(names)
    log = log_of(clock, names, rounds)
    assert all(sorted(x) == [*names] for x in log)
    after = Counter(pairwise(chain.from_iterable(log)))
    firsts = Counter(x[0] for x in log)
    for x in names:
        assert firsts[x] == pytest.approx(rounds / count, rel=0.3)
        for y in names:
            assert after[x, y] == pytest.approx(rounds / count, rel=0.3)


def test_orders_can_be_repeated(clock):
    some = log_of(clock, "uvwxyz", 5)
    assert log_of(clock, "uvwxyz", 5) == some == log_of(clock, "uvwxyz", 5, seed=0)
    assert log_of(clock, "uvwxyz", 5, seed=1) != some


def test_a_side_that_slows_the_next_one_slows_no_side_always(clock):
    def side(name):
        def call():
            clock.move(1.07 if clock.log[-1:] == ["heavy"] else 1.0)
            clock.log.append(name)

        return Side.of(name, call)

    first, *others = interleave([side(x) for x in ("heavy", *"uvwxyz")], 5)
    assert [first.over(x).median for x in others] == [1.0] * 6


def test_more_rounds_until_the_ratios_are_known(clock):
    steady = [clock.side("x", 1.0), clock.side("y", 2.0)]
    assert len(interleave(steady, 5)[0].seconds) == 5
    for limits, rounds in (({"seconds": 1e9}, 200), ({"seconds": 1.0}, 5), ({"most": 7}, 7)):
        spread = np.random.default_rng(0).uniform(1.0, 4.0, 999)
        noisy = [clock.side("x", 1.0), clock.side("y", *spread)]
        assert len(interleave(noisy, 5, **limits)[0].seconds) == rounds


def test_a_ratio_is_not_known_within_a_moment(clock):
    """Other programs come and go: rounds go on for three seconds, with those that warm up."""
    short = [clock.side(name, 0.12) for name in "xy"]
    assert len(interleave(short, 5)[0].seconds) == 11
    assert len(interleave(short, 5, seconds=1.0)[0].seconds) == 5


def test_a_round_may_stop_it(clock):
    def stop(seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interleave([clock.side("x", 1.0)], after_round=stop)


def test_all_sides_make_as_many_calls_and_the_median_counts(clock):
    short = clock.side("s", 0.04, 0.04, 0.05, 0.02, 0.03)
    found = interleave([short, clock.side("l", 0.2)], 1, most=1)
    assert "".join(clock.log) == "ssll" + "sss" + "lll"
    assert found[0].seconds[0] == pytest.approx(0.03)


def test_calls_that_take_no_time_by_a_coarse_clock(clock):
    found = interleave([clock.side("z", 0.0), clock.side("w", 1.0)], 2, most=2)
    assert found[0].over(found[1]).median > 1
