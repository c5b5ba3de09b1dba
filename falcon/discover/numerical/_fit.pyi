"""Types of the compiled least squares."""

from typing import Any

import numpy as np

def relax(
    target: Any,
    x: Any,
    weight: Any,
    centre: Any,
    moving: Any,
    *,
    single: bool,
    steps: int,
    damping: float,
    goal: float,
    stall: float,
    accuracy: float,
    iterations: int,
    least_damping: float,
) -> tuple[float, np.ndarray, float]: ...
