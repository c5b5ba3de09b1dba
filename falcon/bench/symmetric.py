"""Symmetric products ``x.T @ x``: falcon beside the syrk of NumPy, SciPy and PyTorch's product.

``python -m falcon bench --gram [S | KxM ...]`` prints the table, for x of those shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

import falcon
from falcon._core.text import format_table
from falcon._core.timing import Estimate, Record, Side, geometric_mean, interleave

from .tables import INTERVAL

Call = Callable[[], object]
SHAPES = ((1000, 1000), (5000, 1500), (8000, 3000), (20000, 600), (2048, 2048), (4096, 4096))
# A product of x and a copy: no library can see the symmetry and save work.
_COPY = "NumPy's gemm"


def shapes(texts: list[str]) -> list[tuple[int, int]]:
    """Return the shapes (K, M) of x: "4096" is square, "5000x1500" is not."""
    found = []
    for text in texts:
        sizes = text.replace(",", "x").split("x")
        if not all(x.isdecimal() and int(x) for x in sizes) or len(sizes) > 2:
            raise ValueError(f"{text!r}: --gram takes sizes of x, such as 4096 or 5000x1500")
        found.append((int(sizes[0]), int(sizes[-1])))
    return found or list(SHAPES)


def sides(x: np.ndarray, threads: int) -> Iterator[tuple[str, Call]]:
    """Return the calls to compare, "auto" first; missing libraries are left out."""
    M = x.shape[1]
    out, copy = np.empty((M, M), x.dtype), x.copy()
    for name in ("auto", "classical"):
        yield f"falcon {name}", _falcon(x, out, name, threads)
    yield "NumPy's syrk", lambda: np.matmul(x.T, x, out=out)
    yield _COPY, lambda: np.matmul(x.T, copy, out=out)
    with suppress(ImportError):
        from scipy.linalg.blas import dsyrk, ssyrk

        syrk = ssyrk if x.dtype == np.float32 else dsyrk
        yield "SciPy's syrk (one triangle)", lambda: syrk(1.0, x.T)
    with suppress(ImportError):
        import torch

        torch.set_num_threads(threads)
        tensor = torch.from_numpy(x)
        yield "torch", lambda: tensor.T @ tensor


def _falcon(x: np.ndarray, out: np.ndarray, scheme: str, threads: int) -> Call:
    return lambda: falcon.gram(x, out=out, scheme=scheme, threads=threads)


def measure(shape: tuple[int, int], dtype: str, rounds: int, threads: int) -> list[Record]:
    """Time every side in turn."""
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    turns = [Side.of(name, call) for name, call in sides(x, threads)]
    return interleave(turns, rounds)


def format_gram(measured: dict[tuple[tuple[int, int], str], list[Record]]) -> str:
    """Return the table: milliseconds, and how many times as fast falcon is as each side."""
    rows: list[tuple[str, ...]] = [("x", "dtype", "side", "ms", "auto vs it", "classical vs it")]
    best: list[Estimate] = []
    for (shape, dtype), found in measured.items():
        auto, classical = found[:2]
        rivals = [x for x in found[2:] if x.name != _COPY]
        best.append(auto.over(min(rivals, key=lambda x: x.median)))
        for x in found:
            ratios = ("", "") if x is auto else (str(auto.over(x)), str(classical.over(x)))
            label = f"{shape[0]} x {shape[1]}", dtype
            rows.append((*label, x.name, f"{x.median * 1e3:.1f}", *ratios))
    mean, error = geometric_mean(best)
    return (
        f"{format_table(rows, left=3)}\n\n... vs it: median of the side's time over that of "
        "falcon auto (falcon classical), pair by pair,\n"
        f"{INTERVAL}\n\n"
        "falcon auto vs the fastest library of each shape: "
        f"geometric mean {mean:.3f} ±{error * mean:.3f}"
    )
