"""`is_small`: a fast test whether NumPy's BLAS is the plan of a call.

Small calls take microseconds and must cost hardly more than NumPy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._core.policy import SMALLEST_OWN, has_own_kernels
from falcon._core.problem import MOST_ROWS_STREAMED, has_few_rows

# NumPy usually has one object for each; calls with another dtype object are planned.
_SINGLE, _DOUBLE = FLOAT32.numpy, FLOAT64.numpy
_ARRAY = np.ndarray
# Bits of `numpy.ndarray.flags.num`.
CONTIGUOUS, OWNDATA, ALIGNED, WRITEABLE = 0x3, 0x4, 0x100, 0x400
BEHAVED = ALIGNED | WRITEABLE


def is_small(a: Any, b: Any, out: Any) -> bool:
    """Whether NumPy's BLAS is the plan of a call without options: a test without planning.

    At 64 x 64 validation and the look-up of a plan would cost three times the multiplication.
    NumPy itself handles an `out` that overlaps an operand.
    """
    if type(a) is not _ARRAY or type(b) is not _ARRAY:
        return False
    shape, other, dtype = a.shape, b.shape, a.dtype
    if len(shape) != 2 or len(other) != 2:
        return False
    (M, K), (rows, N) = shape, other
    if rows != K or dtype is not b.dtype or not (dtype is _SINGLE or dtype is _DOUBLE):
        return False
    flops = 2.0 * M * N * K
    if flops >= SMALLEST_OWN and has_own_kernels(M, N, K, flops):
        return False
    if M <= MOST_ROWS_STREAMED and has_few_rows(M, N, K, dtype.itemsize):
        return False
    left, right = a.flags.num, b.flags.num
    if not (left & CONTIGUOUS and right & CONTIGUOUS and left & right & ALIGNED):
        return False
    if out is None:
        return True
    if type(out) is not _ARRAY or out.dtype is not dtype:
        return False
    shape = out.shape
    if len(shape) != 2 or shape[0] != M or shape[1] != N:
        return False
    return bool(out.flags.num & BEHAVED == BEHAVED)
