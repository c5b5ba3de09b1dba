"""`gemm`: check a user's arguments and multiply two matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from falcon import schemes
from falcon._backends import get_backend
from falcon._core.dtypes import DType, both, dtype_of
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, Options
from falcon._core.packed import PackedOperand

from .adapters import Adapter, adapt_operands
from .arithmetic import (
    alike,
    check_out,
    operand_type,
    result_type,
    scalar_type,
    terms_of,
    why_not_wide,
)
from .calls import State, recall, remember, stated
from .execute import Product, multiply
from .planner import resolve_options
from .validate import check_added, check_matrix, check_scalar, check_shape

# Types of alpha and beta of calls that are recalled.
_SCALARS = float, int


@overload
def gemm(a: np.ndarray, b: np.ndarray | PackedOperand, c: np.ndarray | None = None, *,
         alpha: complex = 1.0, beta: complex = 0.0, out: np.ndarray | None = None,
         dtype: npt.DTypeLike | None = None,
         **options: Unpack[CallOptions]) -> np.ndarray: ...  # fmt: skip
@overload
def gemm(a: Any, b: Any, c: Any = None, *, alpha: complex = 1.0, beta: complex = 0.0,
         out: Any = None, dtype: Any = None,
         **options: Unpack[CallOptions]) -> Any: ...  # fmt: skip
@takes_options(*KEYWORDS)
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Any = None,
    dtype: Any = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply two matrices: ``alpha * a @ b + beta * c``.

    Parameters
    ----------
    a : array_like, shape (M, K)
    b : array_like or PackedOperand, shape (K, N)
        Integer, float or complex, any strides and byte order; torch tensors in host memory; or
        CuPy arrays or torch tensors on one GPU, floats or complex (see docs/gpu.md). A packed
        operand brings its scheme and backend with it.
    c : array_like, shape (M, N), optional
        Read only where `beta` is not zero; never written, unless it is `out` too.
    alpha, beta : scalar
        Must be representable in the result's kind: integers for integer matrices. As in BLAS,
        ``alpha == 0`` never reads `a` and `b`, ``beta == 0`` never reads `c`.
    out : ndarray, shape (M, N), optional
        Receives the result; may overlap any operand. It may have any dtype to which the result
        casts by the rule "same_kind". A float32 `out` receives the float32 sums of float16 and
        bfloat16 products without rounding to the operands' type.
    dtype : dtype, optional
        Of the result and of the arithmetic: the result is that of operands cast to it first, by the
        rule "same_kind", as in `numpy.matmul`. Products of int8, uint8 (also one by the other) and
        int16 are exact in int32, those of float16 and bfloat16 are accumulated and returned in
        float32; on the CPU neither needs a copy of an operand (docs/types.md). May be a torch
        dtype.
    {options}

    Returns
    -------
    ndarray (or tensor, or GPU array of the caller's library), shape (M, N)
        `out`, or a new C-ordered array of `dtype`; by default ``np.result_type(a, b)`` (with `c`
        if `beta` is not zero), or the dtype for which `b` was packed.

    Raises
    ------
    ValueError
        Shapes do not match, an argument is out of range, a backend is not available, or
        the workspace limit is too small.
    TypeError
        A dtype or argument has the wrong kind, or an operand does not cast to `dtype`.
    VerificationError
        ``check="verify"`` found the result wrong.

    Notes
    -----
    A scheme's error is bounded by norms, not entry by entry: with "auto" the error of c_ij stays
    below ``1.5 growth u sqrt(K) norm(a_i) norm(b_j)``, which `Plan.error_bound` returns (without
    overflow or underflow, and on data without adversarial structure). Schemes add rows of `a`
    (columns of `b`) to one another, so that errors of the largest affect the smallest: before
    "auto" runs one, a pass over `a` and `b` compares their norms, and if these differ too much,
    rows and columns are scaled by powers of two (logged to "falcon" at level DEBUG). With a scheme
    by name, rows and columns much smaller than the largest may have large relative errors, and rows
    and columns of zeros give such errors instead of zeros. Integer results wrap exactly as NumPy's
    do.

    Source of the method: FalconGEMM, arXiv:2605.06057.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a, b = np.eye(3), np.arange(9.0).reshape(3, 3)
    >>> bool((falcon.gemm(a, b, scheme="strassen") == b).all())
    True
    """
    packed = b if isinstance(b, PackedOperand) else None
    arguments = stated(options, dtype)
    if packed is not None and not packed.is_packed:
        b, arguments = packed.source, (*arguments, ("packed", (packed.kept, packed.dtype)))
    plain_call = type(alpha) in _SCALARS and type(beta) in _SCALARS and (beta == 0) == (c is None)
    if plain_call and (alpha != 1 or beta != 0):
        arguments = (*arguments, ("alpha", alpha), ("beta", beta))
    if plain_call and (result := recall(a, b, out, arguments, c, ndim=2)) is not None:
        return result
    state = State.now()
    check_added(beta, c)
    adapter, a, b, c, target = adapt_operands(a=a, b=b, c=c, out=out)
    product, empty = _product(adapter, (a, b, c, target), packed, dtype, options, (alpha, beta))
    with adapter.current():
        if out is None:
            product = replace(product, out=empty())
        how = multiply(product)
    if plain_call and (product.c is None) == (c is None):
        written = None if out is None else product.out
        remember((a, b, c, written), arguments, state, how, product.out, adapter)
    return adapter.wrap(product.out) if out is None else out


