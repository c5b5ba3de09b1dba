"""The operands of a call, the copies that some need, and the addresses of its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from falcon._core.dtypes import DType
from falcon._core.plan import Plan
from falcon._core.problem import Problem

from . import kernels, workspaces
from .arrays import library_of
from .geometry import Buffers, Sizes, aligned, buffers, staged
from .matrix import Matrix, Memory, dense
from .packed import Packed
from .steps import Launch, run


@dataclass(frozen=True)
class Call:
    """The operands of a call, and the copies that they need."""

    plan: Plan
    operands: tuple[Matrix, Matrix, Matrix | None, Matrix]
    copied: tuple[bool, bool, bool, bool]
    packed: Packed | None

    @classmethod
    def of(
        cls, plan: Plan, a: Matrix, b: Matrix, c: Matrix | None, out: Matrix, packed: Packed | None
    ) -> Call:
        dtype, scheme = plan.problem.operand.left, staged(plan.problem.operand, plan.scheme)
        product = needs_product(out, a, None if packed else b, c, dtype)
        added = scheme is not None and c is not None and needs_copy(c, None if product else out)
        of_b = packed is None and not readable(b, dtype)
        return cls(plan, (a, b, c, out), (not readable(a, dtype), of_b, added, product), packed)

    @property
    def _copies(self) -> list[int]:
        return copied_bytes(self.plan.problem, self.copied)

    @property
    def _buffers(self) -> Buffers:
        problem = self.plan.problem
        scheme = staged(problem.operand, self.plan.scheme)
        if scheme is None:
            return 0, 0, 0, 0, 0, 0
        return buffers(local_chunk(self.plan), problem, scheme)

    @property
    def nbytes(self) -> int:
        """Bytes of the workspace; norms use the memory of At, Bt and H."""
        return sum(self._copies) + sum(self._buffers)

    def place(self, memory: Memory) -> list[int]:
        """Return the addresses of At, Bt, H, the marks and the powers of lines, and their end."""
        return list(accumulate(self._buffers, initial=memory.pointer + sum(self._copies)))

    def settle(self, at: int) -> tuple[tuple[Matrix, Matrix, Matrix | None, Matrix], list[Launch]]:
        """Return operands that the kernels can take, and the copies to `at` that this needs."""
        dtype = self.plan.problem.operand.left
        a, b, c, out = self.operands
        places = list(accumulate(self._copies, initial=at))
        copies = []

        def copied(x: Matrix, target: Matrix) -> Matrix:
            copies.append(kernels.copy(x, target))
            return target

        target = dense(places[3], out.shape, dtype) if self.copied[3] else out
        if self.copied[0]:
            a = copied(a, dense(places[0], a.shape, dtype))
        if self.copied[1]:
            b = copied(b, dense(places[1], b.shape, dtype))
        if c is not None and self.copied[2]:
            like = dense(places[2], out.shape, target.dtype)
            if target.by_columns:
                like = dense(places[2], out.shape[::-1], target.dtype).transposed()
            c = copied(c, like)
        return (a, b, c, target), copies


def local_chunk(plan: Plan) -> Sizes:
    """Rows, columns and inner length of the part of every block that is multiplied at a time."""
    return plan.option.tiling[3:6]  # type: ignore[return-value]


def copied_bytes(problem: Problem, copied: tuple[bool, bool, bool, bool]) -> list[int]:
    """Return the bytes of the copies of A, B, C and the result, each aligned; 0: there is none."""
    M, N, K = problem.M, problem.N, problem.K
    item, sums = problem.operand.itemsize, problem.operand.accumulator.itemsize
    # The copy of c may have the sums' dtype, as out may.
    sizes = M * K * item, K * N * item, M * N * sums, M * N * item
    return [aligned(size) * needed for size, needed in zip(sizes, copied, strict=True)]


def readable(x: Matrix, dtype: DType) -> bool:
    """Whether cuBLAS and the kernels can read the matrix without a copy."""
    return x.dtype == dtype and x.is_direct


def needs_product(out: Matrix, a: Matrix, b: Matrix | None, c: Matrix | None, dtype: DType) -> bool:
    """Whether the product needs a buffer of its own, from which it is copied to `out`."""
    if not out.is_direct or out.dtype not in (dtype, dtype.accumulator):
        return True
    if c is not None and c.overlaps(out) and not same(c, out):
        return True
    return out.overlaps(a) or (b is not None and out.overlaps(b))


def same(x: Matrix, y: Matrix) -> bool:
    """Whether the two are one matrix in memory."""
    return (x.pointer, x.strides, x.dtype) == (y.pointer, y.strides, y.dtype)


def needs_copy(c: Matrix, out: Matrix | None) -> bool:
    """Whether Combine H needs a copy of `c` to add it to `out` (None: to a buffer by rows).

    If `out` overwrote c, it could not be added again where a region has to be repaired.
    """
    if out is None:
        return True
    alike = c.dtype == out.dtype and c.is_direct and c.by_columns == out.by_columns
    return not alike or c.overlaps(out)


def duplicate(x: Matrix) -> Matrix:
    """Copy a matrix to new memory."""
    memory = workspaces.allocate(library_of(x.owner), x.shape[0] * x.shape[1] * x.itemsize)
    target = dense(memory.pointer, x.shape, x.dtype, memory.owner)
    run(kernels.copy(x, target))
    return target
