"""`Case`: one product that is tested: its operands, the exact product, and what is wrong with C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from math import isqrt
from typing import Any

import numpy as np

from falcon import gemm, matmul, pack, plan, verify
from falcon._backends import DEVICE, ENGINE
from falcon._core.dtypes import BFLOAT16, DType
from falcon._core.options import settings
from falcon._core.plan import Method, Plan
from falcon._core.problem import Problem
from falcon._cpu.each import Kernel
from falcon.schemes import get

# Several blocks of rows, columns and steps, with edges.
USUAL = 131, 103, 97
# What is multiplied: only the results of random numbers are rounded.
WHOLE, RANDOM, NOT_FINITE = "whole numbers", "random numbers", "NaN and Inf"
# Other forms than ``a @ b`` of matrices by rows.
BY_COLUMNS, WIDE, BLOCKS = "by columns", "to accumulators", "in blocks, as large products"
BATCH, PACKED = "batch", "B packed"
# Whole numbers of floats: so small that no sum of them is rounded. Of integers that float64
# kernels multiply: their sums stay below 2^53.
_SMALL, _MIDDLE = 4, 2**18
# Bits of the leading parts of numbers below 1: sums of 2^13 products of such parts are exact.
_LEADING = 2.0**20
# Of more entries than these, evenly spaced ones are compared, and all by Freivalds' test.
_COMPARED = 2**14


@dataclass(frozen=True, slots=True)
class Case:
    """What multiplies which numbers."""

    operand: DType
    kernel: Kernel | None = None  # which multiplies alone
    backend: str = ""  # of a whole call
    sizes: tuple[int, int, int] = USUAL  # M, N, K
    values: str = WHOLE
    form: str = ""
    scheme: str = "classical"
    threads: int = 1  # of a kernel
    modulus: int = 0  # of a whole call; 0: there is none

    @property
    def result(self) -> DType:
        """The type of C."""
        return self.operand.wide[0] if self.form == WIDE else self.operand.result

    def where(self) -> dict[str, str]:
        """Return what a report of a wrong product says of it."""
        M, N, K = self.sizes
        about = {"backend": f"backend {self.backend}"}
        if self.kernel is not None:
            about = {"kernel": self.kernel.name, "instruction set": self.kernel.isa}
        about |= {"type": str(self.operand), "sizes": f"{M} x {K} @ {K} x {N}"}
        about |= {"scheme": self.scheme, "values": self.values, "form": self.form or "by rows"}
        about |= {"threads": f"{self.threads} threads"} if self.threads > 1 else {}
        return about | ({"modulus": f"modulo {self.modulus}"} if self.modulus else {})

    def run(self) -> tuple[str, float]:
        """Multiply; return what is wrong ("" if nothing is) and the largest error over its bound.

        Whole numbers must be right bit for bit, as must what several threads multiply.
        """
        left, right, kind = self.operand.left, self.operand.right, self.result
        layout = self.form if self.form in (BATCH, BY_COLUMNS) else ""
        a, b = operands(self.operand, self.sizes, self.values, layout)
        try:
            c = self.product(a, b)
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, it is what the user wants to be told
            return f"raised {type(error).__name__}: {error}", 0.0
        if self.threads > 1:
            return compared(c, replace(self, threads=1).product(a, b))
        if self.values != RANDOM:
            rows, columns, p = numbers(a, left), numbers(b, right), self.modulus
            if p:
                return compared(c, _multiplied(rows % p, columns % p) % p)
            exact = held(_multiplied(rows, columns), kind)
            return compared(numbers(c, kind), numbers(exact, kind))
        step, made = max(1, isqrt(c.size // _COMPARED)), self._plan(a, b)
        rows, columns = numbers(a[::step], left), numbers(b[:, ::step], right)
        some, bound = numbers(c[::step, ::step], kind), made.error_bound(rows, columns)
        wrong, ratio = compared(some, *product(rows, columns), bound, step)
        if step > 1 and not wrong:
            test = verify(a, b, c, growth=made.growth)
            wrong = f"Freivalds' test: {test.why}" if test.is_wrong else ""
        return wrong, ratio

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the product of matrices in NumPy's memory."""
        if self.kernel is not None:
            how = {"threads": self.threads, "is_blocked": self.form == BLOCKS}
            return self.kernel.product(a, b, self.result, self._scheme(), **how)
        left, right, options = self._call(a, b)
        if self.form == PACKED:
            right = pack(right, **options)
        found = (matmul if self.form == BATCH else gemm)(left, right, **options)
        return import_module("cupy").asnumpy(found) if self.backend == DEVICE else found

    def _plan(self, a: np.ndarray, b: np.ndarray) -> Plan:
        """Return the plan of ``a @ b``, which has the error bound."""
        if self.kernel is None:
            left, right, options = self._call(a, b)
            return plan(left, right, **options)
        row, scheme = self.operand, self._scheme()
        growth, other = self.kernel.growth(scheme), None if row.arithmetic is None else row
        method = Method(ENGINE.name, scheme, self.sizes, 0, rounded_growth=growth, operand=other)
        problem = Problem.of_sizes(self.sizes, row.left if other else row, settings())
        return Plan(problem, ENGINE, method, "")

    def _scheme(self) -> Any:
        return None if self.scheme == "classical" else get(self.scheme)

    def _call(self, *matrices: Any) -> Any:
        """Return matrices as users have them, where the backend multiplies, and the options."""
        if self.operand is BFLOAT16:
            matrices = tuple(x.view(BFLOAT16.numpy) for x in matrices)
        backend = self.backend
        if backend == DEVICE:
            matrices, backend = tuple(map(import_module("cupy").asarray, matrices)), "auto"
        options = {"scheme": self.scheme, "backend": backend, "modulus": self.modulus or None}
        return *matrices, options


