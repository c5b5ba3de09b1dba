"""Arrays as the engine takes them: views or copies of operands, C's triangles and mirror images."""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.problem import Problem
from falcon._core.symmetric import copy_triangle

from .extension import seen


def readable(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return what the engine can take of an operand: a view, or a converted copy."""
    kind = dtype.numpy
    return seen(x if x.dtype == kind and is_aligned(x) else np.array(x, kind, order="C"), dtype)


def is_aligned(x: np.ndarray) -> bool:
    """Whether the engine can address the array: aligned, strides of whole elements."""
    return x.flags.aligned and all(stride % x.itemsize == 0 for stride in x.strides)


def load(c: np.ndarray | None, target: np.ndarray, problem: Problem) -> None:
    """Put c where the engine adds to it."""
    if c is not None and c is not target:
        store(c, target, problem)


def store(source: np.ndarray, out: np.ndarray, problem: Problem) -> None:
    """Copy what of C is asked for."""
    with np.errstate(all="ignore"):
        if problem.symmetric in ("lower", "upper"):
            copy_triangle(source, out, problem.symmetric)
        else:
            np.copyto(out, source, casting="same_kind")


def triangle(problem: Problem) -> str | None:
    """Return the triangle of C that the engine forms; None: all of it."""
    return {"": None, "full": "lower"}.get(problem.symmetric, problem.symmetric)


def images(problem: Problem, target: np.ndarray, mirror: np.ndarray | None) -> dict[str, Any]:
    """Return what the engine is told of triangles and mirror images of C."""
    whole = target.T if problem.symmetric == "full" else mirror
    image = None if whole is None else seen(whole, problem.result)
    return {"triangle": triangle(problem), "mirror": image}
