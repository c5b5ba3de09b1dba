"""`python -m falcon bench --gpu`: falcon, its classical path, cuBLAS and torch on one GPU.

Sides take turns, each timed by events over a few calls. Operands are random and rotate over copies
that together exceed the L2 cache. Errors are those of sampled rows against float64 on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

import numpy as np

import falcon
from falcon._backends import DEVICE, get_backend
from falcon._core.dtypes import CUDA, DType
from falcon._core.text import format_table
from falcon._gpu import device
from falcon._gpu.matrix import Matrix, Operand
from falcon._gpu.rates import random_matrix

from .workloads import Shape

# A timing covers about this many seconds of calls.
_SPAN_SECONDS = 0.02
_MOST_COPIES = 8
_ERROR_ROWS = 32
SIDES = ("falcon", "packed", "classical", "cublas", "torch")


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured for one shape.

    Attributes
    ----------
    seconds : dict of str to float
        Median per side: falcon's choice, the same with B packed, falcon's classical path, cuBLAS,
        torch (where it is installed with CUDA).
    ratios : dict of str to float
        Median over the rounds of cuBLAS's time over the side's: above 1, the side is faster.
    errors : dict of str to float
        RMS error of sampled rows, relative to the product.
    """

    label: str
    device: str
    M: int
    N: int
    K: int
    dtype: str
    scheme: str
    packed_scheme: str
    workspace: int
    seconds: dict[str, float]
    ratios: dict[str, float]
    errors: dict[str, float]
    rounds: int


def run_shape(
    shape: Shape,
    dtype: str,
    rounds: int,
    options: dict[str, Any],
    tick: Callable[[], None] | None = None,
) -> Record:
    """Measure one shape on the current device.

    Parameters
    ----------
    shape : Shape
    dtype : str
        float64, float32, float16 or bfloat16.
    rounds : int
        Timings per side.
    options : dict
        Keyword arguments for `falcon.gemm`.
    tick : callable, optional
        Called after every round.

    Raises
    ------
    ValueError
        No GPU runs here (the message says why), or the dtype is none of these.
    """
    get_backend(DEVICE)
    row = next((x for x in CUDA if x.name == dtype), None)
    if row is None:
        known = ", ".join(x.name for x in CUDA)
        raise ValueError(f"--dtype {dtype!r}; expected one of {known}")
    index = device.current()
    about = device.properties(index)
    operands = _operands(shape, row, about.l2_bytes)
    a, b = operands[0]
    options = {key: value for key, value in options.items() if key != "backend"}
    plan = falcon.plan(a, b, **options)
    packed = [
        falcon.pack(y, rows=shape.M, **{k: v for k, v in options.items() if k != "check"})
        for _, y in operands
    ]
    outs = {side: device.empty((shape.M, shape.N), row.numpy) for side in SIDES}
    classical = {**options, "scheme": "classical"}
    calls: dict[str, Callable[[int], Any]] = {
        "falcon": lambda at: falcon.gemm(*operands[at], out=outs["falcon"], **options),
        "packed": lambda at: falcon.gemm(operands[at][0], packed[at], out=outs["packed"]),
        "classical": lambda at: falcon.gemm(*operands[at], out=outs["classical"], **classical),
        "cublas": lambda at: _cublas(*operands[at], outs["cublas"], row),
    }
    torch = _torch_call(operands, outs["torch"], row)
    if torch is not None:
        calls["torch"] = torch
    times = _interleaved(calls, len(operands), rounds, tick)
    for call in calls.values():
        call(0)  # what errors are taken of
    return Record(
        label=shape.label,
        device=about.name,
        M=shape.M,
        N=shape.N,
        K=shape.K,
        dtype=dtype,
        scheme=plan.option.label,
        packed_scheme="classical" if packed[0].scheme is None else packed[0].scheme.name,
        workspace=plan.workspace,
        seconds={side: median(found) for side, found in times.items()},
        ratios={
            side: median(x / y for x, y in zip(times["cublas"], found, strict=True))
            for side, found in times.items()
        },
        errors={side: _error(a, b, outs[side]) for side in calls},
        rounds=rounds,
    )


