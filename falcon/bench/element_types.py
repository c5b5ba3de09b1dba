"""Speed by element type: falcon's "classical" and "auto" beside float32 and PyTorch.

``python -m falcon bench --types [S]`` prints the table, for S x S x S (default 2048), of products
in the operands' type, and of int8 by uint8 in int32; and the instruction sets whose kernels do not
run here. FALCON_ISA forces an older one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import ENGINE, FLOAT32, PAIRS, DType
from falcon._core.text import format_table
from falcon._core.timing import Record, Side, interleave
from falcon._cpu.extension import missing

from .tables import INTERVAL

Call = Callable[[], object]
# A library that takes longer for one product is left out: it has only plain loops for the type.
_MOST_SECONDS = 2.0


def operands(dtype: DType, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two random matrices: normal numbers, or integers of all sizes."""
    rng = np.random.default_rng(0)
    shape = 2, size, size
    if dtype.is_exact:
        a, b = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        return a.view(dtype.left.numpy)[..., 0], b.view(dtype.right.numpy)[..., 0]
    found = rng.standard_normal(shape, np.float32).astype(dtype.numpy)
    return found[0], found[1]


def sides(size: int, threads: int) -> Iterator[tuple[DType, str, Call]]:
    """Return the calls to compare; types whose package is missing are left out."""
    for dtype in (*ENGINE, *PAIRS):
        with suppress(TypeError):
            a, b = operands(dtype, size)
            for scheme in ("classical", "auto"):
                yield dtype, scheme, _falcon(dtype, a, b, scheme, threads)
            yield from ((dtype, "torch", call) for call in _torch(dtype, a, b, threads))


def _falcon(dtype: DType, a: np.ndarray, b: np.ndarray, scheme: str, threads: int) -> Call:
    result, out = dtype.result.numpy, np.empty((len(a), b.shape[1]), dtype.result.numpy)
    how: dict[str, Any] = {"backend": "cpu", "scheme": scheme, "threads": threads}
    if dtype.pair is not None:
        how["dtype"] = result
    return lambda: falcon.gemm(a, b, out=out, **how)


def _torch(dtype: DType, a: np.ndarray, b: np.ndarray, threads: int) -> list[Call]:
    """Return PyTorch's product (oneDNN; int8 with sums in int32), unless it is a plain loop."""
    try:
        import torch
    except ImportError:
        return []
    torch.set_num_threads(threads)
    if dtype.is_exact and dtype.name != "int8":
        return []
    left, right = (
        torch.from_numpy(x.astype(np.float32) if not dtype.is_exact else x).to(
            getattr(torch, str(dtype.torch))
        )
        for x in (a, b)
    )
    multiply = torch._int_mm if dtype.is_exact else torch.mm
    start = time.perf_counter()
    multiply(left[:256], right)
    if (time.perf_counter() - start) * len(a) / 256 > _MOST_SECONDS:
        return []
    return [lambda: multiply(left, right)]


def measure(size: int, rounds: int, threads: int) -> dict[tuple[DType, str], Record]:
    """Time every side in turn."""
    calls = list(sides(size, threads))
    turns = [Side.of(f"{dtype} {side}", call) for dtype, side, call in calls]
    found = interleave(turns, rounds, most=rounds, seconds=float("inf"))
    return {call[:2]: record for call, record in zip(calls, found, strict=True)}


def format_types(measured: dict[tuple[DType, str], Record], size: int) -> str:
    """Return the table: effective rates, ratios to float32 and PyTorch, what was left out."""
    rows: list[tuple[str, ...]] = [
        ("dtype", "side", "Gop/s", "over falcon's classical float32", "over torch", "")
    ]
    for (dtype, side), record in measured.items():
        bases = measured[FLOAT32, "classical"], measured.get((dtype, "torch"))
        ratios = ["" if x is None or x is record else str(record.over(x)) for x in bases]
        rows.append((dtype.name, side, f"{2e-9 * size**3 / record.median:.0f}", *ratios, ""))
    left_out = [f"left out: kernels of {name} ({why})" for name, why in missing().items()]
    about = f"over X: median of X's time over the side's, round by round, {INTERVAL}"
    return "\n".join([format_table(rows, left=2), "", about, *left_out])
