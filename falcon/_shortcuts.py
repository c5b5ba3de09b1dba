"""Cases in which NumPy's own call is the plan, recognised without planning."""

from __future__ import annotations

import numpy as np

from ._config import Settings, are_default, thread_count
from ._dispatch import plan_for
from ._problem import Problem
from ._validate import is_direct, is_strided
from .decision.select import SMALLEST_BLAS

# A call per matrix of a batch costs about 20 microseconds, in which NumPy's loops without BLAS
# multiply matrices of this size (in flop).
_SMALL_FLOPS = 2 * 16**3


def is_small(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether NumPy's BLAS is the plan of a call without options: a test without planning.

    At 64 x 64 validation and the look-up of a plan would cost three times the multiplication.
    """
    return (
        a.ndim == b.ndim == 2
        and a.dtype is b.dtype
        and a.dtype.char in "fd"
        and a.shape[1] == b.shape[0]
        and (min(a.shape) < SMALLEST_BLAS or b.shape[1] < SMALLEST_BLAS)
        and a.flags.forc
        and b.flags.forc
        and a.flags.aligned
        and b.flags.aligned
        and are_default()
    )


def numpy_suffices(
    left: np.ndarray, right: np.ndarray, dtype: np.dtype, requested: Settings
) -> bool:
    """Whether one call of np.matmul for the whole batch does what falcon would do."""
    if requested.check == "verify" or requested.workspace_limit is not None:
        return False  # NumPy keeps no limit: it copies operands of another dtype, or under out
    (M, K), N = left.shape[-2:], right.shape[-1]
    if requested.scheme == "classical" or min(M, N) <= 1:
        return True  # vectors are bound by memory: nothing to decide
    if K == 0 or left.ndim == 2 or left.size == 0:
        return False
    first = (0,) * (left.ndim - 2)
    direct = is_direct(left[first], dtype), is_direct(right[first], dtype)
    problem = Problem(
        M,
        N,
        K,
        dtype,
        a_direct=direct[0],
        b_direct=direct[1],
        a_strided=is_strided(left[first], dtype),
        b_strided=is_strided(right[first], dtype),
        threads=thread_count(requested.threads),
    )
    if not all(direct) and problem.flops > _SMALL_FLOPS:
        return False  # falcon copies such operands for BLAS
    chosen = plan_for(problem, requested)
    return chosen.scheme is None and chosen.backend.name == "numpy"
