"""Errors of float32 by parts on a GPU: ``python studies/gpu_errors.py [K ...] [-o FILE]``.

RMS errors over those of cuBLAS's float32, and in brackets over those of sums in order (cuBLAS may
cut long sums, and then errs less); after them the bias, the mean error toward larger numbers,
relative to the quadratic mean of C. Then products of which entries depend on single numbers: the
largest error of an entry, relative to it. Some rows are compared with float64.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import show

import falcon
from falcon._gpu import cublas, device

SIZE, ROWS = 2048, 64
LENGTHS = (300, 1024, 2048, 4096, 16384, 65536)
SCHEMES = ("classical", "strassen", "3x4x4:38", "4x4x4:49")

# The sums of float32 in order, a thread per entry.
IN_ORDER = """
extern "C" __global__ void in_order(const float *a, const float *b, float *c,
                                    long long n, long long inner) {
    const long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x, i = blockIdx.y;
    float sum = 0;
    for (long long k = 0; k < inner && j < n; ++k)
        sum += a[i * inner + k] * b[k * n + j];
    if (j < n)
        c[i * n + j] = sum;
}
"""


def kinds(K: int) -> dict[str, Callable[[Any, tuple[int, int]], Any]]:
    """Return makers of operands by name; the longer axis is K."""
    import cupy

    def along(shape: tuple[int, int]) -> int:
        return 1 if shape[1] == K else 0

    def wave(random: Any, shape: tuple[int, int]) -> Any:
        waves = cupy.sin(cupy.arange(K) * 2 * np.pi / 250)
        return 3 * cupy.expand_dims(waves, 1 - along(shape)) + random.standard_normal(shape)

    def signs(r: Any, shape: tuple[int, int]) -> Any:
        alternate = cupy.expand_dims((-1.0) ** cupy.arange(K), 1 - along(shape))
        return alternate * r.random_sample(shape)

    def duplicates(r: Any, shape: tuple[int, int]) -> Any:
        common = cupy.expand_dims(r.standard_normal(K), 1 - along(shape))
        return common + 0.3 * r.standard_normal(shape)

    def orthonormal(r: Any, shape: tuple[int, int]) -> Any:
        basis = cupy.linalg.qr(r.standard_normal((max(shape), min(shape))))[0]
        return basis if shape[0] > shape[1] else basis.T

    return {
        "normal": lambda r, s: r.standard_normal(s),
        "normal, X^T X": lambda r, s: r.standard_normal(s),
        "orthonormal, X^T X": orthonormal,
        "alternating signs": signs,
        "near-duplicates, X^T X": duplicates,
        "uniform": lambda r, s: r.random_sample(s),
        "exponential": lambda r, s: r.exponential(size=s),
        "lognormal": lambda r, s: cupy.exp(r.standard_normal(s)),
        "ReLU of normal": lambda r, s: cupy.maximum(r.standard_normal(s), 0),
        "sorted": lambda r, s: cupy.sort(r.random_sample(s), axis=along(s)),
        "sparse, positive": lambda r, s: r.random_sample(s) * (r.random_sample(s) < 0.1),
        "waves of 250": wave,
        "mean 1000, X^T X": lambda r, s: 1000 + r.standard_normal(s),
        "whole to 2^11": lambda r, s: cupy.floor(2048 * r.random_sample(s)),
        "softmax of 2 x normal": lambda r, s: cupy.exp(2 * r.standard_normal(s)) / K,
    }


def single(K: int) -> dict[str, tuple[Any, Any]]:
    """Return products of which entries depend on single numbers."""
    import cupy

    random = cupy.random.RandomState(3)
    one, wide = cupy.eye(K), cupy.exp(3 * random.standard_normal((K, SIZE)))
    spike = cupy.full((K, K), 1e-3) * (1 + random.random_sample((K, K)))
    spike[:, 5] = 1e6
    other = random.standard_normal((K, SIZE))
    large, other[5] = other.copy(), 0
    large[5] = 1e6
    return {
        "a line with one 1e6, the rest 1e-3": (spike, other),
        "permutation x lognormal (sigma 3)": (one[random.permutation(K)], wide),
        "identity x columns with one 1e6": (one, large),
        "one-hot x numbers to 2^24": (
            one[random.randint(0, K, K)],
            random.randint(0, 2**24, (K, SIZE)).astype(float),
        ),
    }


def measured(K: int, kind: str, make: Callable[[Any, tuple[int, int]], Any]) -> dict[str, Any]:
    """Return the cells of a column of the table, by scheme."""
    import cupy

    random = cupy.random.RandomState(K)
    a = make(random, (SIZE, K)).astype(np.float32)
    b = a.T if "X^T X" in kind else make(random, (K, SIZE)).astype(np.float32)
    rows = slice(None, None, SIZE // ROWS)
    exact = a[rows].astype(float) @ b.astype(float)
    scale = float(cupy.sqrt((exact**2).mean()))

    def judged(c: Any) -> tuple[float, float]:
        wrong = c.astype(float) - exact
        bias = float((wrong * cupy.sign(exact)).mean()) / scale
        return float(cupy.sqrt((wrong**2).mean())) / scale, bias

    left, right = cupy.ascontiguousarray(a[rows]), cupy.ascontiguousarray(b)
    summed = cupy.empty((ROWS, SIZE), np.float32)
    kernel = cupy.RawModule(code=IN_ORDER).get_function("in_order")
    kernel((-(-SIZE // 128), ROWS, 1), (128, 1, 1), (left, right, summed, SIZE, K))
    in_order, _ = judged(summed)
    native, _ = judged(falcon.gemm(a, b, scheme="classical", arithmetic="native")[rows])
    cells = {}
    for scheme in SCHEMES:
        how = {"arithmetic": "fp16x3", "scheme": scheme, "max_growth": 100}
        found, bias = judged(falcon.gemm(a, b, **how)[rows])
        stated = falcon.plan(a, b, **how).growth
        cells[scheme] = {
            "over cuBLAS": found / native,
            "over sums in order": found / in_order,
            "bias": bias,
            "stated": stated,
        }
    return cells


def entry(x: dict[str, float]) -> str:
    return f"{x['over cuBLAS']:.2f} ({x['over sums in order']:.2f}) {x['bias']:.0e}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("K", nargs="*", type=int, help=f"default: {' '.join(map(str, LENGTHS))}")
    parser.add_argument("-o", metavar="FILE", type=Path, help="write a record")
    options = parser.parse_args(arguments)
    lengths = options.K or LENGTHS
    found = {
        kind: {K: measured(K, kind, kinds(K)[kind]) for K in lengths} for kind in kinds(lengths[0])
    }
    for scheme in SCHEMES:
        print(f"\n{scheme}: errors over cuBLAS's (over those of sums in order), bias")
        rows = [(kind, *(entry(of_K[K][scheme]) for K in lengths)) for kind, of_K in found.items()]
        show([("", *(f"K = {K}" for K in lengths)), *rows])
    import cupy

    entries = {}
    for name, (left, right) in single(4096).items():
        a, b = (x.astype(np.float32) for x in (left, right))
        exact = a.astype(float) @ b.astype(float)
        wrong = cupy.abs(falcon.gemm(a, b) - exact) / cupy.maximum(cupy.abs(exact), 1e-30)
        entries[name] = float(wrong.max())
        print(f"{name}: an entry errs by {entries[name]:.1e} of itself")
    if options.o is not None:
        about = device.properties(device.current())
        record = {"device": about.name, "cublas": cublas.version(), "errors": found}
        options.o.write_text(json.dumps(record | {"entries": entries}, indent=1))


if __name__ == "__main__":
    main()
