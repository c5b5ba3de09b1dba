"""Convert users' operands to NumPy arrays; refuse those that would lose information."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import DType
from .matrix import Matrix, checked_out, of_array


def has_own_rules(value: Any) -> bool:
    """Whether its class calculates by rules of its own (units, masks, labels).

    That is every subclass of ndarray but maps of files, and every class with a protocol of NumPy's
    but DataFrames. Their rules are never lost: NumPy's functions hand them over, others refuse.
    """
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return kind is not np.ndarray and kind is not np.memmap
    if hasattr(kind, "to_numpy") and not hasattr(kind, "dims"):  # xarray's arrays have dims
        return False
    return hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_function__")


def takes_over(value: Any) -> bool:
    """Whether its class runs NumPy's functions, such as np.einsum, in its own way."""
    own = getattr(type(value), "__array_function__", None)
    return own not in (None, np.ndarray.__array_function__) and has_own_rules(value)


def to_array(name: str, value: Any) -> np.ndarray:
    """Convert to an array; DataFrames become the array of their values.

    Raises TypeError: the value is masked, sparse, not computed yet, not in host memory, lacks
    entries, or has rules of its own.
    Raises ValueError: the value cannot be converted.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ndarray) and isinstance(value, np.ma.MaskedArray):  # imports it: 25 ms
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost; fill it first ({name}.filled(0))"
        )
    if value is None:
        raise TypeError(f"{name} is None; expected an array")
    kind = type(value)
    reason = why_not_dense(name, value)
    if reason is not None:
        raise TypeError(f"{name} is {reason}")
    # Check the object, not its class: only tensors on a GPU have the attribute.
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"{name} is a {kind.__name__} in GPU memory; backend 'gpu' is needed")
    if has_own_rules(value):
        raise TypeError(
            f"{name} is a {kind.__name__}, whose own rules (units, labels, ...) would be lost; use "
            f"its library's functions, or numpy.asarray({name}) for the numbers alone"
        )
    if hasattr(kind, "__dlpack__") and not hasattr(kind, "__array__"):
        return np.from_dlpack(value)
    try:
        # What `to_numpy` returns may be masked, as of awkward's arrays with None.
        value = _values(name, value) if hasattr(kind, "to_numpy") else np.asarray(value)
        return to_array(name, value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be converted to an array: {error}") from None


def _values(name: str, frame: Any) -> Any:
    """Return the values of a DataFrame, or of one of its columns.

    Raises TypeError: some are missing, which pandas' own types and polars mark beside the values.
    """
    kinds = getattr(frame, "dtypes", None)
    kinds = list(kinds) if np.iterable(kinds) else [getattr(frame, "dtype", None)]
    absent: Any = 0
    if hasattr(frame, "null_count"):  # polars, Arrow
        absent = frame.null_count() if callable(frame.null_count) else frame.null_count
    elif any(hasattr(x, "na_value") for x in kinds):
        absent = frame.isna()
    if np.any(np.asarray(absent)):
        raise TypeError(
            f"{name} is a {type(frame).__name__} with missing values, which would be lost; fill "
            f"them first ({name}.fillna(0), or {name}.fill_null(0) of polars)"
        )
    values = frame.to_numpy()
    if getattr(getattr(values, "dtype", None), "hasobject", False):  # of pandas' own types
        own = [getattr(x, "numpy_dtype", x) for x in kinds]
        if own and all(isinstance(x, np.dtype) and x.kind in "biufc" for x in own):
            values = frame.to_numpy(np.result_type(*own))
    return values


def is_dense(value: Any) -> bool:
    """Whether a value may be a dense array in memory."""
    return why_not_dense("", value) is None


def why_not_dense(name: str, value: Any) -> str | None:
    """Say why a value is not a dense array in memory, and what to do; None if it may be."""
    kind = type(value)
    if hasattr(kind, "tocsr"):  # SciPy's, CuPy's and others' sparse matrices
        return f"sparse ({kind.__name__}): use {name}.toarray(), or {name} @ ... of its library"
    if hasattr(kind, "todense"):  # the package sparse
        return f"sparse ({kind.__name__}): use {name}.todense()"
    if kind.__module__.startswith("mpmath.") and hasattr(value, "tolist"):
        how = f"use numpy.array({name}.tolist(), float)"
        return f"a matrix of mpmath, which NumPy takes for a vector: {how}"
    if hasattr(kind, "__dask_graph__"):
        if value.__dask_graph__() is None:  # xarray's and pint's, unless they hold Dask arrays
            return f"a {kind.__name__}, whose units or labels would be lost: pass its values"
        how = f"use {name}.compute(), or falcon.dask.matmul, gemm or gram, chunk by chunk"
        return f"a Dask collection, which is not computed yet: {how}"
    return None


def to_target(out: Any) -> np.ndarray:
    """Return a caller's `out`; raise TypeError unless it is an array without rules of its own."""
    if not isinstance(out, np.ndarray) or has_own_rules(out):
        raise TypeError(f"out is a {type(out).__name__}; expected a NumPy array")
    return np.asarray(out)


class Host:
    """What backends for host memory share; `falcon._core.plan.Backend` is the interface."""

    def matrix(self, name: str, x: Any, device: int | None) -> Matrix:
        """Describe an array; raise ValueError for an `out` that is read-only, or meets itself."""
        if name != "out":
            return of_array(to_array(name, x))
        x = to_target(x)
        if not x.flags.writeable:
            raise ValueError("out is read-only")
        return checked_out(of_array(x))

    def empty(self, shape: tuple[int, int], dtype: DType, like: Any) -> np.ndarray:
        """Make an array by rows."""
        return np.empty(shape, dtype.numpy)
