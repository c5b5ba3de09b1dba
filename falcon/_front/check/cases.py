"""`Case`: one product that is tested; those of each kernel and backend, and large ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from falcon._backends import BACKENDS, DEVICE, get_backend, host_engine
from falcon._core.cpus import memory_bytes
from falcon._core.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT32, TABLE, DType
from falcon._core.options import settings
from falcon._core.plan import Method, Plan
from falcon._core.problem import Problem
from falcon._cpu.backend import cache_bytes
from falcon._cpu.each import Kernel
from falcon._front.execute import problem_of_sizes
from falcon._front.gemm import gemm
from falcon._front.matmul import matmul
from falcon._front.pack import pack
from falcon._front.plan import plan
from falcon._front.planner import predicted
from falcon.schemes import get

# Several blocks of rows, columns and steps, with edges.
USUAL = 131, 103, 97
# What is multiplied: only the results of random numbers are rounded.
WHOLE, RANDOM, NOT_FINITE = "whole numbers", "random numbers", "NaN and Inf"
# Other forms than ``a @ b`` of matrices by rows.
BY_COLUMNS, WIDE, BLOCKS = "by columns", "to accumulators", "in blocks, as large products"
BATCH, PACKED = "batch", "B packed"
SCHEMES = "classical", "strassen"
# All numbers of rows and columns that may be left of a tile at the edges of C.
_EDGES = tuple((33 + x, 65 + 5 * x % 64, 33) for x in range(64))
# Several slices of K, of which kernels take up to 1536 steps.
_LONG = 37, 45, 1601
# More threads than these take products of more columns: a thread has at least 10^6 multiply-adds.
_THREADED, _THREADS = (307, 411, 523), 64
# Bytes of the last-level cache where it is not known, and how much more a large product has.
_USUAL_CACHE, _BEYOND = 32 * 2**20, 1.5
_MEMORY_SHARE = 16
_LEAST = 300  # the least rows and columns
_LONGEST = 4.0  # seconds that a large product may be predicted to take


@dataclass(frozen=True, slots=True)
class Case:
    """What multiplies which numbers."""

    operand: DType
    sizes: tuple[int, int, int] = USUAL  # M, N, K
    values: str = WHOLE
    form: str = ""
    scheme: str = "classical"
    backend: str = ""  # of a whole call
    kernel: Kernel | None = None  # which multiplies alone
    threads: int = 1  # of a kernel

    @property
    def result(self) -> DType:
        """The type of C."""
        return self.operand.wide[0] if self.form == WIDE else self.operand.result

    def where(self) -> dict[str, str]:
        """Return what a report of a wrong product says of it."""
        who = {"backend": f"backend {self.backend}"}
        if self.kernel is not None:
            who = {"kernel": self.kernel.name, "instruction set": self.kernel.isa}
        what = {"type": str(self.operand), "sizes": sizes_of(self.sizes), "scheme": self.scheme}
        how = {"values": self.values, "form": self.form or "by rows"}
        how |= {"threads": f"{self.threads} threads"} if self.threads > 1 else {}
        return {**who, **what, **how}

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the product of matrices in NumPy's memory."""
        if self.kernel is not None:
            how = self._scheme(), self.threads, self.form == BLOCKS
            return self.kernel.product(a, b, self.result, *how)
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
        backend = "auto" if self.backend == DEVICE else self.backend
        return {"scheme": self.scheme, "backend": backend}

    def _put(self, x: np.ndarray) -> Any:
        """Return an array as users have it, where the backend multiplies."""
        x = x.view(BFLOAT16.numpy) if self.operand is BFLOAT16 else x
        if self.backend == DEVICE:
            import cupy

            return cupy.asarray(x)
        return x


def of_kernels(kernels: Iterable[Kernel]) -> Iterator[Case]:
    """Yield products of all sizes of edges, layouts and results that kernels have."""
    for x in kernels:
        usual = Case(x.operand, kernel=x)
        for sizes in (*_EDGES, _LONG):
            for form in ("", BLOCKS):
                yield replace(usual, sizes=sizes, form=form)
        yield replace(usual, form=BY_COLUMNS)
        if x.operand.wide and x.operand.pair is None:
            yield replace(usual, form=WIDE)
        for scheme, form in (("classical", ""), ("classical", BLOCKS), ("strassen", "")):
            # Sums of elements fit the panels where C has the type of the elements.
            if scheme == "classical" or x.operand.result is x.operand.left:
                yield from _both(replace(usual, scheme=scheme, form=form))


def of_threads(kernels: Iterable[Kernel], counts: Iterable[int]) -> Iterator[Case]:
    """Yield products by the best kernels, with several numbers of threads."""
    best = {x.operand: x for x in reversed(list(kernels))}
    M, N, K = _THREADED
    sizes = M, N * -(-max(counts) // _THREADS), K
    for row, scheme, count in product((FLOAT32, FLOAT64), SCHEMES, counts):
        yield Case(row, sizes, RANDOM, scheme=scheme, kernel=best[row], threads=count)


def of_backend(backend: str) -> Iterator[Case]:
    """Yield whole calls with all types of a backend."""
    for usual in whole_calls([backend], TABLE):
        yield from _both(usual)
        yield replace(usual, form=BY_COLUMNS)


def whole_calls(
    backends: Iterable[str], rows: Iterable[DType] = (FLOAT32, FLOAT64, INT32), **how: Any
) -> Iterator[Case]:
    """Yield a call for each backend, type and scheme that it has; `how`: fields of `Case`."""
    for name, row in product(backends, rows):
        backend, device = get_backend(name), 0 if name == DEVICE else None
        problem = problem_of_sizes(USUAL, row, settings(), device=device)
        if backend.why_not(problem) is None and find_spec(row.module):  # of its NumPy dtype
            refused = backend.why_classical_only(problem, get("strassen"))
            for scheme in SCHEMES if refused is None else SCHEMES[:1]:
                yield Case(row, scheme=scheme, backend=name, **how)


def _both(usual: Case) -> Iterator[Case]:
    """Yield a product of whole numbers, and one that is rounded, of up to 53 bits."""
    yield usual
    if usual.operand.unit_roundoff >= FLOAT64.unit_roundoff:
        yield replace(usual, values=RANDOM)


def large_sizes() -> tuple[int, int, int]:
    """Return odd sizes, K half as long as M and N, of matrices of float32 beyond the caches."""
    wanted = _BEYOND * max(cache_bytes().get("l3", 0), _USUAL_CACHE)
    n = max(int(sqrt(min(wanted, room()) / 8)), _LEAST)
    M, N, K = n // 2 * 2 + 3, n // 2 * 2 - 1, n // 4 * 2 + 1
    while K > _LEAST and predicted(plan((M, K), (K, N), "float32")).total > _LONGEST:
        K //= 2
    return M, N, K


def large(sizes: tuple[int, int, int]) -> Iterator[Case]:
    """Yield a large product by what "auto" chooses, and by Strassen's scheme."""
    for scheme, backend in (("auto", "auto"), ("strassen", host_engine().name)):
        yield Case(FLOAT32, sizes, RANDOM, scheme=scheme, backend=backend)


def room() -> int:
    """Return the bytes that operands and results may take."""
    return (memory_bytes() or 2**30) // _MEMORY_SHARE


def sizes_of(sizes: tuple[int, int, int]) -> str:
    """Return M, N, K as a problem is called: the shapes of A and B."""
    M, N, K = sizes
    return f"{M} x {K} @ {K} x {N}"
