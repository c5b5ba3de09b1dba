"""`warm_up`: plan, and compare the choice with its rivals, before the first large product."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from falcon._core.dtypes import of
from falcon.decision.contest import Call, hold_now

from .families.numpy import NUMPY
from .gemm import gemm
from .planner import plan_for, requested
from .tune import operands_of, sizes_of
from .validate import check_numeric

# A rival that has won is compared with the next one.
_MOST_CHOICES = 4
_USUAL = ((1536, 1536, 1536),)


def warm_up(
    shapes: Iterable[tuple[int, int, int]] = _USUAL,
    *,
    dtype: npt.DTypeLike = np.float32,
    threads: int | None = None,
) -> None:
    """Plan products before they are needed, and compare the choice for each with its rivals.

    It is optional: without it, the first large product of a process takes some 10 ms longer, and
    comparisons are made during later calls, for later processes (docs/decision.md).

    Parameters
    ----------
    shapes : iterable of (M, N, K)
        Products to run, on operands made for it: each up to a dozen times, or once if an earlier
        process has compared its rivals, if `learn` is "off", or with a pinned profile.
    dtype : dtype
        float32 by default.
    threads : int, optional
        As for `gemm`.

    Raises
    ------
    ValueError, TypeError
        As `gemm`; a shape is not three positive integers.

    Examples
    --------
    >>> import falcon
    >>> falcon.warm_up([(640, 640, 640)])
    """
    kind = np.dtype(dtype)
    check_numeric("dtype", kind)
    sizes = [sizes_of(shape) for shape in shapes]
    options = requested("warm_up", ("threads",), {"threads": threads})
    for M, N, K in sizes:
        problem = NUMPY.problem((M, K), (K, N), None, None, of(kind), of(kind), options)
        a, b, out = operands_of(problem)
        for _ in range(_MOST_CHOICES):
            plan = plan_for(problem, options)
            if plan.watch is None or plan.watch.is_over:
                break
            hold_now(plan, Call(a, b, None, out))
        gemm(a, b, out=out, threads=threads)
