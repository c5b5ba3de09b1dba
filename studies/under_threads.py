"""Products from eight threads at once: ``python studies/under_threads.py``.

    --calls N          of each way, shared by its situations and threads (100000)
    --seconds S        most for each way (200)

The situations are those in which NumPy's OpenBLAS returned wrong products (numpy issues 29391,
31618, 32168): tall operands by transposed small ones, operands that are not contiguous, odd sizes,
least squares in a loop. Each result must have the bits of the first one, which one thread computed.
Ways: NumPy as it stands; under `falcon.accelerate()`, which also calls falcon itself, with falcon's
threads lent to OpenBLAS and without. The exit status is 1 if falcon's results differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time

import numpy as np
from common import process, show

THREADS = 8
WAYS = {
    "NumPy": {},
    "accelerated": {"FALCON_SHARE_THREADS": "1"},
    "accelerated, threads not shared": {"FALCON_SHARE_THREADS": "0"},
}
# Situations: how often each is called, relative to the others.
WEIGHTS = {"tall by transposed": 2, "columns of indices": 2, "least squares": 20, "odd": 20,
           "strided": 20, "gram": 1, "batch": 5, "falcon.matmul": 20, "strassen": 10}  # fmt: skip


def least_squares(x, values):
    """Fit a line; large residuals count less and less."""
    design = np.column_stack([np.ones(len(x)), x - x.mean()])
    weights = np.ones(len(x))
    for _ in range(5):
        weighted = design * weights[:, None]
        beta = np.linalg.lstsq(weighted, values * weights, rcond=None)[0]
        residual = np.abs(values - design @ beta)
        weights = 1 / np.maximum(residual / np.median(residual), 1)
    return beta


def situations(is_falcon):
    """Return calls without arguments by their names."""
    random = np.random.default_rng(0)
    draw = random.standard_normal
    tall, small = draw((100_000, 3)), draw((3, 3))
    indices = np.indices((300, 300), dtype=float).reshape(2, -1).T
    radial, pair, four = draw((300 * 300, 4)), draw((2, 2)), draw((4, 2))
    x, values = draw(499), draw(499)
    a, b = draw((61, 257)), draw((257, 333))  # falcon's kernels multiply so few rows
    # NumPy multiplies these in its own loops, slowly, and falcon's kernels from 10^5 operations.
    wide, deep = draw((62, 195)), draw((130, 261)).astype("f4")
    tables = draw((5, 41, 61)).astype("f4")
    calls = {
        "tall by transposed": lambda: np.dot(tall, small.T),
        "columns of indices": lambda: indices @ pair + radial @ four,
        "least squares": lambda: least_squares(x, values),
        "odd": lambda: a @ b,
        "strided": lambda: np.matmul(wide[::2, ::-3], deep[::2, ::3].astype("f8")),
        "gram": lambda: b[:, 1::2] @ b[:, 1::2].T,
        "batch": lambda: tables @ deep[:61, 2::3],
    }
    if is_falcon:
        import falcon

        calls["falcon.matmul"] = lambda: falcon.matmul(a[:, ::-1], b.T[::-1].T)
        calls["strassen"] = lambda: falcon.matmul(b[:, ::2].T, b[:, 1::3], scheme="strassen")
    return calls


def one_way(name, calls, seconds):
    """Call from all threads; return calls and differences of each situation."""
    is_falcon = name != "NumPy"
    if is_falcon:
        import falcon

        falcon.accelerate(quiet=True)
        falcon.gemm(np.ones((500, 500)), np.ones((500, 500)), backend="cpu")  # starts threads
    known = situations(is_falcon)
    expected = {x: call() for x, call in known.items()}
    names = [x for x in known for _ in range(WEIGHTS[x])]
    per_thread, end = -(-int(calls) // THREADS), time.monotonic() + float(seconds)
    made = [dict.fromkeys(known, 0) for _ in range(THREADS)]
    differ = [dict.fromkeys(known, 0) for _ in range(THREADS)]
    start = threading.Barrier(THREADS)

    def work(thread):
        order = np.random.default_rng(thread).integers(len(names), size=per_thread)
        start.wait()
        for i in order:
            x = names[i]
            differ[thread][x] += not np.array_equal(known[x](), expected[x])
            made[thread][x] += 1
            if time.monotonic() > end:
                break

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    return {x: [sum(y[x] for y in made), sum(y[x] for y in differ)] for x in known}


def main():
    """Print calls and differences; return whether falcon's were none."""
    parser = argparse.ArgumentParser(description=__doc__, usage="studies/under_threads.py")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=200)
    given = parser.parse_args()
    found = {}
    for name, variables in WAYS.items():
        found[name] = process(__file__, "_way", name, given.calls, given.seconds, **variables)
    rows = [("differences / calls", *WAYS)]
    for x in WEIGHTS:
        cells = (found[way].get(x) for way in WAYS)
        rows.append((x, *("-" if y is None else f"{y[1]} / {y[0]}" for y in cells)))
    sums = {way: [sum(y) for y in zip(*x.values(), strict=True)] for way, x in found.items()}
    rows.append(("all", *(f"{x[1]} / {x[0]}" for x in sums.values())))
    show(rows)
    return not any(x[1] for way, x in sums.items() if way != "NumPy")


if __name__ == "__main__":
    if sys.argv[1:2] == ["_way"]:
        print(json.dumps(one_way(*sys.argv[2:])))
    else:
        sys.exit(not main())
