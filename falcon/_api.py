"""The public entry points: the only place that validates and normalises arguments.

::

    gemm / matmul -> core form (2-D operands, one out) -> plan (cached) -> backend.execute
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from . import schemes as _schemes
from ._backends import available_backends, get_backend
from ._config import Settings, settings, thread_count, validate
from ._plan import Backend, Plan, Rates
from ._problem import Problem
from ._verify import Freivalds, VerificationError
from .decision import Request, select
from .decision.machine import rates

_log = logging.getLogger("falcon")

# Plans are small; a program that uses more shapes than this re-plans the oldest.
_CACHED_PLANS = 1024
_plans: dict[tuple, Plan] = {}


def gemm(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
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
    b : array_like, shape (K, N)
        Integer, float or complex, any strides and byte order.
    c : array_like, shape (M, N), optional
        Read only where `beta` is not zero; never written, unless it is `out` too.
    alpha, beta : scalar
        Must be representable in the result's kind: integers for integer matrices. As in BLAS,
        ``alpha == 0`` never reads `a` and `b`, ``beta == 0`` never reads `c`.
    out : ndarray, shape (M, N), optional
        Receives the result; may overlap any operand. Its dtype may be another one that the result
        casts to by the rule "same_kind".
    backend : str
        "auto" or the name of a backend ("numpy").
    scheme : str or Scheme
        "auto" chooses by predicted time; "classical" uses no LCMA; a name such as "strassen",
        "3x4x4:38" or "strassen@winograd", or a `falcon.schemes.Scheme`, is used as asked.
    max_growth : float
        Largest predicted RMS error, relative to the classical algorithm, that "auto" may
        spend (default 8.0: three bits; 1.0 forbids every LCMA).
    threads : int
        Threads for falcon's own code. NumPy's BLAS keeps its own setting.
    workspace_limit : int
        Bytes that the call may allocate beyond its result.
    check : {"finite", "verify", "none"}
        "finite": where an LCMA comes upon a non-finite value (in the input, or by overflow of a
        sum), the product is redone classically, so that a NaN or Inf spreads no further than it
        would there. "verify": also Freivalds' test of the result. "none": neither.

    Returns
    -------
    ndarray, shape (M, N)
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
    a, b = _matrix("a", a), _matrix("b", b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has shape {a.shape} and b {b.shape}: a's columns ({a.shape[1]}) must equal b's "
            f"rows ({b.shape[0]})"
        )
    shape = (a.shape[0], b.shape[1])
    dtype = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    c_array = None if c is None else _matrix("c", c)
    if c_array is not None and c_array.shape != shape:
        raise ValueError(f"c has shape {c_array.shape}; expected {shape}")
    if _is_nonzero(beta):
        if c_array is None:
            raise ValueError(f"beta is {beta!r} but c is missing")
        dtype = np.result_type(dtype, c_array.dtype).newbyteorder("=")
    else:
        c_array = None
    alpha, beta = _scalar("alpha", alpha, dtype), _scalar("beta", beta, dtype)
    if out is not None:
        _check_out(out, shape, dtype)
    requested = _arguments(backend, scheme, max_growth, threads, workspace_limit, check)
    result = np.empty(shape, dtype) if out is None else out
    _core(a, b, c_array, alpha, beta, result, dtype, requested, fresh=out is None)
    return result


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    /,
    out: np.ndarray | tuple[np.ndarray] | None = None,
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
    a, b : array_like
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
    are left to `numpy.matmul` unless a scheme is asked for by name.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.matmul(np.ones((5, 2, 3)), np.ones(3)).shape
    (5, 2)
    """
    requested = _arguments(backend, scheme, max_growth, threads, workspace_limit, check)
    asked = requested.scheme not in ("auto", "classical")
    a, b = _plain(a), _plain(b)
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    special = not (
        type(a) is np.ndarray and type(b) is np.ndarray and (out is None or type(out) is np.ndarray)
    )
    if not special:
        special = min(a.ndim, b.ndim) == 0 or not all(x.dtype.kind in "iufc" for x in (a, b))
    if special:
        if asked:
            raise TypeError(
                f"scheme {requested.scheme!r} needs plain numeric arrays of at least one axis; "
                f"got a {_describe(a)} and b {_describe(b)}"
            )
        return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)
    left = a[np.newaxis, :] if a.ndim == 1 else a
    right = b[:, np.newaxis] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"matmul: a has shape {a.shape} and b {b.shape}: the inner dimensions "
            f"{left.shape[-1]} and {right.shape[-2]} differ"
        )
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(
            f"matmul: the batch axes of a {a.shape} and b {b.shape} cannot be broadcast together"
        ) from None
    dtype = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    full = (*batch, left.shape[-2], right.shape[-1])
    dropped = tuple(axis for axis, x in ((len(full) - 2, a), (len(full) - 1, b)) if x.ndim == 1)
    shape = tuple(size for axis, size in enumerate(full) if axis not in dropped)
    if out is not None:
        _check_out(out, shape, dtype)
    if requested.scheme == "classical" or (not asked and min(full[-2:]) == 1):
        # Vectors are bound by memory: nothing to decide.
        if requested.backend in ("auto", "numpy"):
            return np.matmul(a, b) if out is None else np.matmul(a, b, out=out)
    result = np.empty(shape, dtype) if out is None else out
    target = np.expand_dims(result, dropped)
    if out is not None and batch and (_overlap(out, a) or _overlap(out, b)):
        target = np.empty(full, dtype)  # a later product may read what an earlier one wrote
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    for index in np.ndindex(*batch):
        _core(
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
    if target.size and not np.shares_memory(target, result):
        np.copyto(result, target.reshape(shape), casting="same_kind")
    return result if result.ndim or out is not None else result[()]


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
    a_shape, a_dtype, a_direct = _shape_and_dtype("a", a)
    b_shape, b_dtype, b_direct = _shape_and_dtype("b", b)
    if a_shape[1] != b_shape[0]:
        raise ValueError(f"a has shape {a_shape} and b {b_shape}: a's columns must equal b's rows")
    if dtype is None:
        kinds = [x for x in (a_dtype, b_dtype) if x is not None]
        dtype = np.result_type(*kinds) if kinds else np.float64
    native = np.dtype(dtype).newbyteorder("=")
    _check_numeric("dtype", native)
    requested = _arguments(backend, scheme, max_growth, threads, workspace_limit, None)
    problem = Problem(
        a_shape[0],
        b_shape[1],
        a_shape[1],
        native,
        False,
        a_direct and a_dtype in (None, native),
        b_direct and b_dtype in (None, native),
    )
    return _plan_for(problem, requested)


def _core(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    alpha: Any,
    beta: Any,
    out: np.ndarray,
    dtype: np.dtype,
    requested: Settings,
    *,
    fresh: bool,
) -> None:
    """Multiply in core form: 2-D operands of fitting shapes, `out` writable and given."""
    M, K = a.shape
    N = b.shape[1]
    if M == 0 or N == 0:
        return
    if K == 0 or alpha == 0:
        if c is None:
            out[...] = 0
        else:
            with np.errstate(all="ignore"):
                np.multiply(c, beta, out=out, casting="same_kind")
        return
    buffered = c is not None or (
        not fresh
        and (
            out.dtype != dtype or not _is_direct(out, dtype) or _overlap(out, a) or _overlap(out, b)
        )
    )
    problem = Problem(M, N, K, dtype, buffered, _is_direct(a, dtype), _is_direct(b, dtype))
    chosen = _plan_for(problem, requested)
    test = Freivalds(a, b, c, alpha, beta) if requested.check == "verify" else None
    chosen.backend.execute(chosen, a, b, c, out, alpha=alpha, beta=beta, check=requested.check)
    if test is None:
        return
    outcome = test.check(out, chosen.growth)
    if not outcome:
        raise VerificationError(
            f"the product of {chosen.problem} by {chosen.option.label} failed Freivalds' check: "
            f"residual {outcome.residual:.3g} > tolerance {outcome.tolerance:.3g}"
        )


def _plan_for(problem: Problem, requested: Settings) -> Plan:
    """Return the cached plan of a problem, or make one."""
    threads = thread_count(requested.threads)
    key = (
        problem,
        requested.backend,
        requested.scheme,
        requested.max_growth,
        threads,
        requested.workspace_limit,
    )
    found = _plans.get(key)
    if found is not None:
        return found
    scheme = requested.scheme
    if isinstance(scheme, str) and scheme not in ("auto", "classical"):
        scheme = _schemes.get(scheme)
    request = Request(scheme, requested.max_growth, requested.workspace_limit, threads)
    name = requested.backend
    backends = available_backends() if name == "auto" else [get_backend(name)]
    made = select(problem, request, backends, _rates)
    while len(_plans) >= _CACHED_PLANS:
        _plans.pop(next(iter(_plans)), None)
    _plans[key] = made
    if requested.verbose:
        _log.info("%s", made.explain())
    return made


def _rates(backend: Backend, dtype: np.dtype) -> Rates:
    return rates(backend.name, dtype, backend.measure)


# --- validation ----------------------------------------------------------------------------


def _arguments(
    backend: str,
    scheme: str | _schemes.Scheme,
    max_growth: float | None,
    threads: int | None,
    workspace_limit: int | None,
    check: str | None,
) -> Settings:
    """Merge explicit arguments with the settings in force; "auto" defers to these."""
    base = settings()
    given = {
        name: value
        for name, value in (
            ("backend", backend),
            ("scheme", scheme),
            ("max_growth", max_growth),
            ("threads", threads),
            ("workspace_limit", workspace_limit),
            ("check", check),
        )
        if value is not None and not (type(value) is str and value == "auto")
    }
    if not given:
        return base
    validate(**given)
    if not isinstance(given.get("scheme", ""), str | _schemes.Scheme):
        raise TypeError(f"scheme is a {type(scheme).__name__}; expected a name or a Scheme")
    return Settings(
        given.get("backend", base.backend),
        given.get("scheme", base.scheme),
        given.get("max_growth", base.max_growth),
        given.get("threads", base.threads),
        given.get("workspace_limit", base.workspace_limit),
        given.get("check", base.check),
        base.verbose,
    )


def _matrix(name: str, value: Any) -> np.ndarray:
    array = value if type(value) is np.ndarray else _converted(name, value)
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}; expected a matrix (use falcon.matmul for vectors "
            "and batches)"
        )
    _check_numeric(name, array.dtype)
    return array


