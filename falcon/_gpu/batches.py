"""Batches of matrices, multiplied by one call of cuBLAS."""

from __future__ import annotations

from dataclasses import dataclass

from falcon._core.dtypes import DType

from . import cublas
from .matrix import Matrix, Memory, Operand
from .steps import run


@dataclass(frozen=True, slots=True)
class Batch:
    """Matrices at equal distances."""

    first: Matrix
    count: int
    step: int  # elements from one to the next

    @classmethod
    def of(cls, first: Matrix, shape: tuple[int, ...], strides: tuple[int, ...]) -> Batch | None:
        """Return a batch with these axes, strides in elements; None if the distances differ."""
        count, step = 1, 0
        for size, stride in zip(reversed(shape), reversed(strides), strict=True):
            if size == 1:
                continue
            if count == 1:
                step = stride
            elif stride != count * step:
                return None
            count *= size
        return cls(first, count, step)


def multiply(
    a: Batch | None,
    b: Batch | None,
    out: Batch | None,
    *,
    operand: DType,
    workspace: Memory | None,
) -> bool:
    """Write ``a @ b`` to `out`, all matrices at once; False if cuBLAS cannot do it in one call."""
    if a is None or b is None or out is None or operand.parts > 1:
        return False
    (M, N), K, dtype = out.first.shape, a.first.shape[1], a.first.dtype
    if 0 in (M, N, K, out.count) or min(a.step, b.step) < 0 or (out.count > 1 and out.step <= 0):
        return False
    if b.first.dtype != dtype or out.first.dtype != dtype:
        return False
    if not all(x.first.is_direct for x in (a, b, out)):
        return False
    left, right, target = (
        Operand(x.first.pointer, x.first.ld, x.first.by_columns, x.step, dtype) for x in (a, b, out)
    )
    operands = left, right, target
    product = cublas.product(M, N, K, *operands, batch=out.count, operand=operand)
    run(product, workspace=workspace)
    return True
