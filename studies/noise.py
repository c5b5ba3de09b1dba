"""Whether comparisons hold on a busy machine: ``python studies/noise.py [SHAPE ...]``.

falcon over NumPy in float32: the median of many pairs on a quiet machine; then, five times each,
what `bench` finds in some seconds beside two programs that each burn a CPU for 1 to 5 s and rest as
long, by two rules: many short pairs (falcon's), and few pairs of the fastest of up to five calls.
Of each rule: how often its interval holds the quiet ratio (a tenth may miss), and its width.
"""

import argparse
from functools import partial
from statistics import median

import numpy as np
from common import operands, running, same_threads, shapes_of, show

import falcon
from falcon._backends import LIBRARY
from falcon._tools.timing import PAUSE, REST_SECONDS, Side, interleave, timed

SHAPES = ["1024,1024,1024", "1500,1500,1500", "512,3584,3584", "2048,3584,3584"]
TIMES, BURNERS, FEW = 5, 2, 20
BURN = """
import random, time
while True:
    time.sleep(random.uniform(1, 5))
    end = time.monotonic() + random.uniform(1, 5)
    while time.monotonic() < end:
        pass
"""


def ratio(sides, **how):
    mine, numpy = interleave(sides, **how)
    return mine.over(numpy)


def fastest(call, calls):
    return min(timed(call) for _ in range(calls))


def study(shape, seconds):
    a, b, out = operands(shape)
    calls = {"falcon": partial(falcon.gemm, a, b, out=out), "numpy": partial(np.matmul, a, b, out)}
    many = [Side.of(name, call, LIBRARY.rest + PAUSE) for name, call in calls.items()]
    few = [Side(name, partial(fastest, call), REST_SECONDS) for name, call in calls.items()]
    quiet = ratio(many, rounds=60, most=60)
    repeats = max(min(5, int(0.1 / timed(calls["numpy"])) + 1), 1)
    found = {"many short pairs": [], "few pairs of least times": []}
    for seed in range(TIMES):
        with running(BURN, BURNERS):
            how = {"seconds": seconds, "limit": seconds, "seed": seed}
            found["many short pairs"].append(ratio(many, **how))
            found["few pairs of least times"].append(ratio(few, most=FEW, calls=repeats, **how))
    for rule, some in found.items():
        held = sum(x.low <= quiet.median <= x.high for x in some)
        yield ("x".join(map(str, shape)), str(quiet), rule, f"{held} of {TIMES}",
               f"{median(x.high / x.low - 1 for x in some):.1%}",
               f"{median(x.count for x in some):.0f}",
               " ".join(f"{x.median:.3f}" for x in some))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    same_threads()
    titles = "MxNxK", "quiet", "rule", "held", "width", "pairs", "medians"
    for shape in shapes_of(options.shapes, SHAPES):
        show([titles, *study(shape, options.seconds)])


if __name__ == "__main__":
    main()
