"""What compiled sums of A and B gain: python studies/combines.py [MxNxK ...] [--schemes NAME ...]

The time of products by interpreted programs over that by compiled ones, the same bits, on one
thread, in seconds of its own CPU; many pairs in random order. AVX2's kernels take few as code: the
others' ratio is 1.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np
from common import shapes_of, show

from falcon._core.dtypes import dtype_of
from falcon._cpu import _core
from falcon._cpu.extension import isa
from falcon._tools.timing import Estimate
from falcon.bench.tables import INTERVAL
from falcon.codegen import updates
from falcon.codegen.cpu_emit import of_scheme
from falcon.schemes import get

# Few rows: nearly all is combine B.
SHAPES = "24x4608x3584", "24x2048x2048"


def form(scheme, is_coded):
    """Return a scheme as the engine takes it; with a temporary too many there is no code."""
    made = updates(scheme)
    more = 0 if is_coded else 1
    both = [x._replace(n_temporaries=x.n_temporaries + more) for x in of_scheme(scheme, made)]
    return _core.Scheme(*scheme.format, *both, made)


def ratio(shape, dtype, scheme, rounds):
    """Return the median seconds of both, and the estimate of their ratio."""
    M, N, K = shape
    draw, kind = np.random.default_rng(M + N + K).standard_normal, np.dtype(dtype)
    a, b, c = draw((M, K)).astype(kind), draw((K, N)).astype(kind), np.empty((M, N), kind)
    calls = []
    for is_coded in (False, True):
        how = {"scheme": form(scheme, is_coded), "isa": isa(), "is_blocked": True}
        layout = _core.plan(M, N, K, dtype_of(kind).engine, **how)
        calls.append((layout, _core.Workspace(layout.nbytes)))
    times = [[], []]
    for at in range(rounds + 1):
        for side in random.sample((0, 1), 2):
            start = time.thread_time()
            _core.gemm(calls[side][0], a, b, c, workspace=calls[side][1])
            if at:
                times[side].append(time.thread_time() - start)
    gain = Estimate.of(x / y for x, y in zip(*times, strict=True))
    return *(f"{1e3 * np.median(x):.2f}" for x in times), str(gain)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", nargs="*")
    parser.add_argument("--schemes", nargs="+", default=["strassen", "winograd", "2x4x4:26",
                                                         "3x6x4:54"])  # fmt: skip
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"])
    parser.add_argument("--rounds", type=int, default=25)
    given = parser.parse_args()
    print(f"kernels {isa()}; {INTERVAL}")
    table = [("M x N x K", "dtype", "scheme", "interpreted ms", "compiled ms", "ratio")]
    for shape in shapes_of(given.shape, SHAPES):
        for dtype in given.dtype:
            for name in given.schemes:
                found = ratio(shape, dtype, get(name), given.rounds)
                table.append(("x".join(map(str, shape)), dtype, name, *found))
    show(table, left=3)


if __name__ == "__main__":
    main()