def _operands(shape: Shape, dtype: DType, l2_bytes: int) -> list[tuple[Any, Any]]:
    """Random pairs, as many as exceed the L2 cache twice."""
    nbytes = (shape.M * shape.K + shape.K * shape.N) * dtype.itemsize
    copies = min(_MOST_COPIES, max(2, -(-2 * l2_bytes // max(nbytes, 1))))
    return [
        (
            _random(shape.M, shape.K, dtype, 2 * seed),
            _random(shape.K, shape.N, dtype, 2 * seed + 1),
        )
        for seed in range(copies)
    ]


def _random(rows: int, columns: int, dtype: DType, seed: int) -> Any:
    source = random_matrix(rows, columns, dtype, seed).owner
    return source.view(dtype.numpy).reshape(rows, columns)


def _cublas(a: Any, b: Any, out: Any, dtype: DType) -> None:
    """Call cuBLAS and nothing else."""
    x, y, z = (
        Operand.of(Matrix(int(m.data.ptr), m.shape, (m.shape[1], 1), dtype)) for m in (a, b, out)
    )
    (M, K), N = a.shape, b.shape[1]
    device.multiply(M, N, K, x, y, z, sums=dtype.accumulator)


def _torch_call(
    operands: list[tuple[Any, Any]], out: Any, dtype: DType
) -> Callable[[int], Any] | None:
    """Return torch's product of the same memory; None without torch and CUDA."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None

    def view(x: Any) -> Any:
        if dtype.module == "numpy":
            return torch.from_dlpack(x)
        return torch.from_dlpack(x.view(np.int16)).view(getattr(torch, str(dtype.torch)))

    pairs, target = [(view(x), view(y)) for x, y in operands], view(out)

    def call(at: int) -> Any:
        # On the stream in which the events are recorded.
        with torch.cuda.stream(torch.cuda.ExternalStream(device.stream_pointer())):
            return torch.matmul(*pairs[at], out=target)

    return call


def _interleaved(
    calls: dict[str, Callable[[int], Any]],
    copies: int,
    rounds: int,
    tick: Callable[[], None] | None,
) -> dict[str, list[float]]:
    """Time every side once per round, in turn."""
    repeats = {}
    for side, call in calls.items():
        _seconds(call, 1, copies)  # compiles, fills the pool
        once = _seconds(call, 1, copies)
        repeats[side] = int(min(max(_SPAN_SECONDS / once, 1), 100))
    times: dict[str, list[float]] = {side: [] for side in calls}
    for _ in range(rounds):
        for side, call in calls.items():
            times[side].append(_seconds(call, repeats[side], copies))
        if tick is not None:
            tick()
    return times


def _seconds(call: Callable[[int], Any], repeats: int, copies: int) -> float:
    start = device.event()
    for at in range(repeats):
        call(at % copies)
    return max(device.seconds_between(start, device.event()) / repeats, 1e-9)


def _error(a: Any, b: Any, out: Any) -> float:
    """RMS error of some rows relative to the product, against float64 on the host."""
    step = max(out.shape[0] // _ERROR_ROWS, 1)
    rows = device.download(a[::step]).astype(np.float64)
    exact = rows @ device.download(b).astype(np.float64)
    found = device.download(out[::step]).astype(np.float64)
    return float(np.linalg.norm(found - exact) / max(float(np.linalg.norm(exact)), 1e-300))


def format_records(records: Iterable[Record]) -> str:
    """Return the table that the command prints: effective TFLOP/s, speed over cuBLAS, errors."""
    records = list(records)
    sides = [side for side in SIDES if all(side in x.seconds for x in records)]
    over = [f"{x}/cublas" for x in sides if x != "cublas"]
    head = ["layer", "M x N x K", "falcon chose", "packed", *sides, *over]
    head += ["error", "cublas's", "MiB", ""]
    rows = [head]
    for x in records:
        flops = 2.0 * x.M * x.N * x.K
        rows.append(
            [
                x.label,
                f"{x.M} x {x.N} x {x.K}",
                x.scheme,
                x.packed_scheme,
                *(f"{flops / x.seconds[side] / 1e12:.1f}" for side in sides),
                *(f"{x.ratios[side]:.3f}" for side in sides if side != "cublas"),
                f"{x.errors['falcon']:.1e}",
                f"{x.errors['cublas']:.1e}",
                f"{x.workspace / 2**20:.0f}",
                "",
            ]
        )
    means = (
        f"{side} {exp(sum(log(x.ratios[side]) for x in records) / len(records)):.3f}"
        for side in sides
        if side != "cublas"
    )
    title = f"{records[0].device}, {records[0].dtype}; effective TFLOP/s (2MNK/time)"
    return f"{title}\n\n{format_table(rows, left=4)}\n\ngeometric means over cuBLAS: " + ", ".join(
        means
    )
