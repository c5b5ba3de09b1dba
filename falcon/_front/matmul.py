"""`matmul`: vectors, batches and broadcasting, reduced to products in core form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from falcon._core.dtypes import DType, dtype_of
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, Options, merge_keywords
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.runner import BoundRun
from falcon._numpy import original
from falcon._tools.locks import importing

from . import booleans
from .adapters import Adapter, adapt_operands
from .adapters.host import NUMPY
from .arithmetic import alike, check_cast, check_out, operand_type, result_type, typed
from .buffers import without
from .calls import State, recall, remember, stated
from .execute import Product, multiply
from .fallback import numpy_product
from .gemm import gemm
from .planner import resolve_options
from .validate import matmul_shape
from .views import as_matrices


@overload
def matmul(a: np.ndarray, b: np.ndarray | PackedOperand, /, out: np.ndarray | None = None, *,
           dtype: npt.DTypeLike | None = None,
           **options: Unpack[CallOptions]) -> np.ndarray: ...  # fmt: skip
@overload
def matmul(a: Any, b: Any, /, out: Any = None, *, dtype: Any = None,
           **options: Unpack[CallOptions]) -> Any: ...  # fmt: skip
@takes_options(*KEYWORDS)
def matmul(
    a: Any, b: Any, /, out: Any = None, *, dtype: Any = None, **options: Unpack[CallOptions]
) -> Any:
    """Multiply as `numpy.matmul` does: vectors, batches, broadcasting.

    Parameters
    ----------
    a, b : array_like (`b` may also be a `PackedOperand`)
        At least 1-D. The last two axes are matrices, the others are broadcast; a 1-D operand is a
        row (`a`) or column (`b`) vector whose axis is dropped from the result.
    out : ndarray or 1-tuple of ndarray, optional
        As for `numpy.matmul`; a float32 `out` receives unrounded sums, as in `gemm`.
    dtype : dtype, optional
        Of the result and of the arithmetic, as in `gemm`.
    {options}

    Returns
    -------
    ndarray or scalar
        Shape and dtype of ``np.matmul(a, b, dtype=dtype)``; with several moduli an array of one
        such product for each, from one pass over `a` and `b`.

    Raises
    ------
    ValueError, TypeError
        As `numpy.matmul`; and as `gemm` for the other arguments.

    Notes
    -----
    Booleans are counted: int32 sums of products of uint8, of which each that is not 0 is True.
    Small and dense ones, for which NumPy is faster, and operands that no scheme can multiply
    (objects, array subclasses, other arrays) are passed to `numpy.matmul`; with a scheme or another
    backend by name, they raise TypeError. For numeric operands, overflow and invalid values show in
    the result, as with BLAS, without warnings.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.matmul(np.ones((5, 2, 3)), np.ones(3)).shape
    (5, 2)
    """
    arguments = stated(options, dtype)
    if (recalled := recall(a, b, out, arguments)) is not None:
        return recalled
    if booleans.are_numpys(a, b, out, arguments):
        return original.matmul(a, b, out)
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    adapter, a, b, target = adapt_operands(a=a, b=b, out=out)
    if isinstance(b, PackedOperand):
        result = _by_packed(adapter, a, b, target, dtype, options)
    else:
        try:
            result = _product(adapter, a, b, target, dtype, options, arguments)
        except OverflowError as error:
            chosen = merge_keywords("matmul", KEYWORDS, options)
            is_asked = chosen.overflow == "widen" and dtype is out is None and adapter is NUMPY
            if not is_asked:
                raise
            with importing():
                from .overflow import in_python
            result = in_python(error, a, b)
    return adapter.wrap(result) if out is None else out


def _product(
    adapter: Adapter, a: Any, b: Any, out: Any, dtype: Any, options: CallOptions, arguments: tuple
) -> Any:
    """Multiply operands that are not packed, and keep how; return `out`, or the new result."""
    state = State.now()
    resolved = resolve_options("matmul", KEYWORDS, options, adapter.device)
    if dtype is None and booleans.are_counted(a, b, out, resolved):
        counts = matmul(a.view(np.uint8), b.view(np.uint8), dtype="int32", **options)
        return np.not_equal(counts, 0, out=out)
    if resolved.overflow != "wrap":
        a, b = booleans.as_integers(a, b)  # else they are NumPy's
    if isinstance(resolved.modulus, tuple):
        result, how = _by_moduli(adapter, a, b, out, dtype, resolved)
        remember((a, b, None, out), arguments, state, how, result, adapter)
        return result
    result = numpy_product(adapter, a, b, out, dtype, resolved)
    if result is not NotImplemented:
        return result
    left, right = adapter.array("a", a), adapter.array("b", b)
    target = None if out is None else adapter.target(out)
    with adapter.current():
        types = typed(adapter, {"a": left, "b": right}, dtype, target, resolved)
        like = alike(dtype, (left, right))
        result, how = _multiplied(adapter, left, right, target, types, like, resolved)
        remember((a, b, None, target), arguments, state, how, result, adapter)
    return result if len(result.shape) else adapter.scalar(result)


def _multiplied(
    adapter: Adapter,
    a: Any,
    b: Any,
    out: Any,
    types: tuple[DType, DType],
    like: Sequence[Any],
    options: Options,
) -> tuple[Any, tuple[Plan, BoundRun] | None]:
    """Multiply arrays of at least one axis; return `out` with all axes, or the new result.

    Also what `multiply` returns, for arrays of these shapes.
    `types` are those of `Product`, `like` the arrays for `Adapter.empty`.
    """
    dtype = types[1]
    if out is not None:
        check_cast(adapter, out, dtype)  # before shapes, as in NumPy
    a_shape, b_shape = tuple(a.shape), tuple(b.shape)
    batch, kept = matmul_shape(a_shape, b_shape, None if out is None else tuple(out.shape))
    shape = (*batch, *kept)
    result = out
    if out is None:
        result = adapter.empty(shape, dtype, like)
    else:
        missing = len(shape) - len(out.shape)
        if missing > 0 and len(out.shape) >= min(len(kept), 1):
            # As in NumPy, leading axes of size 1 may be missing in out.
            result = out[(None,) * missing]
        check_out(adapter, result, shape, dtype)
    viewed = as_matrices(a, b, result, batch)
    left, right, target = (a, b, result) if viewed is None else viewed(a, b, result)
    if out is not None and len(target.shape) > 2:
        written = adapter.matrix(out)
        if any(written.overlaps(adapter.matrix(x)) for x in (a, b)):
            # An earlier product may overwrite what a later one reads.
            options = without(options, target.shape, dtype)
            made = adapter.empty(tuple(target.shape), dtype)
            multiply(Product(adapter, left, right, None, made, *types, options))
            adapter.copy(made.reshape(shape), result)
            return result, None
    done = multiply(Product(adapter, left, right, None, target, *types, options))
    if done is None or viewed is None:
        return result, done
    plan, run = done

    def of_views(a: Any, b: Any, c: Any, out: Any) -> None:
        x, y, z = viewed(a, b, out)
        run(x, y, None, z)

    return result, (plan, of_views)


def _by_moduli(
    adapter: Adapter, a: Any, b: Any, out: Any, dtype: Any, options: Options
) -> tuple[np.ndarray, tuple[Plan, BoundRun] | None]:
    """Multiply modulo several numbers, whose axis is the first one of the result.

    Also return what `multiply` does, for matrices.
    """
    a, b, moduli = adapter.array("a", a), adapter.array("b", b), options.modulus
    assert isinstance(moduli, tuple)  # for type checkers
    target = None if out is None else adapter.target(out)
    written = result_type(adapter, {"a": a, "b": b}, dtype, target, max(moduli))
    types = operand_type(adapter, [a, b], written, options), written
    batch, kept = matmul_shape(a.shape, b.shape, None)
    shape = (len(moduli), *batch, *kept)
    if target is not None:
        check_out(adapter, target, shape, written)
    overlaps = any(np.may_share_memory(target, x) for x in (a, b))
    done = None
    result: Any = target
    if target is None or overlaps:
        result = adapter.empty(shape, written, alike(dtype, (a, b)))
    if options.check == "verify":
        for i, p in enumerate(moduli):
            one = replace(options, modulus=p)
            _multiplied(adapter, a, b, result[i, ...], types, (), one)
    else:
        viewed = as_matrices(a, b, result, ())
        left, right, made = (a, b, result) if viewed is None else viewed(a, b, result)
        left, right = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (left, right))
        for at in np.ndindex(*batch):
            out = made[(slice(None), *at)]
            done = multiply(Product(adapter, left[at], right[at], None, out, *types, options))
        done = None if batch or viewed else done
    if overlaps:
        adapter.copy(result, target)
    return result, None if overlaps else done


def _by_packed(
    adapter: Adapter, a: Any, b: PackedOperand, out: Any, dtype: Any, options: CallOptions
) -> Any:
    """Multiply a vector, a matrix or a batch by a packed operand: all rows in one product."""
    merge_keywords("matmul", KEYWORDS, options)  # errors name matmul, not gemm
    array = adapter.array("a", a)
    if len(array.shape) == 0:
        raise ValueError("matmul: a is a scalar; expected at least one axis")
    if array.shape[-1] != b.shape[0]:
        raise ValueError(
            f"matmul: a has shape {tuple(array.shape)} and b {b.shape}: the inner dimensions differ"
        )
    shape = (*array.shape[:-1], b.shape[1])
    target = None if out is None else adapter.target(out)
    if target is not None:
        kind, row = dtype_of(b.dtype), adapter.dtype(target)
        if dtype is None and b.modulus is not None and row is not None and row.is_exact:
            kind, dtype = row, row.name
        check_out(adapter, target, shape, kind)
    rows = int(np.prod(array.shape[:-1]))
    if len(shape) == 2:
        return gemm(array, b, out=target, dtype=dtype, **options)
    with adapter.current():
        product: Any = gemm(array.reshape(rows, b.shape[0]), b, dtype=dtype, **options)
        product = product.reshape(shape)
        if target is not None:
            adapter.copy(product, target)
    return product
