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
    """The operands of a call, of any strides, and the copies that they need.

    An `out` that overlaps one of them is written by way of a copy. `packed` holds the sums of B.
    """

    plan: Plan
    operands: tuple[Matrix, Matrix, Matrix | None, Matrix]
    packed: Packed | None
    copies: list[int]  # bytes of the copies of A, B, C and the result; 0: there is none
    buffers: Buffers

    @classmethod
    def of(
        cls, plan: Plan, a: Matrix, b: Matrix, c: Matrix | None, out: Matrix, packed: Packed | None
    ) -> Call:
        problem, held = plan.problem, (0, 0, 0, 0, 0, 0)
        scheme = staged(problem.operand, plan.scheme)
        copied = copies(problem.operand.left, a, None if packed else b, c, out)
        if scheme is None:  # c is copied to the result, to which cuBLAS adds
            copied = (*copied[:2], False, copied[3])
        else:
            held = buffers(local_chunk(plan), problem, scheme)
        return cls(plan, (a, b, c, out), packed, copied_bytes(problem, copied), held)

    @property
    def nbytes(self) -> int:
        """Bytes of the workspace; norms use the memory of At, Bt and H."""
        return sum(self.copies) + sum(self.buffers)

    def place(self, memory: Memory) -> list[int]:
        """Return the addresses of At, Bt, H, the marks and the powers of lines, and their end."""
        return list(accumulate(self.buffers, initial=memory.pointer + sum(self.copies)))

    def settle(self, at: int) -> tuple[tuple[Matrix, Matrix, Matrix | None, Matrix], list[Launch]]:
        """Return operands that the kernels can take, and the copies to `at` that this needs."""
        dtype = self.plan.problem.operand.left
        a, b, c, out = self.operands
        places = list(accumulate(self.copies, initial=at))
        steps = []

        def copied(x: Matrix, target: Matrix) -> Matrix:
            steps.append(kernels.copy(x, target))
            return target

        target = dense(places[3], out.shape, dtype) if self.copies[3] else out
        if self.copies[0]:
            a = copied(a, dense(places[0], a.shape, dtype))
        if self.copies[1]:
            b = copied(b, dense(places[1], b.shape, dtype))
        if c is not None and self.copies[2]:
            like = dense(places[2], out.shape, target.dtype)
            if target.by_columns:
                like = dense(places[2], out.shape[::-1], target.dtype).transposed()
            c = copied(c, like)
        return (a, b, c, target), steps


def local_chunk(plan: Plan) -> Sizes:
    """Rows, columns and inner length of the part of every block that is multiplied at a time."""
    return plan.option.tiling[3:6]


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


def copies(
    dtype: DType, a: Matrix | None, b: Matrix | None, c: Matrix | None, out: Matrix
) -> tuple[bool, bool, bool, bool]:
    """Return which of A, B, C and the result need a copy; of one that is None, none is needed.

    If the result overwrote c, it could not be added again where a region has to be repaired.
    """
    of_a, of_b = (x is not None and not readable(x, dtype) for x in (a, b))
    product = not out.is_direct or out.dtype not in (dtype, dtype.accumulator)
    product = product or any(x is not None and out.overlaps(x) for x in (a, b))
    if c is None:
        return of_a, of_b, False, product
    overlaps = c.overlaps(out)
    product = product or (overlaps and not same(c, out))
    alike = c.dtype == out.dtype and c.is_direct and c.by_columns == out.by_columns
    return of_a, of_b, product or overlaps or not alike, product


def same(x: Matrix, y: Matrix) -> bool:
    """Whether the two are one matrix in memory."""
    return (x.pointer, x.strides, x.dtype) == (y.pointer, y.strides, y.dtype)


def duplicate(x: Matrix) -> Matrix:
    """Copy a matrix to new memory."""
    memory = workspaces.allocate(library_of(x.owner), x.shape[0] * x.shape[1] * x.itemsize)
    target = dense(memory.pointer, x.shape, x.dtype, memory.owner)
    run(kernels.copy(x, target))
    return target
