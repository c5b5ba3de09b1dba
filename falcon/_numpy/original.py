"""np.matmul as NumPy made it, whatever a program or `falcon.accelerate` has put in its place."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

# The ufunc that other array types may override: it is what they compare with.
ufunc = np.matmul
# For arrays of NumPy's own.
matmul: Any = ufunc
_is_kept = False


def keep_original(copy: Callable[[Any], Any]) -> None:
    """From now on use a copy of np.matmul, whose inner loops are about to be replaced."""
    global matmul, _is_kept
    if not _is_kept:
        matmul, _is_kept = copy(ufunc), True


if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    # A context in which NumPy is silent; running in a copy of it takes half a microsecond less than
    # ``with np.errstate(all="ignore")``.
    _quiet = Context()
    _quiet.run(np.seterr, all="ignore")

    def quiet_matmul(a: Any, b: Any, out: np.ndarray | None, dtype: Any = None) -> np.ndarray:
        """Call np.matmul; overflow and invalid operations show in the result alone, as in BLAS."""
        if out is None:  # allocate in the caller's context
            out = np.empty((a.shape[0], b.shape[1]), a.dtype)
        product: np.ndarray = _quiet.copy().run(matmul, a, b, out, dtype=dtype)
        return product

else:  # NumPy 1 stores the state per thread: `seterr` would silence the caller's thread

    def quiet_matmul(a: Any, b: Any, out: np.ndarray | None, dtype: Any = None) -> np.ndarray:
        """Call np.matmul; overflow and invalid operations show in the result alone, as in BLAS."""
        with np.errstate(all="ignore"):
            product: np.ndarray = matmul(a, b, out, dtype=dtype)
            return product
