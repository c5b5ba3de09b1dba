"""The compiled extension: whether it is here, and which instruction set it uses."""

from __future__ import annotations

from functools import cache

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.options import forced_isa

try:
    from . import _core
except ImportError as error:
    _core = None  # type: ignore[assignment]
    _import_error = str(error)


def why_unavailable() -> str | None:
    """Return None where the extension was built and the instruction set asked for runs."""
    if _core is None:
        return f"the compiled extension is missing ({_import_error})"
    asked = forced_isa()
    if asked is not None and asked not in _core.supported_isas():
        runs = ", ".join(_core.supported_isas())
        return f"FALCON_ISA is {asked!r}; this machine and build run {runs}"
    return None


@cache
def isa() -> str:
    """Return the instruction set in use: FALCON_ISA, else the best that runs here."""
    return forced_isa() or _core.supported_isas()[0]


def seen(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an array of `dtype` as the engine takes it."""
    return x if dtype.engine_view is None else x.view(dtype.engine_view)