def _product(
    adapter: Adapter,
    operands: tuple[Any, Any, Any, Any],
    packed: PackedOperand | None,
    dtype: Any,
    options: Mapping[str, Any],
    factors: tuple[Any, Any],
) -> tuple[Product, Callable[[], Any]]:
    """Check what a call gave, in the order of its errors, and return what is to be multiplied.

    Also what makes a new result. `operands`: a, b, c and out; `factors`: alpha and beta.
    """
    a, b, c, out = operands
    resolved = options_for(packed, "gemm", KEYWORDS, options, adapter.device)
    left = adapter.array("a", a)
    source: Any = adapter.array("b", b) if packed is None else packed.source
    right: Any = packed if source is None else source  # has shape and dtype
    added = None if c is None else adapter.array("c", c)
    (M, K), N = _checked_shapes(left, right, added), right.shape[1]
    target = None if out is None else adapter.target(out)
    multiplied = [left, right if packed is None else packed]
    read = {"a": multiplied[0], "b": multiplied[1]}
    if added is not None and factors[1] != 0:
        read["c"] = added
    terms = terms_of(left, resolved) if packed is None else 0
    result_dtype = result_type(adapter, read, dtype, target, resolved.one_modulus, terms)
    kind = scalar_type(adapter, result_dtype).numpy
    named = zip(("alpha", "beta"), factors, strict=True)
    how = kind, resolved.one_modulus, resolved.overflow != "wrap"
    alpha, beta = (check_scalar(name, x, *how) for name, x in named)
    if beta == 0:  # given, or rounded to it
        added = None
    if target is not None:
        check_out(adapter, target, (M, N), result_dtype)
    operand_dtype = operand_type(adapter, multiplied, result_dtype, resolved)
    if packed is not None:
        # Only keywords: settings of backend and scheme do not apply to a packed operand.
        given = (options.get("backend") or "auto", options.get("scheme") or "auto")
        check_packed(packed, result_dtype, *given)
        operand_dtype = packed_type(packed, left, adapter.dtype(left), result_dtype)
    like = alike(dtype, [x for x in (left, source, added) if x is not None])
    arrays = left, (K, N) if source is None else source, added, target
    by_panels = packed if packed is not None and packed.is_packed else None
    made = Product(adapter, *arrays, operand_dtype, result_dtype, resolved, alpha, beta, by_panels)
    return made, partial(adapter.empty, (M, N), result_dtype, like)


def _checked_shapes(a: Any, b: Any, c: Any) -> tuple[int, int]:
    """Return the shape of a, if a, b and c fit."""
    for name, x in (("a", a), ("b", b), ("c", c)):
        check_matrix(name, x, " (use falcon.matmul for vectors and batches)")
    (M, K), (inner, N) = a.shape, b.shape
    if inner != K:
        raise ValueError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}: a's columns ({K}) must "
            f"equal b's rows ({inner})"
        )
    check_shape("c", c, (M, N))
    return M, K


def options_for(
    packed: PackedOperand | None,
    function: str,
    names: tuple[str, ...],
    keywords: Mapping[str, Any],
    device: int | None,
) -> Options:
    """Return the options; a b of `pack` brings its modulus, and if it is not packed its options."""
    if packed is not None:
        modulus = keywords.get("modulus")
        if modulus not in (None, packed.modulus):
            what = f"modulus={packed.modulus}" if packed.modulus else "products without a modulus"
            raise ValueError(f"modulus is {modulus}, but b was packed for {what}")
        keywords = {**keywords, "modulus": packed.modulus}
    if packed is None or packed.is_packed:
        return resolve_options(function, names, keywords, device)
    resolved = resolve_options(function, names, {**dict(packed.kept), **keywords}, device)
    # Only a keyword: as for panels, a setting is no scheme by name.
    by_name = keywords.get("scheme") not in (None, "auto")
    return resolved if by_name else replace(resolved, scheme="auto")


def check_packed(
    packed: PackedOperand, dtype: DType, backend: str, scheme: str | schemes.Scheme | Any
) -> None:
    """Raise if arguments contradict how b was packed; modulo p, the type of the result is free."""
    if packed.modulus is None and dtype.numpy != packed.dtype:
        raise TypeError(f"the arithmetic would be {dtype}, but b was packed for {packed.dtype}")
    if not packed.is_packed:
        return
    if backend not in ("auto", packed.backend):
        raise ValueError(f"backend is {backend!r}, but b was packed for {packed.backend!r}")
    given = scheme
    if isinstance(scheme, str) and scheme not in ("auto", "classical"):
        scheme = schemes.get(scheme)
    wanted = None if isinstance(scheme, str) else scheme
    if scheme != "auto" and not packed.is_for(wanted):
        raise ValueError(f"scheme is {given!r}, but b is {packed!r}")


def packed_type(packed: PackedOperand, a: Any, a_type: DType | None, result: DType) -> DType:
    """Return the type of the operands for a packed b, and an a whose elements are `a_type`."""
    if packed.panels is None or packed.modulus is not None:
        return result
    panels, why = dtype_of(packed.panels), ""
    operand_dtype = None if a_type is None else both(a_type, panels)
    if operand_dtype is panels:
        return panels
    if operand_dtype is not None and result in operand_dtype.wide:
        reason = why_not_wide(get_backend(packed.backend), operand_dtype, result, packed.scheme)
        if reason is None:
            return operand_dtype
        why = f" ({reason})"
    if a_type is None or not np.can_cast(a_type.numpy, panels.numpy, "safe"):
        raise TypeError(
            f"a has dtype {a.dtype}, but b was packed for products of {panels} in {result}{why}; "
            "pack a b that was converted to the common type of both"
        )
    return panels
