"""The classical algorithm on NumPy's BLAS, and writing a product to C (with ``beta * c``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.problem import Problem
from falcon._core.symmetric import copy_triangle

from . import original

_STRIP_ELEMENTS = 32768  # of beta * c, formed strip by strip
# Blocks as large as a ufunc's own buffers for converting operands; not counted as workspace.
CONVERTED_BLOCK = 96


def copied_bytes(problem: Problem) -> int:
    """Bytes of the copies of operands that BLAS cannot read as they are."""
    a = 0 if problem.a_direct else problem.M * problem.K
    b = 0 if problem.b_direct or problem.symmetric else problem.K * problem.N
    return (a + b) * problem.operand.itemsize


def finish_bytes(problem: Problem) -> int:
    """Bytes of the product buffer and of the strip of ``beta * c``."""
    if not problem.buffered:
        return 0
    strip = max(problem.N, min(_STRIP_ELEMENTS, problem.M * problem.N))
    return problem.buffer_bytes + strip * problem.result.itemsize


def classical_workspace(problem: Problem, limit: int | None) -> int:
    """Bytes of the product buffer and of copies, without the copies if the limit forbids them."""
    copied = finish_bytes(problem) + copied_bytes(problem)
    # Without the copies, blocks are converted one at a time: slow, but within the limit.
    return copied if limit is None or copied <= limit else finish_bytes(problem)


def classical(
    problem: Problem, a: np.ndarray, b: np.ndarray, product: np.ndarray, *, copy: bool
) -> None:
    """Write ``a b`` to `product`; convert what BLAS cannot read, whole (`copy`) or in blocks."""
    if not copy:
        in_blocks(problem, a, b, product)
        return
    if not problem.a_direct:
        a = np.array(a, problem.operand.numpy, order="C")
    if problem.symmetric:
        b = a.T  # in the same memory: NumPy then calls syrk
    elif not problem.b_direct:
        b = np.array(b, problem.operand.numpy, order="C")
    original.matmul(a, b, out=product)


def in_blocks(
    problem: Problem,
    a: np.ndarray,
    b: np.ndarray,
    product: np.ndarray,
    alpha: Any = 1,
    added: np.ndarray | None = None,
    beta: Any = 0,
) -> None:
    """Write ``alpha a b + beta added`` to `product`, by blocks in the type of sums, rounded once.

    np.matmul would convert whole operands.
    """
    step, dtype = CONVERTED_BLOCK, problem.accumulator.numpy
    factor, weight = dtype.type(alpha), dtype.type(beta)
    for i, j in np.ndindex(*(-(-size // step) for size in product.shape)):
        rows, columns = (slice(x * step, (x + 1) * step) for x in (i, j))
        sums = np.zeros(product[rows, columns].shape, dtype)
        for start in range(0, a.shape[1], step):
            inner = slice(start, start + step)
            sums += original.matmul(a[rows, inner].astype(dtype), b[inner, columns].astype(dtype))
        sums *= factor
        if added is not None:
            sums += weight * added[rows, columns].astype(dtype)
        product[rows, columns] = sums
    if problem.symmetric:
        copy_triangle(product.T, product, "upper")


def store(
    product: np.ndarray, c: np.ndarray | None, beta: Any, out: np.ndarray, symmetric: str
) -> None:
    """Write ``product + beta * c``, or a triangle of it, to `out`, a strip of rows at a time.

    Matrices, or batches of them.
    """
    if beta != 0 and c is not None:
        for at in np.ndindex(product.shape[:-2]):
            _add(product[at], c[at], beta)
    # Only now may `out` be written: c may be out, or overlap it.
    if out is not product:
        copy_triangle(product, out, symmetric)


def _add(product: np.ndarray, c: np.ndarray, beta: Any) -> None:
    """Add ``beta * c`` to the product."""
    step = max(1, _STRIP_ELEMENTS // max(product.shape[1], 1))
    scratch = np.empty((min(step, product.shape[0]), product.shape[1]), product.dtype)
    for start in range(0, product.shape[0], step):
        strip = product[start : start + step]
        scaled = scratch[: strip.shape[0]]
        np.multiply(c[start : start + step], beta, out=scaled, dtype=scaled.dtype)
        np.add(strip, scaled, out=strip)
