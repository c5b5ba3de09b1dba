"""`matmul`: vectors, matrices and batches with the semantics of `numpy.matmul`."""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon import schemes as _schemes
from falcon._core.packed import PackedOperand
from falcon._gpu.where import is_on_gpu

from .gemm import gemm
from .planner import multiply, overlap, requested_settings, without
from .recall import numpy_suffices, on_gpu, recall, remember
from .validate import (
    check_cast,
    check_out,
    describe,
    is_numeric,
    matmul_shape,
    plain,
    to_array,
)


def matmul(
    a: Any,
    b: Any,
    /,
    out: Any = None,
    *,
    backend: str = "auto",
    scheme: str | _schemes.Scheme = "auto",
    max_growth: float | None = None,
    threads: int | None = None,
    workspace_limit: int | None = None,
    check: str | None = None,
) -> Any:
    """Multiply with the semantics of `numpy.matmul`: vectors, batches, broadcasting.

    Parameters
    ----------
    a, b : array_like (`b` may also be a `PackedOperand`)
        At least 1-D. The last two axes are matrices, the others are broadcast; a 1-D operand is a
        row (`a`) or column (`b`) vector whose axis is dropped from the result.
    out : ndarray or 1-tuple of ndarray, optional
        As for `numpy.matmul`.
    backend, scheme, max_growth, threads, workspace_limit, check
        As for `gemm`; one plan serves all matrices of a batch.

    Returns
    -------
    ndarray or scalar
        Shape and dtype of ``np.matmul(a, b)``.

    Raises
    ------
    ValueError, TypeError
        Where `numpy.matmul` raises them; and as `gemm` for the other arguments.

    Notes
    -----
    Operands that no scheme can multiply (booleans, objects, array subclasses and other array types)
    are left to `numpy.matmul` unless a scheme or another backend is asked for by name. For numeric
    operands, overflow and invalid values are in the result, as with BLAS, and never warned about.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.matmul(np.ones((5, 2, 3)), np.ones(3)).shape
    (5, 2)
    """
    if is_on_gpu(a) or is_on_gpu(b):
        arguments = backend, scheme, max_growth, threads, workspace_limit, check
        return on_gpu().matmul(a, b, out, arguments)
    if isinstance(b, PackedOperand):
        return _matmul_packed(
            a, b, out, backend, scheme, max_growth, threads, workspace_limit, check
        )
    arguments = backend, scheme, max_growth, threads, workspace_limit, check
    if (known := recall(a, b, out, arguments)) is not None:
        return known
    given = a, b
    requested = requested_settings(*arguments)
    by_name = requested.backend not in ("auto", "numpy")
    asked = by_name or requested.scheme not in ("auto", "classical")
    a, b = plain(a), plain(b)
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    special = not (
        type(a) is np.ndarray and type(b) is np.ndarray and (out is None or type(out) is np.ndarray)
    )
    if not special:
        special = min(a.ndim, b.ndim) == 0 or not all(is_numeric(x.dtype) for x in (a, b))
    if special:
        if asked:
            what = f"backend {requested.backend!r}" if by_name else f"{requested.scheme!r}"
            raise TypeError(
                f"{what} needs plain numeric arrays of at least one axis; got a {describe(a)}, "
                f"b {describe(b)}" + ("" if out is None else f" and out {describe(out)}")
            )
        return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)
    left = a[np.newaxis, :] if a.ndim == 1 else a
    right = b[:, np.newaxis] if b.ndim == 1 else b
    dtype = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    if out is not None:
        check_cast(out, dtype)  # before shapes, as NumPy
    batch, kept = matmul_shape(a.shape, b.shape, None if out is None else out.shape)
    view = out
    if out is not None:
        if min(len(kept), 1) <= out.ndim < len(batch) + len(kept):
            # NumPy lets out lack leading axes of size 1.
            view = out[(np.newaxis,) * (len(batch) + len(kept) - out.ndim)]
        check_out(view, (*batch, *kept), dtype)
    full = (*batch, left.shape[-2], right.shape[-1])
    dropped = tuple(axis for axis, x in ((-2, a), (-1, b)) if x.ndim == 1)
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    if not asked and numpy_suffices(left, right, dtype, requested):
        with np.errstate(all="ignore"):
            return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)
    result = np.empty((*batch, *kept), dtype) if out is None else view
    target = np.expand_dims(result, dropped)
    separate = out is not None and batch != () and (overlap(out, a) or overlap(out, b))
    if separate:  # a later product may read what an earlier one wrote
        requested = without(requested, full, dtype)
        target = np.empty(full, dtype)
    for index in np.ndindex(*batch):
        multiply(
            left[index],
            right[index],
            None,
            dtype.type(1),
            dtype.type(0),
            target[index],
            dtype,
            requested,
            fresh=out is None,
        )
    if separate:
        with np.errstate(all="ignore"):
            np.copyto(result, np.squeeze(target, dropped), casting="same_kind")
    if batch == () and dropped == ():
        remember(*given, out, arguments, result)
    if out is not None:
        return out
    return result if result.ndim else result[()]


def _matmul_packed(
    a: Any,
    b: PackedOperand,
    out: Any,
    backend: str,
    scheme: str | _schemes.Scheme,
    max_growth: float | None,
    threads: int | None,
    workspace_limit: int | None,
    check: str | None,
) -> np.ndarray:
    """Multiply a vector, a matrix or a batch by a packed operand: all rows in one product."""
    array = to_array("a", a)
    if array.ndim == 0:
        raise ValueError("matmul: a is a scalar; expected at least one axis")
    if array.shape[-1] != b.shape[0]:
        raise ValueError(
            f"matmul: a has shape {array.shape} and b {b.shape}: the inner dimensions differ"
        )
    shape = (*array.shape[:-1], b.shape[1])
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is not None:
        check_out(out, shape, np.result_type(array.dtype, b.dtype))
    rows = int(np.prod(array.shape[:-1]))
    product = gemm(
        array.reshape(rows, b.shape[0]),
        b,
        backend=backend,
        scheme=scheme,
        max_growth=max_growth,
        threads=threads,
        workspace_limit=workspace_limit,
        check=check,
    ).reshape(shape)
    if out is None:
        return product
    np.copyto(out, product, casting="same_kind")
    return out
