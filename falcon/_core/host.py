"""`Host`: what backends for host memory have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import to_array, to_target
from .dtypes import DType
from .matrix import Matrix, of_array


class Host:
    """Operands that are NumPy's arrays; `falcon._core.plan.Backend` is the interface."""

    def matrix(self, name: str, x: Any, device: int | None) -> Matrix:
        """Describe an array; raise ValueError for an `out` that is read-only."""
        if name != "out":
            return of_array(to_array(name, x))
        x = to_target(x)
        if not x.flags.writeable:
            raise ValueError("out is read-only")
        return of_array(x)

    def empty(self, shape: tuple[int, int], dtype: DType, like: Any) -> np.ndarray:
        """Make an array by rows."""
        return np.empty(shape, dtype.numpy)