def _converted(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be lost; fill it first")
    if not isinstance(value, np.ndarray) and hasattr(type(value), "__cuda_array_interface__"):
        raise TypeError(
            f"{name} is a {type(value).__name__} in GPU memory; backend 'gpu' is needed"
        )
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be converted to an array: {error}") from None


def _check_numeric(name: str, dtype: np.dtype) -> None:
    if dtype.kind not in "iufc":
        raise TypeError(f"{name} has dtype {dtype}; expected integers, floats or complex numbers")


def _plain(value: Any) -> Any:
    """Turn lists and scalars into arrays; leave arrays, subclasses and foreign arrays alone."""
    if isinstance(value, np.ndarray) or hasattr(type(value), "__array_ufunc__"):
        return value
    return np.asarray(value)


def _describe(value: Any) -> str:
    return f"{type(value).__name__} {getattr(value, 'shape', '')} {getattr(value, 'dtype', '')}"


def _shape_and_dtype(name: str, value: Any) -> tuple[tuple[int, int], np.dtype | None, bool]:
    if isinstance(value, tuple) and all(isinstance(x, int | np.integer) for x in value):
        if len(value) != 2 or min(value) < 0:
            raise ValueError(f"{name} is the shape {value}; expected two sizes >= 0")
        return (int(value[0]), int(value[1])), None, True
    array = _matrix(name, value)
    return array.shape, array.dtype, _is_direct(array, array.dtype)  # type: ignore[return-value]


def _is_nonzero(beta: Any) -> bool:
    try:
        return bool(beta != 0)
    except (TypeError, ValueError):
        raise TypeError(f"beta is {beta!r}; expected a number") from None


def _scalar(name: str, value: Any, dtype: np.dtype) -> Any:
    """Return alpha or beta in the arithmetic's dtype, refusing what it cannot represent."""
    if not isinstance(value, int | float | complex | np.number):
        raise TypeError(f"{name} is {value!r}; expected a number")
    if dtype.kind in "iu" and not (
        (isinstance(value, int | float)
        and float(value).is_integer())
        or isinstance(value, np.integer)
    ):
        raise TypeError(f"{name} is {value!r}; integer matrices ({dtype}) need an integer")
    if dtype.kind != "c" and isinstance(value, complex | np.complexfloating):
        raise TypeError(f"{name} is {value!r}, but the matrices are real ({dtype})")
    if dtype.kind in "iu":  # wraps, as the products do
        return np.array(int(value) % 2 ** (8 * dtype.itemsize), np.uint64).astype(dtype)[()]
    return dtype.type(value)


def _check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; expected a NumPy array")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}; expected {shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(
            f"out has dtype {out.dtype}, to which the result's {dtype} does not cast (same_kind)"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")


def _is_direct(x: np.ndarray, dtype: np.dtype) -> bool:
    """Whether BLAS can use the array as it stands: dtype, alignment, one unit stride."""
    if x.dtype != dtype or not x.dtype.isnative or not x.flags.aligned:
        return False
    rows, columns = x.strides
    size = x.itemsize
    by_rows = columns == size and rows >= x.shape[1] * size and rows % size == 0
    by_columns = rows == size and columns >= x.shape[0] * size and columns % size == 0
    return by_rows or by_columns or x.flags.forc


def _overlap(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(np.may_share_memory(x, y))  # bounds only: a false alarm costs a buffer
