"""What ``reproducible="rows"`` costs: python studies/rows.py [--sizes N ...] [--rows M ...]

Speed over that of "auto", by some rows of A and a square B: by rows, by columns (as the weight of
a linear layer is read), and packed. Random data, many pairs in random order.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from common import same_threads, show

import falcon
from falcon._tools.timing import Side, interleave, repeats_for
from falcon.bench.tables import INTERVAL


def ratio(a, b, others, out, rounds):
    """Time the calls by b in turn with those of "auto", by `others`."""
    sides = [Side.of("rows", partial(falcon.matmul, a, b, out, reproducible="rows")),
             Side.of("auto", partial(falcon.matmul, a, others, out))]  # fmt: skip
    once = max(x.time(1) for x in sides)
    ours, theirs = interleave(sides, rounds, most=rounds, calls=repeats_for(once))
    return f"{1e3 * ours.median:.3f}", str(ours.over(theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    print(f"{same_threads()} threads; {INTERVAL}")
    table = [("K = N", "dtype", "rows", "B by rows ms", 'over "auto"', "by columns ms",
              'over "auto"', "packed ms", 'over "auto"')]  # fmt: skip
    for size in given.sizes:
        for dtype in given.dtype:
            random = np.random.default_rng(size)
            b = random.standard_normal((size, size)).astype(dtype)
            panels = [falcon.pack(b, reproducible=x) for x in ("rows", False)]
            across = np.asfortranarray(b)
            for m in given.rows:
                a, out = random.standard_normal((m, size)).astype(dtype), np.empty((m, size), dtype)
                pairs = (b, b), (across, across), panels
                found = [ratio(a, *pair, out, given.rounds) for pair in pairs]
                table.append((size, dtype, m, *(y for x in found for y in x)))
    show(table, left=2)


if __name__ == "__main__":
    main()
