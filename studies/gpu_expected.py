"""The times that the cost model expects on an H200: ``python studies/gpu_expected.py``, no GPU.

The table of docs/gpu.md, in milliseconds, for comparison with ``studies/gpu_stages.py`` on a GPU.
"""

from __future__ import annotations

import argparse

import falcon
from falcon._backends import device_backend
from falcon._core.dtypes import BY_ARITHMETIC, of
from falcon._core.problem import Problem
from falcon._gpu.rates import DeviceRates

SIZES = (8192, 16384)
SCHEMES = (None, "strassen", "3x4x4:38", "strassen@strassen")
COLUMNS = ("norms", "combine A", "combine B", "multiply", "combine H")
# cuBLAS's rates, as they have been seen. "bf16x6" is six bfloat16 products.
MULTIPLY = {"float32": 50e12, "bf16x6": 125e12, "float64": 62e12, "bfloat16": 750e12}
MEMORY = 140 * 10**9


def rates(dtype):
    """Rates of an H200 with 4.0 TB/s in the combines; batches run like whole products."""
    multiply = MULTIPLY[dtype]
    return DeviceRates(multiply, multiply, 4.0e12, 3e-6, 132, 50 * 2**20)


def row(dtype, size, name):
    """Return seconds per stage."""
    backend, scheme = device_backend(), name and falcon.schemes.get(name)
    row = BY_ARITHMETIC.get(dtype)
    problem = Problem(size, size, size, of(dtype) if row is None else row.left, device=0)
    (method,) = backend.candidates(problem, [scheme], MEMORY // 4, row)
    return dict(backend.predicted(problem, method, rates(dtype)).seconds)


def table():
    """Return the lines of the table."""
    lines = [
        " | ".join(("| type | n | scheme", *COLUMNS, "sum", "ratio |")),
        "|---" * (5 + len(COLUMNS)) + "|",
    ]
    for dtype in MULTIPLY:
        for size in SIZES:
            alone = sum(row(dtype, size, None).values())
            for name in SCHEMES:
                found = row(dtype, size, name)
                times = [f"{1e3 * found[x]:.3f}" if x in found else "" for x in COLUMNS]
                total = sum(found.values())
                cells = (dtype, str(size), name or "classical", *times, f"{1e3 * total:.3f}")
                lines.append(f"| {' | '.join(cells)} | {alone / total:.2f} |")
    return lines


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("\n".join(table()))
