"""The public entry points: the only place that normalises arguments (`validate` checks them).

::

    gemm / matmul --validate--> core form (2-D operands, one out) --planner--> plan, execute
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from falcon import schemes as _schemes
from falcon._backends import DEVICE
from falcon._core.options import are_default, thread_count
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._gpu.where import is_on_gpu

from .pack import check_packed
from .planner import multiply, overlap, plan_for, requested_settings, without
from .recall import numpy_suffices, on_gpu, quiet_matmul, recall, remember
from .small import is_small
from .validate import (
    check_cast,
    check_numeric,
    check_out,
    describe,
    matmul_shape,
    matrix,
    number,
    plain,
    scalar,
    shape_and_dtype,
    to_array,
)

# backend, scheme, max_growth, threads, workspace_limit, check of a plain call.
_DEFAULTS = ("auto", "auto", None, None, None, None)


def gemm(
    a: npt.ArrayLike,
    b: npt.ArrayLike | PackedOperand,
    c: npt.ArrayLike | None = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: np.ndarray | None = None,
    backend: str = "auto",
    scheme: str | _schemes.Scheme = "auto",
    max_growth: float | None = None,
    threads: int | None = None,
    workspace_limit: int | None = None,
    check: str | None = None,
) -> np.ndarray:
    """Multiply two matrices: ``alpha * a @ b + beta * c``.

    Parameters
    ----------
    a : array_like, shape (M, K)
    b : array_like or PackedOperand, shape (K, N)
        Integer, float or complex, any strides and byte order; or CuPy arrays or torch tensors on
        one GPU, floats (see docs/gpu.md). A packed operand brings its scheme and backend with it.
    c : array_like, shape (M, N), optional
        Read only where `beta` is not zero; never written, unless it is `out` too.
    alpha, beta : scalar
        Must be representable in the result's kind: integers for integer matrices. As in BLAS,
        ``alpha == 0`` never reads `a` and `b`, ``beta == 0`` never reads `c`.
    out : ndarray, shape (M, N), optional
        Receives the result; may overlap any operand. Its dtype may be another one that the result
        casts to by the rule "same_kind".
    backend : str
        "auto" or the name of a backend ("cpu", "numpy", "gpu").
    scheme : str or Scheme
        "auto" chooses by predicted time; "classical" uses no LCMA; a name such as "strassen",
        "3x4x4:38" or "strassen@winograd", or a `falcon.schemes.Scheme`, is used as asked.
    max_growth : float
        Largest predicted RMS error, relative to the classical algorithm, that "auto" may
        spend (default 8.0: three bits; 1.0 forbids every LCMA).
    threads : int
        Threads for falcon's own code. NumPy's BLAS keeps its own setting.
    workspace_limit : int
        Bytes that the call may allocate beyond its result. More than falcon keeps by default
        between calls (`release_workspace`) lets its CPU kernels make fewer passes; they take
        and keep at most a quarter of the memory then.
    check : {"finite", "verify", "none"}
        "finite": where an LCMA comes upon a non-finite value (in the input, or by overflow of a
        sum), the product is redone classically, so that a NaN or Inf spreads no further than it
        would there. "verify": also Freivalds' test of the result. "none": neither.

    Returns
    -------
    ndarray (or GPU array of the caller's library), shape (M, N)
        `out`, or a new C-ordered array of dtype ``np.result_type(a, b)`` (with `c` where `beta` is
        not zero).

    Raises
    ------
    ValueError
        Shapes do not fit, an argument is out of range, a backend is not available, or
        the workspace limit cannot be kept.
    TypeError
        A dtype or argument has the wrong kind.
    VerificationError
        ``check="verify"`` found the result wrong.

    Notes
    -----
    An LCMA's error is bounded in norm, not entry by entry: `falcon.plan` returns the predicted
    growth and `Plan.error_bound` the bound. Integer results wrap exactly as NumPy's do.

    Source of the method: FalconGEMM, arXiv:2605.06057.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a, b = np.eye(3), np.arange(9.0).reshape(3, 3)
    >>> bool((falcon.gemm(a, b, scheme="strassen") == b).all())
    True
    """
    arguments = backend, scheme, max_growth, threads, workspace_limit, check
    plain_call = c is None and type(alpha) is type(beta) is float and alpha == 1.0 and beta == 0.0
    if plain_call:
        if arguments == _DEFAULTS and is_small(a, b, out) and are_default():
            return quiet_matmul(a, b, out)
        known = recall(a, b, out, arguments)
        if known is not None:
            return known
    if is_on_gpu(a) or is_on_gpu(b):
        return on_gpu().gemm(a, b, c, alpha, beta, out, arguments)
    given = a, b
    packed = b if isinstance(b, PackedOperand) else None
    a, b = matrix("a", a), matrix("b", b if packed is None else packed.source)
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has shape {a.shape} and b {b.shape}: a's columns ({a.shape[1]}) must equal b's "
            f"rows ({b.shape[0]})"
        )
    shape = (a.shape[0], b.shape[1])
    dtype = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    c_array = None if c is None else matrix("c", c)
    if c_array is not None and c_array.shape != shape:
        raise ValueError(f"c has shape {c_array.shape}; expected {shape}")
    number("beta", beta)
    if beta != 0:
        if c_array is None:
            raise ValueError(f"beta is {beta!r} but c is missing")
        dtype = np.result_type(dtype, c_array.dtype).newbyteorder("=")
    alpha, beta = scalar("alpha", alpha, dtype), scalar("beta", beta, dtype)
    if beta == 0:
        c_array = None
    if out is not None:
        check_out(out, shape, dtype)
    requested = requested_settings(*arguments)
    if packed is not None:
        check_packed(packed, dtype, backend, scheme)
    result = np.empty(shape, dtype) if out is None else out
    multiply(a, b, c_array, alpha, beta, result, dtype, requested, fresh=out is None, packed=packed)
    if plain_call:
        remember(*given, out, arguments, result)
    return result


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
        special = min(a.ndim, b.ndim) == 0 or not all(x.dtype.kind in "iufc" for x in (a, b))
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


def plan(
    a: Any,
    b: Any,
    dtype: npt.DTypeLike | None = None,
    *,
    backend: str = "auto",
    scheme: str | _schemes.Scheme = "auto",
    max_growth: float | None = None,
    threads: int | None = None,
    workspace_limit: int | None = None,
) -> Plan:
    """Decide how ``a @ b`` would be multiplied, without multiplying.

    Parameters
    ----------
    a, b : array_like or tuple of int
        Matrices, or their shapes (M, K) and (K, N).
    dtype : dtype, optional
        Of the arithmetic. Default: ``np.result_type`` of the arrays; float64 for shapes.
    backend, scheme, max_growth, threads, workspace_limit
        As for `gemm`.

    Returns
    -------
    Plan
        Printable, callable on operands of these shapes, with `Plan.explain`.

    Raises
    ------
    ValueError, TypeError
        As `gemm`.

    Examples
    --------
    >>> import falcon
    >>> p = falcon.plan((60, 70), (70, 80), "float32", scheme="strassen")
    >>> p.growth
    2.0
    """
    if is_on_gpu(a) or is_on_gpu(b) or (backend == DEVICE and type(a) is type(b) is tuple):
        arguments = backend, scheme, max_growth, threads, workspace_limit, None
        return on_gpu().plan(a, b, dtype, arguments)
    a_shape, a_dtype, a_direct = shape_and_dtype("a", a)
    b_shape, b_dtype, b_direct = shape_and_dtype("b", b)
    if a_shape[1] != b_shape[0]:
        raise ValueError(f"a has shape {a_shape} and b {b_shape}: a's columns must equal b's rows")
    if dtype is None:
        kinds = [x for x in (a_dtype, b_dtype) if x is not None]
        dtype = np.result_type(*kinds) if kinds else np.float64
    native = np.dtype(dtype).newbyteorder("=")
    check_numeric("dtype", native)
    requested = requested_settings(backend, scheme, max_growth, threads, workspace_limit, None)
    # Not "in (None, native)": NumPy takes None for float64.
    a_direct = a_direct and (a_dtype is None or a_dtype == native)
    b_direct = b_direct and (b_dtype is None or b_dtype == native)
    problem = Problem(
        a_shape[0],
        b_shape[1],
        a_shape[1],
        native,
        a_direct=a_direct,
        b_direct=b_direct,
        threads=thread_count(requested.threads),
    )
    return plan_for(problem, requested)
