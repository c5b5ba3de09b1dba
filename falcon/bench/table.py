"""The main job: multiply real shapes with falcon and NumPy side by side, and tell what ran."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

import numpy as np

import falcon
from falcon._core.text import format_table
from falcon._front.info import cpu_model, numpy_blas

from .measure import interleave, sampled_error
from .workloads import Shape, operands


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured for one shape; times are medians in seconds, rates effective."""

    label: str
    M: int
    N: int
    K: int
    dtype: str
    backend: str
    scheme: str
    workspace: int
    predicted_growth: float
    falcon_seconds: float
    classical_seconds: float
    numpy_seconds: float
    falcon_gflops: float
    classical_gflops: float
    numpy_gflops: float
    ratio: float
    ratio_to_classical: float
    falcon_error: float
    numpy_error: float
    rounds: int


def run_shape(
    shape: Shape,
    dtype: np.dtype,
    rounds: int,
    options: dict[str, Any],
    tick: Callable[[], None] | None = None,
) -> Record:
    """Measure falcon's choice, falcon's classical path and np.matmul on random data.

    Parameters
    ----------
    shape : Shape
    dtype : numpy.dtype
    rounds : int
        Interleaved rounds.
    options : dict
        Keyword arguments for `falcon.gemm`.
    tick : callable, optional
        Called after every timing.
    """
    a, b = operands(shape, dtype, seed=shape.M + shape.N + shape.K)
    outs = [np.empty((shape.M, shape.N), dtype) for _ in range(3)]
    plan = falcon.plan(a, b, **options)
    classical = {**options, "scheme": "classical"}
    pairs = interleave(
        [
            lambda: falcon.gemm(a, b, out=outs[0], **options),
            lambda: falcon.gemm(a, b, out=outs[1], **classical),
            lambda: np.matmul(a, b, out=outs[2]),
        ],
        rounds,
        tick,
    )
    seconds = [pairs.median_seconds(side) for side in range(3)]
    flops = 2.0 * shape.M * shape.N * shape.K
    gflops = [flops / x / 1e9 for x in seconds]
    return Record(
        label=shape.label,
        M=shape.M,
        N=shape.N,
        K=shape.K,
        dtype=dtype.name,
        backend=plan.backend.name,
        scheme=plan.option.label,
        workspace=plan.workspace,
        predicted_growth=plan.growth,
        falcon_seconds=seconds[0],
        classical_seconds=seconds[1],
        numpy_seconds=seconds[2],
        falcon_gflops=gflops[0],
        classical_gflops=gflops[1],
        numpy_gflops=gflops[2],
        ratio=pairs.ratio(0, 2),
        ratio_to_classical=pairs.ratio(0, 1),
        falcon_error=sampled_error(a, b, outs[0]),
        numpy_error=sampled_error(a, b, outs[2]),
        rounds=rounds,
    )


def format_records(records: Iterable[Record]) -> str:
    """Return the table that `python -m falcon bench` prints, with geometric means."""
    records = list(records)
    head = ("layer", "M x N x K", "falcon chose", "falcon", "classical", "numpy",
            "vs numpy", "vs classical", "rms error", "numpy's", "MiB", "")  # fmt: skip
    rows = [head]
    for x in records:
        rows.append(
            (
                x.label,
                f"{x.M} x {x.N} x {x.K}",
                f"{x.scheme} ({x.backend})",
                f"{x.falcon_gflops:.1f}",
                f"{x.classical_gflops:.1f}",
                f"{x.numpy_gflops:.1f}",
                f"{x.ratio:.3f}",
                f"{x.ratio_to_classical:.3f}",
                f"{x.falcon_error:.1e}",
                f"{x.numpy_error:.1e}",
                f"{x.workspace / 2**20:.0f}",
                "",
            )
        )
    ratios = [exp(sum(log(getattr(x, name)) for x in records) / len(records))
              for name in ("ratio", "ratio_to_classical")]  # fmt: skip
    notes = (
        f"falcon, classical, numpy: effective GFLOP/s (2MNK/time), {records[0].dtype}, median of "
        f"{records[0].rounds} interleaved rounds\n"
        f"geometric mean of the ratios of times: {ratios[0]:.3f} vs numpy, "
        f"{ratios[1]:.3f} vs falcon's own classical path"
    )
    return f"{format_table(rows, left=3)}\n{notes}"


def document(records: Iterable[Record]) -> dict[str, Any]:
    """Return the JSON document of a run: the records and what they were measured on."""
    return {
        "falcon": falcon.__version__,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numpy_blas": numpy_blas(),
        "records": [asdict(x) for x in records],
    }
