"""Check arguments before anything runs.

Each message names the operand, what was given and what was expected.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from falcon._core.arrays import has_own_rules, to_array
from falcon._core.dtypes import FLOAT8, DType, dtype_of, find, find_torch
from falcon._core.packed import refuse_packed

_NUMBER = int | float | complex | np.number
_INTEGER = int | np.integer
_COMPLEX = complex | np.complexfloating


def is_numeric(dtype: np.dtype) -> bool:
    """Whether falcon multiplies NumPy arrays of this dtype: integer, float or complex."""
    row = find(dtype)
    return row is not None and (row.module == "numpy" or row.engine is not None)


def check_numeric(name: str, dtype: np.dtype) -> None:
    """Raise TypeError unless the dtype is an integer, float or complex one."""
    if not is_numeric(dtype):
        hint = {
            "O": f" (numpy.asarray({name}, float) may convert it)",
            "b": " (falcon.matmul counts booleans as NumPy does)",
        }.get(dtype.kind, "")
        if dtype.name in FLOAT8:
            hint = " (falcon.scaled_matmul multiplies float8)"
        raise TypeError(
            f"{name} has dtype {dtype}; expected integers, floats or complex numbers{hint}"
        )


def type_named(dtype: Any) -> DType:
    """Return the row of a user's `dtype`; raise TypeError if falcon does not multiply it."""
    row = None
    if type(dtype).__module__ == "torch":
        row = find_torch(str(dtype))
    else:
        with suppress(TypeError):  # "bfloat16" is known here even if not to NumPy
            row = dtype_of(dtype if isinstance(dtype, str) else np.dtype(dtype))
    if row is None or not is_numeric(row.numpy):
        raise TypeError(f"dtype is {dtype!r}; expected integers, floats or complex numbers")
    return row


def plain(name: str, value: Any) -> Any:
    """Turn lists, scalars and DataFrames into arrays; leave those to ufuncs that override them.

    Raises TypeError: the value has rules of its own, but refuses ufuncs.
    """
    if type(value) is np.ndarray:
        return value
    refuse_packed(name, value)
    if getattr(type(value), "__array_ufunc__", None) is not None and has_own_rules(value):
        return value
    return to_array(name, value)


def matmul_shape(
    a: tuple[int, ...],
    b: tuple[int, ...],
    out: tuple[int, ...] | None,
    names: tuple[str, str] = ("a", "b"),
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch axes of ``matmul(a, b, out)`` and its last axes (M and N, if present).

    As in NumPy, operands are broadcast to the batch axes of `out`, never `out` to theirs.
    """
    left, right = names
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    inner = a[-1], b[-2] if len(b) > 1 else b[-1]
    if inner[0] != inner[1]:
        raise ValueError(
            f"matmul: {left} has shape {a} and {right} {b}: the inner dimensions {inner[0]} and "
            f"{inner[1]} differ"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2]) if max(len(a), len(b)) > 2 else ()
    except ValueError:
        raise ValueError(
            f"matmul: the batch axes of {left} {a} and {right} {b} cannot be broadcast together"
        ) from None
    kept = rows + columns
    if out is not None:
        wanted = out[: max(len(out) - len(kept), 0)]
        with suppress(ValueError):  # check_out then raises, with both shapes in its message
            batch = wanted if np.broadcast_shapes(batch, wanted) == wanted else batch
    return batch, kept


def check_matrix(name: str, x: Any, hint: str = "") -> Any:
    """Return an operand, or None; raises ValueError unless it has two axes."""
    if x is not None and len(x.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected a matrix{hint}")
    return x


def check_shape(name: str, x: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError for an array of another shape; None has none."""
    if x is not None and tuple(x.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {shape}")


def check_added(beta: Any, c: Any) -> None:
    """Raise unless `beta` is a number, and there is a `c` that it multiplies."""
    number("beta", beta)
    if beta != 0 and c is None:
        raise ValueError(f"beta is {beta!r} but c is missing")


def number(name: str, value: Any) -> None:
    """Raise TypeError unless the value is a Python or NumPy number."""
    if not isinstance(value, _NUMBER):
        raise TypeError(f"{name} is {value!r}; expected a number")


def check_scalar(
    name: str, value: Any, dtype: np.dtype, modulus: int | None = None, whole: bool = False
) -> Any:
    """Return alpha or beta in the arithmetic's dtype; raise if the dtype cannot represent it.

    `whole`: that of integers as Python's, which do not wrap.
    """
    number(name, value)
    row = dtype_of(dtype)
    if not row.is_complex and isinstance(value, _COMPLEX):
        raise TypeError(f"{name} is {value!r}, but the matrices are real ({dtype})")
    if row.is_exact:
        if not (isinstance(value, _INTEGER) or float(value).is_integer()):
            raise TypeError(f"{name} is {value!r}; integer matrices ({dtype}) need an integer")
        if modulus is not None:
            return int(value) % modulus
        if whole:
            return int(value)
        # Wrap, as the products do.
        return np.array(int(value) % 2 ** (8 * row.itemsize), np.uint64).astype(dtype)[()]
    try:
        with np.errstate(all="ignore"):
            return dtype.type(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for {dtype}: it has more than 300 digits") from None


def real_scalar(name: str, value: Any, dtype: np.dtype) -> Any:
    """Return alpha or beta for a Hermitian result, as a real number."""
    if isinstance(value, _COMPLEX):
        raise TypeError(
            f"{name} is {value!r}; expected a real number, as the result is Hermitian "
            "(conjugate=False takes complex ones)"
        )
    return check_scalar(name, value, dtype)
