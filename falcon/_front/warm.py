"""`warm_up`: plan, start threads and touch the workspace before the first large product."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import numpy as np
import numpy.typing as npt

from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS

from .execute import problem_of_sizes
from .gemm import gemm
from .planner import requested
from .tune import operands_of, sizes_of
from .validate import type_named

_USUAL = ((1536, 1536, 1536),)


@takes_options(*KEYWORDS)
def warm_up(
    shapes: Iterable[tuple[int, int, int]] = _USUAL,
    *,
    dtype: npt.DTypeLike = np.float32,
    **options: Unpack[CallOptions],
) -> None:
    """Make plans, threads and workspace before they are needed, by a product of each shape.

    It is optional: without it, the first large product of a process takes some 10 ms longer.

    Parameters
    ----------
    shapes : iterable of (M, N, K)
        Products to run, once, on operands made for it.
    dtype : dtype
        float32 by default.
    {options}

    Raises
    ------
    ValueError, TypeError
        As `gemm`; a shape is not three positive integers.

    Examples
    --------
    >>> import falcon
    >>> falcon.warm_up([(640, 640, 640)])
    """
    kind = type_named(dtype)
    chosen = requested("warm_up", KEYWORDS, options)
    for sizes in [sizes_of(shape) for shape in shapes]:
        a, b, out = operands_of(problem_of_sizes(sizes, kind, chosen))
        gemm(a, b, out=out, **options)
