"""How errors grow where kernels round the sums that they multiply."""

from __future__ import annotations

from functools import cache

import numpy as np

from falcon._core.dtypes import DType
from falcon.schemes import Scheme, SymmetricScheme

from . import _core
from .extension import isa


@cache
def rounded_growth(operand: DType, scheme: Scheme | SymmetricScheme | None) -> float | None:
    """Return a scheme's RMS error where a C of few bits is most of the classical algorithm's.

    What is rounded in float32 is then nothing beside it. Kernels that multiply elements as they are
    round every sum of several elements like C itself: relative to C's own error they add, in each
    block of C, the products that it is made of, once for A's sum and once for B's.
    """
    if operand.is_exact or operand.accumulator is operand or scheme is None:
        return None
    if not _core.rounds_sums(operand.engine, isa()):
        return 1.0
    shape = scheme.rank, -1
    factors = [x.reshape(shape) for x in (scheme.U, scheme.V)]
    left, right = (np.square(x).sum(axis=1) for x in factors)
    rounded = sum((np.count_nonzero(x, axis=1) > 1).astype(float) for x in factors)
    per_block = np.square(scheme.W.reshape(shape)).T @ (left * right * rounded) / scheme.k
    return float(np.sqrt(1 + per_block[per_block > 0].mean()))
