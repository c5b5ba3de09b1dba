"""Types of the compiled module; _loops.c says what its functions do."""

from collections.abc import Callable
from typing import Any

import numpy as np

def replace(
    ufunc: np.ufunc,
    dot: Callable[..., Any],
    einsum: Callable[..., Any] | None,
    product: Callable[[Any, Any, Any], Any],
    missed: Callable[[Any, float], object],
    thinnest: int,
    least: float,
    least_of_loops: float,
    batch: tuple[float, float, float, float],
    /,
) -> None: ...
def restore(ufunc: np.ufunc) -> None: ...
def original(ufunc: np.ufunc) -> np.ufunc: ...