@lru_cache(maxsize=4)
def operands(
    row: DType, sizes: tuple[int, int, int], values: str, form: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices as kernels take them, or stacks; the last ones are kept for the next case."""
    M, N, K = sizes
    random = np.random.default_rng(sizes)
    a = held(_drawn(random, (M, K), row.left, row, values), row.left)
    b = held(_drawn(random, (K, N), row.right, row, values), row.right)
    if values == NOT_FINITE:
        a[2, 3], a[M // 2, K - 1], b[5, 7] = np.nan, -np.inf, np.inf
    if form == BATCH:  # which are broadcast
        a, b = np.stack([a, a[::-1], -a])[:, None], np.stack([b, b[:, ::-1]])
    if form == BY_COLUMNS:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    return a, b


def _drawn(random: Any, shape: tuple[int, int], kind: DType, row: DType, values: str) -> np.ndarray:
    if row.part is not None:
        real, imaginary = (_drawn(random, shape, row.part, row.part, values) for _ in range(2))
        return real + 1j * imaginary
    if values == RANDOM:
        return random.uniform(-1, 1, shape)
    if row.is_exact and row.arithmetic is None:  # all that the type holds
        limits = np.iinfo(kind.numpy)
        return random.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)
    most = _MIDDLE if row.is_exact else _SMALL
    return random.integers(-most, most, shape, endpoint=True)


def held(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return numbers rounded (or wrapped) to a type; bfloat16 as the integers that hold it."""
    if kind is not BFLOAT16:
        return x.astype(kind.numpy)
    x = x.astype(np.float32)
    bits = x.view(np.uint32)
    nearest = bits + (0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, nearest).astype(np.uint16)


def numbers(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return the numbers of a type in float64 (complex128) or more, or in int64 modulo 2^64."""
    if kind is BFLOAT16:
        x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.int64 if kind.is_exact else np.result_type(x, np.float64))


def product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices whose sum is ``a b``, for entries between -1 and 1, to 70 bits.

    Products of the leading 20 bits are summed exactly, and the rest is 2^-20 of it.
    """
    first, second = (np.round(x * _LEADING) / _LEADING for x in (a, b))
    rest = _multiplied(first, b - second) + _multiplied(a - first, b)
    return _multiplied(first, second), rest


def _multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # in loops of its own, without a BLAS:
        return np.einsum("...ik,...kj->...ij", a, b)


def compared(
    c: np.ndarray, exact: np.ndarray, rest: Any = 0, bound: Any = None, step: int = 1
) -> tuple[str, float]:
    """Return how C differs from ``exact + rest`` ("" if it does not), and its error over the bound.

    Without a bound it must be the same in every bit; NaN is as NaN. `step`: which rows and columns
    of C these are.
    """
    if c.shape != exact.shape:
        return f"its shape is {c.shape}, not {exact.shape}", 0.0
    if bound is None:
        ratios = np.where((c == exact) | ((c != c) & (exact != exact)), 0.0, np.inf)
    else:
        ratios = np.abs((c - exact) - rest) / bound
    differs = ~(ratios <= 1)
    if not differs.any():
        return "", float(ratios.max(initial=0))
    at = np.unravel_index(np.argmax(ratios), ratios.shape)  # a NaN, if there is one
    what = f"{np.count_nonzero(differs)} of {differs.size} entries differ, entry "
    what += f"{[int(x) * step for x in at]}: {c[at]}, not {exact[at]}"
    return what + ("" if bound is None else f", {ratios[at]:.3g} times the bound"), 0.0
