"""`warm_up`: start threads and plan before the first large product."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from falcon._backends import available_backends
from falcon._core.dtypes import of
from falcon._core.options import thread_count
from falcon.decision import profile
from falcon.decision.machine import measure_all

from .gemm import gemm
from .tune import sizes_of
from .validate import check_numeric

_USUAL = ((1536, 1536, 1536),)


def warm_up(
    shapes: Iterable[tuple[int, int, int]] = _USUAL,
    *,
    dtype: npt.DTypeLike = np.float32,
    threads: int | None = None,
    measure: bool = False,
) -> None:
    """Start threads, load or probe the machine's rates, and plan, before the first large product.

    It is optional: without it, the first large product of a process takes some 10 ms longer.

    Parameters
    ----------
    shapes : iterable of (M, N, K)
        Products to plan and run once, on operands made for it.
    dtype : dtype
        float32 by default.
    threads : int, optional
        As for `gemm`.
    measure : bool
        Measure the machine for this type and number of threads, if it is not measured yet (1 to
        3 s), and use the rates at once. Otherwise it is measured during later calls, for later
        processes (docs/decision.md). A profile pinned by FALCON_PROFILE is not changed.

    Raises
    ------
    ValueError, TypeError
        As `gemm`; a shape is not three positive integers.

    Examples
    --------
    >>> import falcon
    >>> falcon.warm_up([(640, 640, 640)])
    """
    kind = np.dtype(dtype).newbyteorder("=")
    check_numeric("dtype", kind)
    sizes = [sizes_of(shape) for shape in shapes]
    backends = available_backends()
    if measure and not profile(backends).pinned:
        counts = [thread_count(threads)]
        measure_all(backends, [of(kind)], counts, lambda _: None, thorough=False)
    for M, N, K in sizes:
        gemm(np.ones((M, K), kind), np.ones((K, N), kind), threads=threads)
