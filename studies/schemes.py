"""Which schemes pay: the best scheme of every format beside falcon's own classical path.

Every scheme runs at sizes that its format divides: ``python studies/schemes.py 2048 4096`` prints
CSV, as `falcon/discover/catalogue/data/speed.csv` holds it. (``python -m falcon schemes 3x4x5
--measure`` shows how fast those of one format are.)
"""

from __future__ import annotations

import argparse
import csv
import sys
from functools import partial

from common import operands

import falcon
from falcon._core.timing import Side, interleave
from falcon.bench.schemes import shape_of
from falcon.schemes import get, names


def best_names():
    """Return, per format, the stored scheme of lowest rank with the fewest additions."""
    found = {}
    for scheme in (get(name) for name in names()):
        if not scheme.is_classical:
            found.setdefault(tuple(sorted(scheme.format)), []).append(scheme)
    return [min(found[key], key=lambda x: (x.rank, x.additions.reduced)).name
            for key in sorted(found)]  # fmt: skip


def measure(name, size, options):
    """Return a row of the file: rates of the scheme and the classical path, and their ratio."""
    shape = shape_of(get(name), size)
    a, b, out = operands((shape.M, shape.N, shape.K), options.dtype)
    call = partial(falcon.gemm, a, b, out=out, backend=options.backend, max_growth=None)
    sides = [Side.of(x, partial(call, scheme=x)) for x in (name, "classical")]
    own, classical = interleave(sides, options.rounds, seconds=options.case_seconds)
    over = own.over(classical)
    rates = (round(shape.flops / x.median / 1e9, 2) for x in (own, classical))
    known = (round(x, 4) for x in (over.median, over.uncertainty * over.median))
    return size, name, shape.M, shape.K, shape.N, *rates, *known


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[2048, 4096])
    parser.add_argument("--scheme", nargs="+", help="only these (default: best of every format)")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case-seconds", type=float, default=60.0)
    options = parser.parse_args()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("size", "scheme", "M", "K", "N", "gflops", "classical_gflops", "speedup",
                     "uncertainty"))  # fmt: skip
    for size in options.sizes:
        for name in options.scheme or best_names():
            writer.writerow(measure(name, size, options))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
