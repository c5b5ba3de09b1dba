"""np.matmul as NumPy made it, whatever a program or `falcon.accelerate` has put in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# The ufunc that other array types may override: it is what they compare with.
ufunc = np.matmul
# For arrays of NumPy's own.
matmul: Any = ufunc
_is_kept = False


def keep(copy: Callable[[Any], Any]) -> None:
    """From now on use a copy of np.matmul, whose inner loops are about to be replaced."""
    global matmul, _is_kept
    if not _is_kept:
        matmul, _is_kept = copy(ufunc), True
