"""`bench --device cuda`: falcon, its classical path, gram and cuBLAS on the current GPU.

Each side is timed by events over a few calls, in CuPy's current stream.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import falcon
from falcon._backends import DEVICE, get_backend
from falcon._core.dtypes import ON_GPUS, dtype_of
from falcon._gpu import cublas, device
from falcon._gpu.arrays import library_of
from falcon._gpu.matrix import Operand
from falcon._gpu.rates import run_seconds
from falcon._gpu.steps import run

from . import compare
from .compare import Comparison, Prepared, Say, Side
from .errors import Sample
from .records import CLASSICAL, FALCON, PACKED, panel_bytes, plan_entry
from .system import describe_machine
from .workloads import Case, operands

# Options of falcon.gemm that apply to a GPU; threads and backend are those of the host.
_OPTIONS = ("scheme", "arithmetic", "max_growth", "workspace_limit")
GRAM = "falcon gram"
# Variables by which cuBLAS emulates products, or rounds to TF32.
_CUBLAS_SETTINGS = ("CUBLAS_", "CUBLASLT_", "NVIDIA_TF32_OVERRIDE")


class OnGpu(Comparison):
    """Falcon's choice, the same with B packed, its classical path, and cuBLAS by itself.

    Of square results also `falcon.gram`, which computes a product of these sizes.
    """

    def __init__(self, options: argparse.Namespace, settings: dict[str, Any]) -> None:
        cases, known = compare.cases(options, "gpu"), ", ".join(x.name for x in ON_GPUS)
        for x in cases:
            if x.shape.batch or dtype_of(x.dtype) not in ON_GPUS:
                raise ValueError(f"--device cuda takes no {x.key}; expected matrices of {known}")
        super().__init__(options, {name: settings[name] for name in _OPTIONS}, cases)

    def machine(self) -> dict[str, Any]:
        """Return the host and the GPU: its name, driver, libraries, and cuBLAS's settings."""
        settings = {x: y for x, y in os.environ.items() if x.startswith(_CUBLAS_SETTINGS)}
        about = get_backend(DEVICE).identity(device.current())
        return {**describe_machine(), "gpu": {**about, **settings}}

    def identity(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return the GPU, its driver and all versions; the host does not matter."""
        same = {x: machine[x] for x in ("gpu", "python", "numpy")}
        return {**super().identity(same), "threads": 0}

    def is_lost(self) -> bool:
        """Whether the device does not answer any more."""
        return device.is_lost()

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Yield sides that share operands and an output."""
        shape, row = case.shape, dtype_of(case.dtype)
        host = operands(shape, row.numpy, case.seed)
        sample, (a, b) = Sample(*host), map(device.upload, host)
        out = device.empty((shape.M, shape.N), row.numpy)

        def side(
            name: str, call: Callable[[], Any], sample: Sample = sample, **fields: Any
        ) -> Side:
            def about(_: float) -> dict[str, Any]:
                call()  # the result whose error is measured
                return {**fields, "error": sample.error(device.download(out))}

            return Side(name, lambda count: run_seconds(call, count) / count, 0.0, about=about)

        def ours(name: str, right: Any, **how: Any) -> Side:
            about: dict[str, Any] = {"plan": plan_entry(falcon.plan(a, right, **how))}
            call = partial(falcon.gemm, a, right, out=out, **how)
            return side(name, call, **about, extra_bytes=panel_bytes(right))

        if row.is_complex:
            by_cublas = partial(import_module("cupy").matmul, a, b, out=out)
        else:
            x, y, z = (Operand.of(library_of(m).matrix(m)) for m in (a, b, out))
            steps = cublas.products(shape.M, shape.N, shape.K, x, y, z, operand=row)
            by_cublas = partial(run, *steps)
        packed = falcon.pack(b, rows=shape.M, **self.settings)
        sides = [
            ours(FALCON, b, **self.settings), ours(PACKED, packed),
            ours(CLASSICAL, b, **{**self.settings, "scheme": "classical"}),
            side("cublas", by_cublas),
        ]  # fmt: skip
        if shape.M == shape.N:
            gram = partial(falcon.gram, b, out=out, **self.settings)
            sides.append(side(GRAM, gram, Sample(host[1].conj().T, host[1])))
        yield Prepared(sides)
