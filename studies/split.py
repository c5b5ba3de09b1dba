"""float32 by bfloat16 parts beside float32 arithmetic and the libraries: speed and errors.

``python studies/split.py [S ...]`` prints a table for each S x S x S (default 512 1024 2048 4096):
effective GFLOP/s, the time of the faster library (NumPy, PyTorch if installed, each at its best of
what this process loads) over the side's, and the RMS error against float64, relative to that of the
product and to that of classical float32. Where the machine has no tiles, "parts" run on NumPy.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial

import numpy as np
from common import operands, show

import falcon
from falcon._core.options import thread_count
from falcon._core.timing import Side, interleave
from falcon.bench.errors import exact_rows, relative_error, sampled_rows

OURS = {
    "auto": {},
    "bf16x6": {"arithmetic": "bf16x6", "scheme": "classical"},
    "bf16x6 strassen": {"arithmetic": "bf16x6", "scheme": "strassen"},
    "bf16x3": {"arithmetic": "bf16x3", "scheme": "classical", "max_growth": 16},
    "native": {"arithmetic": "native"},
    "native classical": {"arithmetic": "native", "scheme": "classical"},
}


def libraries(a, b):
    """Return the products by NumPy and PyTorch, and where each writes."""
    out = np.empty((len(a), b.shape[1]), np.float32)
    found = {f"NumPy {np.__version__}": (partial(np.matmul, a, b, out=out), out)}
    with suppress(ImportError):
        import torch

        torch.set_num_threads(thread_count())
        x, y, z = (torch.from_numpy(t) for t in (a, b, np.empty_like(out)))
        found[f"PyTorch {torch.__version__}"] = partial(torch.mm, x, y, out=z), z.numpy()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for size in options.sizes:
        a, b, _ = operands((size,) * 3)
        calls = {}
        for name, how in OURS.items():
            out = np.empty((size, size), np.float32)
            calls[name] = partial(falcon.gemm, a, b, out=out, **how), out
        others = libraries(a, b)
        calls |= others
        turns = [Side.of(name, call) for name, (call, _) in calls.items()]
        records = dict(zip(calls, interleave(turns, options.rounds), strict=True))
        best = min((records[x] for x in others), key=lambda x: x.median)
        index = sampled_rows((size, size), a.dtype)
        exact = exact_rows(a, b, index)
        errors = {name: relative_error(out[index], exact) for name, (_, out) in calls.items()}
        rows = [("side", "GFLOP/s", "over the libraries", "RMS error", "of classical's")]
        for name, record in records.items():
            rate = f"{2e-9 * size**3 / record.median:.0f}"
            relative = f"{errors[name] / errors['native classical']:.2f}"
            rows.append((name, rate, record.over(best), f"{errors[name]:.1e}", relative))
        print(f"{size} x {size} x {size}, {thread_count()} threads: {falcon.plan(a, b)!r}")
        show(rows, left=1)
        print()


if __name__ == "__main__":
    main()
