"""`bench --gpu`: falcon, its classical path, cuBLAS and torch on one GPU.

Each side is timed by events over a few calls, all in torch's current stream. Operands are random;
calls alternate between copies that together exceed the L2 cache. Errors are those of sampled rows
against float64 on the host, formed once per case.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np

import falcon
from falcon._backends import DEVICE, get_backend
from falcon._core.dtypes import CUDA, DType
from falcon._core.matrix import Matrix
from falcon._gpu import cublas, device, kernels
from falcon._gpu.arrays import library_of
from falcon._gpu.matrix import Operand
from falcon._gpu.rates import random_matrix
from falcon._gpu.steps import run

from . import compare
from .compare import Comparison, Prepared, Say, Side
from .errors import relative_error
from .records import CLASSICAL, FALCON, PACKED, panel_bytes, plan_entry
from .system import describe_machine
from .workloads import Case, Shape

# Options of falcon.gemm that apply to a GPU; threads and backend are those of the host.
_OPTIONS = ("scheme", "arithmetic", "max_growth", "workspace_limit")
_ERROR_ROWS = 32
# The first half of uneven A's rows, and of B's columns, is so many times as large as the other one.
_FACTOR = 4.0
_CUBLAS_SETTINGS = ("CUBLAS_", "CUBLASLT_", "NVIDIA_TF32_OVERRIDE")
# With so few, operands below 1 MB fit in the cache; their products are bound by launches anyway.
_MOST_COPIES = 64
Pairs = list[tuple[Any, Any]]  # of A and B


class OnGpu(Comparison):
    """Falcon's choice, the same with B packed, of uneven operands; classical, cuBLAS, torch."""

    def __init__(self, options: argparse.Namespace, settings: dict[str, Any]) -> None:
        settings = {name: settings[name] for name in _OPTIONS}
        cases = compare.cases(options, "gpu")
        if any(x.shape.batch for x in cases):
            raise ValueError("--workload batches is not for --gpu: its sides multiply two matrices")
        super().__init__(options, settings, cases)

    def machine(self) -> dict[str, Any]:
        """Return the host and the GPU: its name, driver, libraries and settings.

        The settings are cuBLAS's environment variables: products may be emulated, or rounded to
        TF32.
        """
        settings = {x: y for x, y in os.environ.items() if x.startswith(_CUBLAS_SETTINGS)}
        torch = {} if _torch() is None else {"torch": str(_torch().__version__)}
        about = get_backend(DEVICE).identity(device.current())
        return {**describe_machine(), "gpu": {**about, **torch, **settings}}

    def identity(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return the GPU, its driver and all versions; the host does not matter."""
        same = {x: machine[x] for x in ("gpu", "python", "numpy")}
        return {**super().identity(same), "threads": 0}

    def is_lost(self) -> bool:
        """Whether the device does not answer any more."""
        return device.is_lost()

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Yield sides on the current device, in torch's stream.

        Raises ValueError: no GPU can be used here (the message says why), or the dtype has no
        kernels there.
        """
        get_backend(DEVICE)
        with _stream():
            yield Prepared(_sides(case, self.settings))


def _known(name: str) -> DType:
    row = next((x for x in CUDA if x.name == name), None)
    if row is None:
        known = ", ".join(x.name for x in CUDA)
        raise ValueError(f"--dtype {name!r}; expected one of {known}")
    return row


def _sides(case: Case, options: dict[str, Any]) -> list[Side]:
    shape, row = case.shape, _known(case.dtype)
    about = device.properties(device.current())
    operands = _operands(shape, row, about.l2_bytes)
    a, b = operands[0]
    rows = slice(None, None, max(shape.M // _ERROR_ROWS, 1))

    @cache
    def exact() -> np.ndarray:
        left, right = (device.download(x).astype(np.float64) for x in (a[rows], b))
        return left @ right

    def side(
        name: str, call: Callable[..., Any], pairs: Pairs, plan: Any = None, factor: float = 1.0
    ) -> Side:
        """Return a side whose `call(a, b, out)` returns what is timed; `factor`: of `_uneven`."""
        out = device.empty((shape.M, shape.N), row.numpy)
        calls = [call(x, y, out) for x, y in pairs]

        def mean(count: int) -> float:
            start = device.event()
            for at in range(count):
                calls[at % len(calls)]()
            return max(device.seconds_between(start, device.event()) / count, 1e-9)

        def told(_: float) -> dict[str, Any]:
            calls[0]()  # the result whose error is measured
            found = device.download(out[rows]).astype(np.float64)
            found[: (shape.M // 2 + rows.step - 1) // rows.step] /= factor
            found[:, : shape.N // 2] /= factor
            error = relative_error(found, exact())
            return {"kernel": about.name, "plan": plan, "error": error,
                    "extra_bytes": panel_bytes(pairs[0][1])}  # fmt: skip

        return Side(name, mean, rest=0.0, about=told)

    def ours(name: str, pairs: Pairs, factor: float = 1.0, **how: Any) -> Side:
        def call(x: Any, y: Any, out: Any) -> Callable[[], Any]:
            return partial(falcon.gemm, x, y, out=out, **how)

        return side(name, call, pairs, plan_entry(falcon.plan(a, pairs[0][1], **how)), factor)

    packed = [(x, falcon.pack(y, rows=shape.M, **options)) for x, y in operands]
    uneven = _uneven(_operands(shape, row, about.l2_bytes))
    return [
        ours(FALCON, operands, **options),
        ours(PACKED, packed),
        ours("falcon uneven", uneven, _FACTOR, **options),
        ours(CLASSICAL, operands, **{**options, "scheme": "classical"}),
        side("cublas", partial(_cublas, row), operands),
        *([side("torch", partial(_torch_call, row), operands)] if _torch() else []),
    ]


def _operands(shape: Shape, dtype: DType, l2_bytes: int) -> Pairs:
    """Random pairs of operands, together at least twice as large as the L2 cache."""
    nbytes = (shape.M * shape.K + shape.K * shape.N) * dtype.itemsize
    copies = min(_MOST_COPIES, max(2, -(-2 * l2_bytes // max(nbytes, 1))))
    left = [_random(shape.M, shape.K, dtype, 2 * seed) for seed in range(copies)]
    right = [_random(shape.K, shape.N, dtype, 2 * seed + 1) for seed in range(copies)]
    return list(zip(left, right, strict=True))


def _uneven(pairs: Pairs) -> Pairs:
    """Multiply halves of operands by `_FACTOR`, in place: lines that schemes add up differ."""
    for a, b in pairs:
        for half in (a[: a.shape[0] // 2], b[:, : b.shape[1] // 2]):
            if 0 not in half.shape:
                x = library_of(half).matrix(half)
                run(kernels.copy(x, x, _FACTOR))
    return pairs


def _random(rows: int, columns: int, dtype: DType, seed: int) -> Any:
    source = random_matrix(rows, columns, dtype, seed).owner
    return source.view(dtype.numpy)[: rows * columns].reshape(rows, columns)


def _cublas(dtype: DType, a: Any, b: Any, out: Any) -> Callable[[], None]:
    """Return a call of cuBLAS and nothing else."""
    x, y, z = (
        Operand.of(Matrix(int(m.data.ptr), m.shape, (m.shape[1], 1), dtype)) for m in (a, b, out)
    )
    (M, K), N = a.shape, b.shape[1]
    return partial(run, *cublas.products(M, N, K, x, y, z, operand=dtype))


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


def _torch_call(dtype: DType, *arrays: Any) -> Callable[[], Any]:
    """Return torch's product of the same memory."""
    torch = _torch()

    def view(x: Any) -> Any:
        if dtype.module == "numpy":
            return torch.from_dlpack(x)
        return torch.from_dlpack(x.view(np.int16)).view(getattr(torch, dtype.name))

    a, b, out = map(view, arrays)
    return partial(torch.matmul, a, b, out=out)
