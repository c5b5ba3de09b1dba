"""Convert users' operands to NumPy arrays; refuse those that would lose information."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_masked(value: Any) -> bool:
    """Whether it is a masked array; plain arrays do not import numpy.ma (25 ms)."""
    return type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)


def to_array(name: str, value: Any) -> np.ndarray:
    """Convert to an array; DataFrames become the array of their values.

    Raises TypeError: the value is masked, sparse, not computed yet, or not in host memory.
    Raises ValueError: the value cannot be converted.
    """
    if isinstance(value, np.ndarray):
        if is_masked(value):
            raise TypeError(
                f"{name} is a masked array, whose mask would be lost; fill it first "
                f"({name}.filled(0))"
            )
        return np.asarray(value)
    if value is None:
        raise TypeError(f"{name} is None; expected an array")
    kind = type(value)
    reason = _why_not_dense(name, value)
    if reason is not None:
        raise TypeError(f"{name} is {reason}")
    # Check the object, not its class: only tensors on a GPU have the attribute.
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"{name} is a {kind.__name__} in GPU memory; backend 'gpu' is needed")
    try:
        return np.asarray(value.to_numpy() if hasattr(kind, "to_numpy") else value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be converted to an array: {error}") from None


def _why_not_dense(name: str, value: Any) -> str | None:
    """Say why a value is not a dense array in memory, and what to do; None if it may be."""
    kind = type(value)
    if hasattr(kind, "tocsr"):  # SciPy's, CuPy's and others' sparse matrices
        return f"sparse ({kind.__name__}): use {name}.toarray(), or {name} @ ... of its library"
    if hasattr(kind, "todense"):  # the package sparse
        return f"sparse ({kind.__name__}): use {name}.todense()"
    if hasattr(kind, "__dask_graph__"):
        if value.__dask_graph__() is None:  # xarray's and pint's, unless they hold Dask arrays
            return f"a {kind.__name__}, whose units or labels would be lost: pass its values"
        how = f"use {name}.compute(), or falcon.dask"
        return f"a Dask collection, which is not computed yet: {how}"
    return None
