"""Copies that a call makes beside its plan: they are taken from its workspace limit."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from falcon._core.dtypes import DType
from falcon._core.options import Options


def without(options: Options, shape: tuple[int, ...], dtype: DType) -> Options:
    """Return the options with the workspace limit reduced by a buffer of that shape."""
    limit = options.workspace_limit
    if limit is None:
        return options
    needed = prod(shape) * dtype.itemsize
    if needed > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; a buffer of {needed} is needed (x is centred, an "
            "operand is float8 or its result no float32, or out overlaps an operand of a batch, is "
            "complex, is a triangle and overlaps c, or is a triangle or of another kind of dtype "
            "with check='verify')"
        )
    return replace(options, workspace_limit=limit - needed)
