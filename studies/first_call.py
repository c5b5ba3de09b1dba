"""The time of a process's first call: ``python studies/first_call.py [SIZE] [PROCESSES]``.

Every measurement runs in a new process. On a "fresh machine" the cache folder is empty; a "later
process" finds what an earlier one has stored there. The first product of each is compared with the
median of the next ones, and so is NumPy's. Also measured are a fresh plan, and what a recalled call
takes longer than np.matmul. All figures are medians over the processes (7 of each kind), float32.
"""

from __future__ import annotations

import json
import sys
from statistics import median

import numpy as np
from common import fresh_cache, process, seconds, show

import falcon

REPEATS = 9
PLANS = 60
# Recalled calls and calls of np.matmul, alternating.
PAIRS = 3000
FRESH = "fresh machine: first call minus the next, ms"
LATER = "later process: first call minus the next, ms"
# "over the next": how much longer than a repeated call.
TARGETS = {FRESH: 50.0, LATER: 20.0, "fresh plan, ms": 0.2,
           "recalled call minus np.matmul, us": 2.8}  # fmt: skip


def worker(library, size):
    """Measure in this process, which has done nothing yet."""
    some = np.random.default_rng(0).standard_normal(2**16).astype(np.float32)
    a, b = np.resize(some, (size, size)), np.resize(some[::-1], (size, size))
    multiply = falcon.matmul if library == "falcon" else np.matmul
    first, *others = (seconds(lambda: multiply(a, b), count=1) for _ in range(1 + REPEATS))
    found = {"first": first, "next": median(others)}
    if library == "falcon":
        plans = [seconds(lambda x=x: falcon.plan(a[x:], b), count=1) for x in range(1, PLANS + 1)]
        found |= {"plan": median(plans), "recall": recalled()}
    return found


def recalled():
    """Seconds that a recalled call takes longer than np.matmul."""
    a, out = np.ones((8, 8)), np.empty((8, 8))

    def own():  # with a named backend: otherwise so small a call is not even looked up
        falcon.gemm(a, a, out=out, backend="numpy")

    own()
    times = [(seconds(own, count=1), seconds(lambda: np.matmul(a, a, out), count=1))
             for _ in range(PAIRS)]  # fmt: skip
    mine, numpys = zip(*times, strict=True)
    return median(mine) - median(numpys)


def measure(size=1500, processes=7):
    """Return the figures: medians over that many processes of each kind."""
    runs = {"fresh": [], "later": [], "numpy": []}
    for _ in range(processes):
        with fresh_cache() as cache:
            for kind, found in runs.items():
                library = "numpy" if kind == "numpy" else "falcon"
                found.append(process(__file__, "_worker", library, size, **cache))

    def of(kind, name):
        return median(x[name] for x in runs[kind])

    def late(kind):
        return 1e3 * median(x["first"] - x["next"] for x in runs[kind])

    values = late("fresh"), late("later"), 1e3 * of("later", "plan"), 1e6 * of("later", "recall")
    return {
        **dict(zip(TARGETS, values, strict=True)),
        "repeated call, ms": 1e3 * of("later", "next"),
        "np.matmul: first call minus the next, ms": late("numpy"),
        "np.matmul, repeated call, ms": 1e3 * of("numpy", "next"),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["_worker"]:
        print(json.dumps(worker(sys.argv[2], int(sys.argv[3]))))
    elif all(x.isdecimal() for x in sys.argv[1:]):
        found = measure(*map(int, sys.argv[1:])).items()
        show([("", "measured", "target"),
              *((name, f"{x:.3g}", TARGETS.get(name, "-")) for name, x in found)])  # fmt: skip
    else:
        sys.exit(__doc__)
