"""RMS errors of float32 on a GPU, over those of cuBLAS: ``python studies/gpu_errors.py [K ...]``.

Standard normal operands; "uneven": rows up to 2^20 times as large or as small, and columns of
lognormal numbers, whose errors are relative to the norms of rows and columns. Some rows are
compared with float64. In brackets: the growth that the plan states.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import show

import falcon
from falcon._gpu import device

SIZE, ROWS = 2048, 64
LENGTHS = (300, 700, 1024, 2048, 4096, 8192, 16384)
SCHEMES = ("classical", "strassen", "3x4x4:38", "4x4x4:49")
WAYS = [(x, y) for x in ("fp16x3", "bf16x6", "native") for y in SCHEMES]


def operands(K: int, uneven: bool) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(K)
    a, b = (random.standard_normal(x, np.float32) for x in ((SIZE, K), (K, SIZE)))
    if uneven:
        a *= np.exp2(random.integers(-20, 21, (SIZE, 1))).astype(np.float32)
        b *= np.exp(4 * random.standard_normal(b.shape)).astype(np.float32)
    return a, b


def errors(K: int, uneven: bool) -> dict[str, str]:
    """Return the cells of a column of the table."""
    a, b = operands(K, uneven)
    left, right = map(device.upload, (a, b))
    rows = slice(None, None, SIZE // ROWS)
    exact = a[rows].astype(float) @ b.astype(float)
    norms = np.linalg.norm(a[rows].astype(float), axis=1)[:, None] * np.linalg.norm(
        b.astype(float), axis=0
    )

    def error(**how: str) -> float:
        found = device.download(falcon.gemm(left, right, max_growth=100, **how)[rows])
        return float(np.sqrt(np.mean(((found - exact) / norms) ** 2)))

    least = error(scheme="classical", arithmetic="native")
    cells = {}
    for arithmetic, scheme in [("fp16x3", "classical")] if uneven else WAYS:
        how = {"arithmetic": arithmetic, "scheme": scheme}
        planned = falcon.plan(left, right, max_growth=100, **how).growth
        name = f"{arithmetic}, {scheme}{', uneven' if uneven else ''}"
        cells[name] = f"{error(**how) / least:.2f} ({planned:.2f})"
    return cells


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("K", nargs="*", type=int, help=f"default: {' '.join(map(str, LENGTHS))}")
    lengths = parser.parse_args(arguments).K or LENGTHS
    columns = [errors(K, False) | errors(K, True) for K in lengths]
    rows = [(name, *(x[name] for x in columns)) for name in columns[0]]
    show([("", *(f"K = {K}" for K in lengths)), *rows])


if __name__ == "__main__":
    main()
