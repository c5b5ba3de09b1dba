"""Arrays as the engine takes them: views or copies of operands, C's triangles and mirror images."""

from __future__ import annotations

import numpy as np

from falcon._core.arithmetic import INT64_BY_FLOAT64
from falcon._core.dtypes import DType
from falcon._core.problem import Problem
from falcon._core.symmetric import copy_triangle
from falcon.schemes import Scheme


def readable(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an operand as the engine takes it: itself, or a converted copy."""
    kind = dtype.numpy
    return x if x.dtype == kind and is_aligned(x) else np.array(x, kind, order="C")


def is_aligned(x: np.ndarray) -> bool:
    """Whether the engine can address the array: aligned, strides of whole elements."""
    return x.flags.aligned and all(stride % x.itemsize == 0 for stride in x.strides)


def copied(problem: Problem) -> tuple[bool, bool]:
    """Whether A and B are converted first: those of another dtype or alignment."""
    of_a = not (problem.a_direct or problem.a_strided)
    return of_a, not (problem.b_direct or problem.b_strided or problem.packed)


def load(c: np.ndarray | None, target: np.ndarray, problem: Problem) -> None:
    """Copy c to where the engine adds to it."""
    if c is not None and c is not target:
        store(c, target, problem)


def store(source: np.ndarray, out: np.ndarray, problem: Problem) -> None:
    """Copy C, or the triangle of it that is wanted."""
    with np.errstate(all="ignore"):
        copy_triangle(source, out, problem.symmetric)


def triangle(problem: Problem) -> str | None:
    """Return the triangle of C that the engine forms; None: all of it."""
    return {"": None, "full": "lower"}.get(problem.symmetric, problem.symmetric)


def image(problem: Problem, target: np.ndarray, mirror: np.ndarray | None) -> np.ndarray | None:
    """Return where the engine copies what it writes to C."""
    return target.T if problem.symmetric == "full" else mirror


def needs_buffer(problem: Problem, scheme: Scheme | None, row: DType) -> bool:
    """Whether C cannot be written to directly.

    A scheme, or conversions, that add to c in place could not fall back to the classical algorithm,
    because c would be gone.
    """
    may_fall_back = scheme is not None or row.converts
    return not problem.out_direct or (problem.out_overlaps_c and may_fall_back)


def extra_bytes(problem: Problem, scheme: Scheme | None, row: DType) -> int:
    """Bytes beyond the engine's workspace: converted operands, a buffer for the product, norms."""
    norms = problem.M + problem.N if row.arithmetic is INT64_BY_FLOAT64 else 0
    buffer = problem.M * problem.N if needs_buffer(problem, scheme, row) else 0
    return copied_bytes(problem) + buffer * problem.result.itemsize + 8 * norms


def copied_bytes(problem: Problem) -> int:
    """Bytes of converted operands."""
    a, b = copied(problem)
    elements = a * problem.M * problem.K + b * problem.K * problem.N
    return elements * problem.operand.itemsize
