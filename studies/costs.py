"""What checks cost: python studies/costs.py [MxNxK ...] [--dtype NAME ...]

The time of products with ``check="verify"`` (floats) or ``overflow="raise"`` (integers) over that
of products without: random numbers of which no product overflows, many pairs in random order.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from common import same_threads, shapes_of, show

import falcon
from falcon._tools.timing import Side, interleave, repeats_for
from falcon.bench.tables import INTERVAL

SHAPES = "2048x2048x2048", "512x4608x3584"
CHECKS = {"f": {"check": "verify"}, "i": {"overflow": "raise"}, "u": {"overflow": "raise"}}


def drawn(random, shape, kind):
    """Return random numbers; integers whose products with others fit their type, or nearly."""
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    most = {1: 1, 2: 2, 4: 500}.get(kind.itemsize, 2**20)
    wanted = random.random(shape) < 0.1
    return (random.integers(0, most, shape, endpoint=True) * wanted).astype(kind)


def ratio(a, b, out, rounds, **check):
    """Time products with a check in turn with those without."""
    sides = [Side.of("with", partial(falcon.matmul, a, b, out, **check)),
             Side.of("without", partial(falcon.matmul, a, b, out))]  # fmt: skip
    once = max(x.time(1) for x in sides)
    ours, theirs = interleave(sides, rounds, most=rounds, calls=repeats_for(once))
    return f"{1e3 * theirs.median:.2f}", f"{1e3 * ours.median:.2f}", str(theirs.over(ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", nargs="*")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64", "int32", "int64"])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"{same_threads()} threads; {INTERVAL}")
    table = [("M x N x K", "dtype", "option", "without ms", "with ms", "with over without")]
    for M, N, K in shapes_of(given.shape, SHAPES):
        for name in given.dtype:
            kind, random = np.dtype(name), np.random.default_rng(M + N + K)
            a, b = drawn(random, (M, K), kind), drawn(random, (K, N), kind)
            check = CHECKS[kind.kind]
            said = " ".join(f"{x}={y}" for x, y in check.items())
            found = ratio(a, b, np.empty((M, N), kind), given.rounds, **check)
            table.append((f"{M}x{N}x{K}", name, said, *found))
    show(table, left=3)


if __name__ == "__main__":
    main()
