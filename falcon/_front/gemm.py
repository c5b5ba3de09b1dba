"""`gemm` and `plan`: arguments are normalised here, after `validate` has checked them.

::

    gemm --validate--> core form (2-D operands, one out) --planner--> plan, execute
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from falcon import schemes as _schemes
from falcon._backends import DEVICE
from falcon._core.dtypes import of
from falcon._core.options import are_default, thread_count
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._gpu.where import is_on_gpu

from .pack import check_packed
from .planner import multiply, plan_for, requested_settings
from .recall import on_gpu, quiet_matmul, recall, remember
from .small import is_small
from .validate import (
    check_numeric,
    check_out,
    matrix,
    number,
    scalar,
    shape_and_dtype,
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
        "auto" chooses by predicted time, and leaves operands whose rows (columns of `b`) are of
        very different scale to the classical algorithm; "classical" uses no LCMA; a name such as
        "strassen", "3x4x4:38" or "strassen@winograd", or a `falcon.schemes.Scheme`, is used as
        asked, whatever the scales.
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
    growth and `Plan.error_bound` the bound. It adds rows of `a` (columns of `b`) to one another, so
    that errors of the largest reach the smallest: before "auto" runs one, a pass over `a` and `b`
    compares their norms, and where errors of an entry could come to more than about 8 eps times
    the norms of its row and its column, the product is classical (logged to "falcon" at level
    DEBUG). A scheme that is asked for by name promises nothing about rows much smaller than the
    largest. Integer results wrap exactly as NumPy's do.

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
    a, source = matrix("a", a), matrix("b", b) if packed is None else packed.source
    right: Any = b if source is None else source  # has shape and dtype
    if a.shape[1] != right.shape[0]:
        raise ValueError(
            f"a has shape {a.shape} and b {right.shape}: a's columns ({a.shape[1]}) must equal b's "
            f"rows ({right.shape[0]})"
        )
    shape = (a.shape[0], right.shape[1])
    dtype = np.result_type(a.dtype, right.dtype).newbyteorder("=")
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
    operands = a, source, c_array, alpha, beta, result
    multiply(*operands, dtype, requested, fresh=out is None, packed=packed)
    if plain_call:
        remember(*given, out, arguments, result)
    return result


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
        of(native),
        a_direct=a_direct,
        b_direct=b_direct,
        threads=thread_count(requested.threads),
    )
    return plan_for(problem, requested)
