"""`python -m falcon bench --gpu`: falcon, its classical path, cuBLAS and torch on one GPU.

Each side is timed by events over a few calls, all in torch's current stream. Operands are random;
calls alternate between copies that together exceed the L2 cache. Errors are those of sampled rows
against float64 on the host, formed once per case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._backends import DEVICE, get_backend
from falcon._core.dtypes import CUDA, DType
from falcon._core.timing import Side
from falcon._gpu import cublas, device
from falcon._gpu.matrix import Matrix, Operand
from falcon._gpu.rates import random_matrix
from falcon._gpu.steps import run

from .errors import relative_error
from .here import Timing
from .records import case_entry, plan_entry
from .workloads import Case, Shape

_ERROR_ROWS = 32
_CUBLAS_SETTINGS = ("CUBLAS_", "CUBLASLT_", "NVIDIA_TF32_OVERRIDE")
# With so few, operands below 1 MB fit in the cache; their products are bound by launches anyway.
_MOST_COPIES = 64


def measure(case: Case, options: dict[str, Any], timing: Timing) -> dict[str, Any]:
    """Measure one shape on the current device.

    `case`: its dtype is float64, float32, float16 or bfloat16.
    `options`: keyword arguments of `falcon.gemm`.
    Returns dict: the case, as a record file holds it: falcon's choice, the same with B packed,
    falcon's classical path, cuBLAS, and torch if it is installed with CUDA.
    Raises ValueError: no GPU can be used here (the message says why), or the dtype is none of
    these.
    """
    get_backend(DEVICE)
    with _stream():
        return _measured(case, options, timing)


def describe() -> dict[str, str]:
    """Return a record file's entry on the device: its name, driver, libraries and settings.

    The settings are cuBLAS's environment variables: products may be emulated, or rounded to TF32.
    """
    settings = {x: y for x, y in os.environ.items() if x.startswith(_CUBLAS_SETTINGS)}
    torch = {} if _torch() is None else {"torch": str(_torch().__version__)}
    return {**get_backend(DEVICE).identity(device.current()), **torch, **settings}


def _known(name: str) -> DType:
    row = next((x for x in CUDA if x.name == name), None)
    if row is None:
        known = ", ".join(x.name for x in CUDA)
        raise ValueError(f"--dtype {name!r}; expected one of {known}")
    return row


def _measured(case: Case, options: dict[str, Any], timing: Timing) -> dict[str, Any]:
    shape, row = case.shape, _known(case.dtype)
    about = device.properties(device.current())
    operands = _operands(shape, row, about.l2_bytes)
    a, b = operands[0]
    plan = plan_entry(falcon.plan(a, b, **options))
    packed = [falcon.pack(y, rows=shape.M, **options) for _, y in operands]
    scheme = "classical" if packed[0].scheme is None else packed[0].scheme.name
    classical = {**options, "scheme": "classical"}
    facts: dict[str, Any] = {
        "falcon": plan,
        "falcon packed": {**plan, "scheme": scheme},
        "falcon classical": plan_entry(falcon.plan(a, b, **classical)),
        "cublas": None,
        "torch": None,
    }
    outs = {name: device.empty((shape.M, shape.N), row.numpy) for name in facts}
    torch = _torch_call(operands, outs["torch"], row)
    products = [_cublas(x, y, outs["cublas"], row) for x, y in operands]
    calls: dict[str, Callable[[int], Any]] = {
        "falcon": lambda at: falcon.gemm(*operands[at], out=outs["falcon"], **options),
        "falcon packed": lambda at: falcon.gemm(
            operands[at][0], packed[at], out=outs["falcon packed"]
        ),
        "falcon classical": lambda at: falcon.gemm(
            *operands[at], out=outs["falcon classical"], **classical
        ),
        "cublas": lambda at: products[at](),
        **({"torch": torch} if torch else {}),
    }
    sides = [_side(name, call, len(operands)) for name, call in calls.items()]
    measured = timing(sides)
    described, rows = {}, slice(None, None, max(shape.M // _ERROR_ROWS, 1))
    left, right = (device.download(x).astype(np.float64) for x in (a[rows], b))
    exact = left @ right
    for name, call in calls.items():
        call(0)  # the result whose error is measured
        error = relative_error(device.download(outs[name][rows]), exact)
        described[name] = {"kernel": about.name, "plan": facts[name], "error": error}
    return case_entry(case, measured, described)


def _side(name: str, call: Callable[[int], Any], copies: int) -> Side:
    def mean(calls: int) -> float:
        start = device.event()
        for at in range(calls):
            call(at % copies)
        return max(device.seconds_between(start, device.event()) / calls, 1e-9)

    return Side(name, mean, rest=0.0)


def _operands(shape: Shape, dtype: DType, l2_bytes: int) -> list[tuple[Any, Any]]:
    """Random pairs of operands, together at least twice as large as the L2 cache."""
    nbytes = (shape.M * shape.K + shape.K * shape.N) * dtype.itemsize
    copies = min(_MOST_COPIES, max(2, -(-2 * l2_bytes // max(nbytes, 1))))
    left = [_random(shape.M, shape.K, dtype, 2 * seed) for seed in range(copies)]
    right = [_random(shape.K, shape.N, dtype, 2 * seed + 1) for seed in range(copies)]
    return list(zip(left, right, strict=True))


def _random(rows: int, columns: int, dtype: DType, seed: int) -> Any:
    source = random_matrix(rows, columns, dtype, seed).owner
    return source.view(dtype.numpy)[: rows * columns].reshape(rows, columns)


def _cublas(a: Any, b: Any, out: Any, dtype: DType) -> Callable[[], None]:
    """Return a call of cuBLAS and nothing else."""
    x, y, z = (
        Operand.of(Matrix(int(m.data.ptr), m.shape, (m.shape[1], 1), dtype)) for m in (a, b, out)
    )
    (M, K), N = a.shape, b.shape[1]
    return partial(run, cublas.product(M, N, K, x, y, z, operand=dtype))


def _torch() -> Any:
    """Return torch; None without it or without CUDA."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _stream() -> AbstractContextManager[Any]:
    """Make torch's current stream that of CuPy, in which falcon works and events are recorded."""
    torch = _torch()
    if torch is None:
        return nullcontext()
    stream = int(torch.cuda.current_stream().cuda_stream)
    return device.on_stream(stream, device.current())


def _torch_call(
    operands: list[tuple[Any, Any]], out: Any, dtype: DType
) -> Callable[[int], Any] | None:
    """Return torch's product of the same memory; None without torch or without CUDA."""
    torch = _torch()
    if torch is None:
        return None

    def view(x: Any) -> Any:
        if dtype.module == "numpy":
            return torch.from_dlpack(x)
        return torch.from_dlpack(x.view(np.int16)).view(getattr(torch, str(dtype.torch)))

    pairs, target = [(view(x), view(y)) for x, y in operands], view(out)

    def call(at: int) -> Any:
        return torch.matmul(*pairs[at], out=target)

    return call
