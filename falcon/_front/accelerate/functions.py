"""np.dot inside NumPy: it calls BLAS without a ufunc, so large matrices are handed to np.matmul.

Replaced are the names in NumPy's modules through which its own functions call it. ndarray.dot,
np.inner, np.vdot and ``from numpy import dot`` before falcon was switched on are not reached.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

# Modules whose `dot` is replaced, under their names since NumPy 2 and before.
_MODULES = (
    "numpy",  # np.dot itself
    "numpy._core.numeric",  # tensordot, and einsum with optimize
    "numpy.core.numeric",
    "numpy.linalg._linalg",  # multi_dot
    "numpy.linalg.linalg",
    "numpy.lib._function_base_impl",  # cov, corrcoef
    "numpy.lib.function_base",
)
_original = np.dot
# Fewer rows, columns or steps stay with BLAS, as in _loops.c; and less work.
_THINNEST, _LEAST = 8, 5e6


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Multiply as `numpy.dot`: large matrices by np.matmul."""
    if type(a) is type(b) is np.ndarray and a.ndim == b.ndim == 2 and a.dtype == b.dtype:
        (M, K), N = a.shape, b.shape[1]
        if min(M, K, N) >= _THINNEST and 2.0 * M * K * N >= _LEAST and out is None:
            return np.matmul(a, b)
    return _original(a, b) if out is None else _original(a, b, out)


for _name in ("__doc__", "__module__", "__signature__"):
    if hasattr(_original, _name):
        setattr(dot, _name, getattr(_original, _name))


def replace() -> None:
    """Let NumPy's modules call `dot`."""
    for module in _modules():
        if module.dot is _original:
            module.dot = dot


def restore() -> None:
    """Put back NumPy's own, unless somebody else has replaced it since."""
    for module in _modules():
        if module.dot is dot:
            module.dot = _original


def _modules() -> list[Any]:
    found: list[Any] = [sys.modules.get(name) for name in _MODULES]
    return [x for x in found if hasattr(x, "dot")]
