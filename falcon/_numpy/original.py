"""np.matmul as NumPy made it, whatever a program or `falcon.accelerate` has put in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

matmul: Any = np.matmul
_is_kept = False


def keep(copy: Callable[[Any], Any]) -> None:
    """From now on use a copy of np.matmul, whose inner loops are about to be replaced."""
    global matmul, _is_kept
    if not _is_kept:
        matmul, _is_kept = copy(np.matmul), True
