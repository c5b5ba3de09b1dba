"""`Case`: one product that is tested, by a kernel alone or by a whole call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from falcon._backends import BACKENDS, DEVICE
from falcon._core.dtypes import BFLOAT16, DType
from falcon._core.options import settings
from falcon._core.plan import Method, Plan
from falcon._core.problem import Problem
from falcon._cpu.each import Kernel
from falcon._front.gemm import gemm
from falcon._front.matmul import matmul
from falcon._front.pack import pack
from falcon._front.plan import plan
from falcon.schemes import get

# Several blocks of rows, columns and steps, with edges.
USUAL = 131, 103, 97
# What is multiplied: only the results of random numbers are rounded.
WHOLE, RANDOM, NOT_FINITE = "whole numbers", "random numbers", "NaN and Inf"
# Other forms than ``a @ b`` of matrices by rows.
BY_COLUMNS, WIDE, BATCH, PACKED = "by columns", "to accumulators", "batch", "B packed"


@dataclass(frozen=True, slots=True)
class Case:
    """What multiplies which numbers."""

    operand: DType
    sizes: tuple[int, int, int] = USUAL  # M, N, K
    values: str = WHOLE
    form: str = ""
    scheme: str = "classical"
    backend: str = ""  # of a whole call
    kernel: Kernel | None = None  # which multiplies alone, by so many threads
    threads: int = 1

    @property
    def result(self) -> DType:
        """The type of C."""
        return self.operand.wide[0] if self.form == WIDE else self.operand.result

    def where(self) -> dict[str, str]:
        """Return what a report of a wrong product says of it."""
        if self.kernel is None:
            found = {"backend": f"backend {self.backend}"}
        else:
            found = {"kernel": self.kernel.name, "instruction set": self.kernel.isa}
        found |= {"type": str(self.operand), "sizes": sizes_of(self.sizes), "scheme": self.scheme}
        found |= {"values": self.values, "form": self.form or "by rows"}
        return found | ({"threads": f"{self.threads} threads"} if self.threads > 1 else {})

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the product of matrices in NumPy's memory."""
        if self.kernel is not None:
            return self.kernel.product(a, b, self.result, self._scheme(), self.threads)
        left, right, options = self._put(a), self._put(b), self._options()
        if self.form == PACKED:
            found = gemm(left, pack(right, **options))
        else:
            found = (matmul if self.form == BATCH else gemm)(left, right, **options)
        if self.backend == DEVICE:
            import cupy

            return cupy.asnumpy(found)
        return found

    def plan(self, a: np.ndarray, b: np.ndarray) -> Plan:
        """Return the plan of ``a @ b``, which has the error bound."""
        if self.kernel is None:
            return plan(self._put(a), self._put(b), **self._options())
        row, scheme = self.operand, self._scheme()
        is_other = row.arithmetic is not None
        growth, other = self.kernel.growth(scheme), row if is_other else None
        method = Method("cpu", scheme, self.sizes, 0, rounded_growth=growth, operand=other)
        problem = Problem.of(self.sizes, row.left if is_other else row, settings())
        return Plan(problem, BACKENDS["cpu"], method, "")

    def _scheme(self) -> Any:
        return None if self.scheme == "classical" else get(self.scheme)

    def _options(self) -> Any:
        return {
            "scheme": self.scheme,
            "backend": "auto" if self.backend == DEVICE else self.backend,
        }

    def _put(self, x: np.ndarray) -> Any:
        """Return an array as users have it, where the backend multiplies."""
        x = x.view(BFLOAT16.numpy) if self.operand is BFLOAT16 else x
        if self.backend == DEVICE:
            import cupy

            return cupy.asarray(x)
        return x


def sizes_of(sizes: tuple[int, int, int]) -> str:
    """Return M, N, K as a problem is called: the shapes of A and B."""
    M, N, K = sizes
    return f"{M} x {K} @ {K} x {N}"
