"""``falcon.gram(x, weights=w)`` beside ``x.T @ (w[:, None] * x)``: studies/weighted.py [KxM ...]

Random data, many pairs in random order. "By matmul": falcon's of the same copy.
By default 20000x500 and 8192x2048 (K rows, M columns). ``--plain``: without weights, where NumPy's
x.T @ x is half of the work too (syrk), and falcon.matmul takes a copy of x.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from common import same_threads, show

import falcon
from falcon._tools.timing import Side, interleave
from falcon.bench.tables import INTERVAL


def compared(K, M, dtype, rounds, plain):
    random = np.random.default_rng(K + M)
    x, w = random.standard_normal((K, M)).astype(dtype), random.random(K).astype(dtype)
    out = np.empty((M, M), dtype)
    calls = {
        "falcon": partial(falcon.gram, x, weights=w, out=out),
        "NumPy": lambda: np.matmul(x.T, w[:, None] * x, out=out),
        "falcon, by matmul": lambda: falcon.matmul(x.T, w[:, None] * x, out),
    }
    if plain:
        other = x.copy()
        calls = {
            "falcon": partial(falcon.gram, x, out=out),
            "NumPy": partial(np.matmul, x.T, x, out=out),
            "falcon, by matmul": partial(falcon.matmul, x.T, other, out),
        }
    for call in calls.values():
        call()
    sides = [Side.of(*x) for x in calls.items()]
    ours, *others = interleave(sides, rounds, most=rounds, calls=1)
    times = [f"{1e3 * y.median:.1f}" for y in (ours, *others)]
    return (f"{K} x {M}", dtype, *times, *(str(ours.over(y)) for y in others))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=["20000x500", "8192x2048"])
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plain", action="store_true", help="no weights")
    given = parser.parse_args()
    print(f"{same_threads()} threads; {INTERVAL}")
    rows = [("x", "dtype", "falcon ms", "NumPy ms", "by matmul ms", "over NumPy", "over matmul")]
    for size in given.sizes:
        K, M = map(int, size.split("x"))
        rows += [compared(K, M, dtype, given.rounds, given.plain) for dtype in given.dtype]
    show(rows, left=2)


if __name__ == "__main__":
    main()
